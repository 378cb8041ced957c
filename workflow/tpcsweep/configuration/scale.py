"""The scale of a sweep that stands in for a published one, and what such a sweep has otherwise than by it."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Annotated, Any

from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError

from tpcsweep.configuration.parameters import Strict

_ONE_OVER = r"1/[1-9][0-9]*"


def _checked(text: object) -> Any:
    if not isinstance(text, str) or not re.fullmatch(_ONE_OVER, text):
        allowed = "one over a whole number, such as 1/200"
        raise PydanticCustomError("scale", "{allowed}", {"given": repr(text), "allowed": allowed})
    return text


Factor = Annotated[str, BeforeValidator(_checked), Field(json_schema_extra={"pattern": f"^{_ONE_OVER}$"})]
"""What bandwidths, cores, files and buffers are multiplied by: 1/200."""


class Scale(Strict):
    """How a sweep was made of a published one; `tpcsweep.published.scaling` writes it."""

    by: Factor = Field(description="what bandwidths, cores, files and buffers were multiplied by")
    notes: tuple[str, ...] = Field(
        default=(), description="what the sweep has not, or has otherwise than by the factor"
    )

    @property
    def factor(self) -> Fraction:
        """The factor as a number."""
        return Fraction(self.by)

    @property
    def attributes(self) -> dict[str, str]:
        """What a dataset's attributes say of it."""
        return {"scale": self.by, **({"scale_notes": "; ".join(self.notes)} if self.notes else {})}
