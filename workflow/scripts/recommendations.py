"""Write the table of recommended streams as JSON and CSV."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import xarray as xr
from tpcsweep.configuration.loading import ConfigurationError, load
from tpcsweep.models import MODELS, observe, saved
from tpcsweep.planning.chosen import chosen
from tpcsweep.planning.recommendations import as_csv, as_dict, measured_rtts, recommend

if TYPE_CHECKING:
    from snakemake.script import snakemake

run = load(snakemake.config, Path()).run
try:
    models = saved.read(snakemake.input.models, MODELS)
    observations = observe(xr.load_dataset(snakemake.input.dataset))
    model, data = chosen(models, observations, run.given)
    table = recommend(model, measured_rtts(observations), **run.content)
except (ConfigurationError, saved.SavedError) as error:
    Path(snakemake.log[0]).write_text(f"{error}\n")
    sys.exit(str(error))
about = {"data": data, "model": model.name, "probability": run.probability, "given": run.given}
Path(snakemake.output.json).write_text(json.dumps(as_dict(table, about), indent=1) + "\n")
Path(snakemake.output.csv).write_text(as_csv(table))
