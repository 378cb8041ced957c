"""The tools that move the bytes, by the name that a sweep gives them. A new tool is a file and a line here."""

from __future__ import annotations

from tpcsweep.tools.base import Credentials, Tool, Transfer, Worker
from tpcsweep.tools.curl import Curl
from tpcsweep.tools.gfal2_binding import Gfal2
from tpcsweep.tools.gfal_copy import GfalCopy
from tpcsweep.tools.native import Native

__all__ = ["TOOLS", "Credentials", "Tool", "Transfer", "Worker"]

TOOLS: dict[str, Tool] = {tool.name: tool for tool in (GfalCopy(), Curl(), Gfal2(), Native())}
