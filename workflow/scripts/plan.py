"""Answer the question of the configuration with the chosen model: JSON and figure."""

from pathlib import Path

import xarray as xr
from tpcsweep.configuration.loading import ConfigurationError, load
from tpcsweep.figures import save
from tpcsweep.figures.plan import plan as draw
from tpcsweep.files import write_json
from tpcsweep.models import MODELS, observe, saved
from tpcsweep.planning.plan import chosen, plan
from tpcsweep.running.reporting import reported

run = load(snakemake.config, Path()).run
with reported(snakemake.log[0], ConfigurationError, saved.SavedError):
    fits = saved.read(snakemake.input.models, MODELS)
    model, data = chosen(fits, observe(xr.load_dataset(snakemake.input.dataset)), run.given)
    answer = plan(model, data=data, **run.content)
write_json(Path(snakemake.output.answer), answer.to_dict())
figure = Path(snakemake.output.png)
save(draw(answer), figure.parent, figure.stem)
