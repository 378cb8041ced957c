"""Answer the question of the configuration with the chosen model: JSON and figure."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import xarray as xr
from tpcsweep.configuration.loading import ConfigurationError, load
from tpcsweep.figures import save
from tpcsweep.figures.plan import plan as draw
from tpcsweep.models import MODELS, observe, saved
from tpcsweep.planning.chosen import chosen
from tpcsweep.planning.plan import plan

if TYPE_CHECKING:
    from snakemake.script import snakemake

run = load(snakemake.config, Path()).run
try:
    models = saved.read(snakemake.input.models, MODELS)
    model, data = chosen(models, observe(xr.load_dataset(snakemake.input.dataset)), run.given)
    answer = plan(model, data=data, **run.content)
except (ConfigurationError, saved.SavedError) as error:
    Path(snakemake.log[0]).write_text(f"{error}\n")
    sys.exit(str(error))
Path(snakemake.output.answer).write_text(json.dumps(answer.to_dict(), indent=1) + "\n")
figure = Path(snakemake.output.png)
save(draw(answer), figure.parent, figure.stem)
