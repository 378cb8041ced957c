"""Write the table of recommended streams as JSON and CSV."""

from pathlib import Path

import xarray as xr
from tpcsweep.configuration.loading import ConfigurationError, load
from tpcsweep.files import write_json, write_text
from tpcsweep.models import MODELS, observe, saved
from tpcsweep.planning.plan import chosen
from tpcsweep.planning.recommendations import as_csv, as_dict, measured_rtts, recommend
from tpcsweep.running.reporting import reported

run = load(snakemake.config, Path()).run
with reported(snakemake.log[0], ConfigurationError, saved.SavedError):
    observations = observe(xr.load_dataset(snakemake.input.dataset))
    model, data = chosen(saved.read(snakemake.input.models, MODELS), observations, run.given)
    table = recommend(model, measured_rtts(observations), **run.content)
about = {"data": data, "model": model.name, "probability": run.probability, "given": run.given}
write_json(Path(snakemake.output.json), as_dict(table, about))
write_text(Path(snakemake.output.csv), as_csv(table))
