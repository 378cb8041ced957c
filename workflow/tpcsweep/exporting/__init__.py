"""A dataset as text that existing dashboards read. `docs/exporting.md` describes both forms."""

from tpcsweep.exporting.cells import ExportError
from tpcsweep.exporting.monitoring import lines
from tpcsweep.exporting.openmetrics import exposition

__all__ = ["ExportError", "exposition", "lines"]
