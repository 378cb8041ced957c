"""The tools that move the bytes, by the name that a sweep gives them. A new tool is a file and a line here."""

from __future__ import annotations

from tpcsweep.tools.base import Credentials, Tool, Transfer
from tpcsweep.tools.curl import Curl
from tpcsweep.tools.gfal_copy import GfalCopy

__all__ = ["TOOLS", "Credentials", "Tool", "Transfer"]

TOOLS: dict[str, Tool] = {tool.name: tool for tool in (GfalCopy(), Curl())}
