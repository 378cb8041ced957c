"""The figures and tables of publications, each with the claims that it carries."""

from tpcsweep.published.figures import FIGURES

NAMES = tuple(FIGURES)
