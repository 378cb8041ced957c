# SPDX-License-Identifier: Apache-2.0
"""How a sweep was made smaller than the one that was published."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Annotated

from pydantic import BeforeValidator, Field

from tpcsweep.configuration.parameters import Strict
from tpcsweep.configuration.problems import fault

_ONE_OVER = r"1/[1-9][0-9]{0,6}"


def _factor(text: object) -> object:
    if not isinstance(text, str) or not re.fullmatch(_ONE_OVER, text):
        raise fault("one over a whole number, such as 1/200", repr(text))
    return text


Factor = Annotated[str, BeforeValidator(_factor), Field(json_schema_extra={"pattern": f"^{_ONE_OVER}$"})]
"""What bandwidths, cores, files and buffers are multiplied by: 1/200."""


class Scale(Strict):
    """The scale of a sweep; `configuration.scaling` writes it."""

    by: Factor = Field(description="what bandwidths, cores, files and buffers were multiplied by")
    notes: tuple[str, ...] = Field(
        default=(), description="what the sweep has not, or has otherwise than by the factor"
    )

    @property
    def factor(self) -> Fraction:
        return Fraction(self.by)

    @property
    def attributes(self) -> dict[str, str]:
        """What a dataset's attributes say of it."""
        return {"scale": self.by, **({"scale_notes": "; ".join(self.notes)} if self.notes else {})}
