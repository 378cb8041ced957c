# SPDX-License-Identifier: Apache-2.0
"""Numbers for people: every float on a terminal, a page or a figure becomes text here.

Files for programs keep all digits, and use `json_number` alone. Standard library only.
"""

import math
from decimal import Decimal
from numbers import Integral

GBIT = 8e-9  # Gbit in a byte; Gbit/s in a byte per second


GBIT_PER_MS = 8e-6  # Gbit/s in a byte per ms


BYTES = 125e6  # bytes in a Gbit


CONFIDENCE = 0.95
"""Confidence level of the intervals and tests that compare, model and judge cells, and the default of a dataset's."""

MAD_FACTOR = 1.4826  # standard deviation of a normal distribution over its median absolute deviation

AXIS_DIGITS = 6
"""Significant digits of configured values, such as those of an axis; measured values have three."""

_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_POWERS = range(-6, 9)  # powers of ten that are written out
_ROUNDING = 1e-9  # relative difference of numbers that are equal but for rounding errors


def short(value: float, digits: int = 3) -> str:
    """Return a number with significant digits, and all before the point: 0.3, 2226, 1.2×10⁻⁹, – (NaN), ∞."""
    if not isinstance(value, Integral) and not math.isfinite(value):
        return "–" if math.isnan(value) else "∞" if value > 0 else "-∞"
    exact = rounded(value, digits)
    power = exact.adjusted() if exact else 0
    if isinstance(value, Integral) or power in _POWERS:
        return written_out(exact)
    mantissa = Decimal(f"{value:.{digits - 1}e}").scaleb(-power)
    return f"{written_out(mantissa)}×10{str(power).translate(_SUPERSCRIPTS)}"


def plain(value: float) -> str:
    """Return a configured value, such as that of an axis: 0.1 + 0.2 is 0.3."""
    return short(value, AXIS_DIGITS)


def interval_ends(low: float, high: float) -> tuple[str, str]:
    """Return both ends of an interval, with digits by its width.

    The half-width has the digits that the Particle Data Group gives an error: two if it begins with 100 to 354,
    otherwise one (Review of Particle Physics, section 5.3). Each end has two significant digits or more. Ends that
    differ by rounding errors alone are equal.
    """
    half = (high - low) / 2
    if not (half > _ROUNDING * max(abs(low), abs(high)) and math.isfinite(half)):
        return short(low), short(high)
    power = math.floor(math.log10(half))
    decimals = (half < 3.55 * 10.0**power) - power
    digits = (max(2, decimals + 1 + (Decimal(float(end)).adjusted() if end else 0)) for end in (low, high))
    return short(low, next(digits)), short(high, next(digits))


def between(low: float, high: float) -> str:
    """Return both ends of an interval, with digits by its width: 0.98 to 1.02, 1.9978 to 2.0031; or one number."""
    first, last = interval_ends(low, high)
    return first if first == last else f"{first} to {last}"


def counted(number: int, noun: str) -> str:
    """Return a number of things: 1 cell, 2 cells."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def rounded(value: float, digits: int) -> Decimal:
    """Return a finite number with significant digits, and all before the point; ints keep all digits.

    It is first rounded to `AXIS_DIGITS`, as in tables for spreadsheets, so that a number and its copy there get the
    same text.
    """
    exact = Decimal(int(value) if isinstance(value, Integral) else float(value))
    if isinstance(value, Integral) or not exact:
        return exact
    for least in (max(digits, AXIS_DIGITS), digits):
        exact = Decimal(f"{exact:.{max(least, exact.adjusted() + 1) - 1}e}")
    return exact


def written_out(number: Decimal) -> str:
    """Return all digits of a number, without an exponent and trailing zeros."""
    return f"{number.normalize():f}" if number else "0"


def json_number(value: float, digits: int | None = None) -> float | None:
    """Return a number for JSON, rounded to significant digits if given, or None for NaN and infinity."""
    if not math.isfinite(value):
        return None
    return value if digits is None else float(f"{value:.{digits}g}")
