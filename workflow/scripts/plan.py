# SPDX-License-Identifier: Apache-2.0
"""Answer the question of the configuration with the chosen model, or tabulate recommended streams."""

from pathlib import Path

import xarray as xr
from tpcsweep.configuration.loading import ConfigurationError, load
from tpcsweep.figures import save
from tpcsweep.figures.plan import plan as draw
from tpcsweep.files import write_json, write_text
from tpcsweep.models import MODELS, observe, saved
from tpcsweep.planning.plan import chosen, plan
from tpcsweep.planning.recommendations import as_csv, as_dict, measured_rtts, recommend
from tpcsweep.running.scripts import reported

run, output = load(snakemake.config, Path()).run, snakemake.output
with reported(snakemake.log[0], ConfigurationError, saved.SavedError):
    observations = observe(xr.load_dataset(snakemake.input.dataset))
    model, data = chosen(saved.read(snakemake.input.models, MODELS), observations, run.given)
    if snakemake.rule == "answer":
        answer = plan(model, data=data, **run.content)
        write_json(Path(output.answer), answer.to_dict())
        figure = Path(output.png)
        save(draw(answer), figure.parent, figure.stem)
    else:
        table = recommend(model, measured_rtts(observations), **run.content)
        about = {"data": data, "model": model.name, "probability": run.probability, "given": run.given}
        write_json(Path(output.json), as_dict(table, about))
        write_text(Path(output.csv), as_csv(table))
