# SPDX-License-Identifier: Apache-2.0
"""Transfer tools by their names in sweeps. Each module of this package that defines a tool is found by itself."""

import inspect
import pkgutil
from collections.abc import Iterator
from importlib import import_module

from tpcsweep.measuring import tools
from tpcsweep.measuring.tools.tool import Credentials, Place, Program, Service, Tool, Transfer, Worker

__all__ = ["TOOLS", "Credentials", "Place", "Program", "Service", "Tool", "Transfer", "Worker"]


def _found_tools() -> Iterator[Tool]:
    """Yield an instance of each named tool that a module of the package defines."""
    for found in pkgutil.iter_modules(tools.__path__, f"{tools.__name__}."):
        if found.name != __name__:
            for _, kind in inspect.getmembers(import_module(found.name), inspect.isclass):
                if kind.__module__ == found.name and issubclass(kind, Tool) and "name" in vars(kind):
                    yield kind()


TOOLS: dict[str, Tool] = {
    tool.name: tool for tool in sorted(_found_tools(), key=lambda tool: (tool.order, tool.name))
}
