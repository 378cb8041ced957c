"""The parts of datasets that the two sides of a comparison mean.

Apart from `sides`, which every job imports with the configuration: xarray takes longer to import than a simulated cell.
"""

from __future__ import annotations

import xarray as xr

from tpcsweep.configuration.problems import ConfigurationError, Problem, suggest
from tpcsweep.configuration.sides import Side, shown


def load(one: Side) -> xr.Dataset:
    """Load the part of a dataset that a side means: what is chosen is a coordinate without a dimension.

    Raises:
        ConfigurationError: for what is no axis of the dataset, or a value that it does not have.
    """
    summary = xr.load_dataset(one.dataset)
    for name, value in one.chosen.items():
        if name not in summary.coords or name == "record":
            known = [str(axis) for axis in summary["throughput"].dims]
            raise ConfigurationError(
                [Problem(one.key, repr(one.text), f"for {name}: {suggest(name, known)}")]
            )
        values = summary[name].values.reshape(-1).tolist()
        wanted = str(value) if values and isinstance(values[0], str) else value
        if wanted not in values:
            allowed = ", ".join(shown(name, known) for known in values)
            raise ConfigurationError([Problem(one.key, repr(one.text), f"for {name}: one of {allowed}")])
        if name in summary.dims:
            summary = summary.isel({name: values.index(wanted)})
    return summary
