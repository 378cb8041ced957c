"""Which notebooks a sweep may have in its report besides the one that every sweep has, and what each is told.

A notebook `notebooks/NAME.ipynb` takes a dataset and a folder of figures, and for each field of its model here the
axis that is to have that place; it writes the figure NAME.
"""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import Field

from tpcsweep.configuration.parameters import Strict, Word
from tpcsweep.configuration.problems import Problem


class Curves(Strict):
    """Throughput over one axis, a curve for each value of another."""

    x: Word = Field(description="the axis that throughput is drawn over")
    curve: Word = Field(description="the axis that has a curve for each of its values")


class Notebooks(Strict):
    """The notebooks of a sweep's report, each with the axes that it shows."""

    curves: Curves | None = Field(
        default=None, description="throughput over one axis, a curve for each value of another"
    )

    @property
    def places(self) -> dict[str, dict[str, str]]:
        """For each notebook that is asked for, which axis has which place."""
        asked = {name: getattr(self, name) for name in type(self).model_fields}
        return {name: one.model_dump() for name, one in asked.items() if one is not None}

    def problems(self, axes: Iterable[str]) -> list[Problem]:
        """Places that are given to what is none of the axes, or to one twice."""
        known = list(axes)
        found = []
        for name, places in self.places.items():
            free = list(known)
            for place, axis in places.items():
                if axis in free:
                    free.remove(axis)
                else:
                    allowed = (
                        f"an axis: one of {', '.join(free)}" if free else "another axis, and there is none"
                    )
                    found.append(Problem(f"notebooks.{name}.{place}", axis, allowed))
        return found
