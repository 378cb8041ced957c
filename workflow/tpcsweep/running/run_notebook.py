"""`papermill` whose kernels are reached by socket files: notebooks need no network, not even the loopback interface."""

from __future__ import annotations

import tempfile
from typing import Any

from papermill.cli import papermill  # type: ignore[import-untyped]
from papermill.engines import NBClientEngine, papermill_engines  # type: ignore[import-untyped]
from traitlets.config import Config


class LocalEngine(NBClientEngine):  # type: ignore[misc]
    """Papermill's own engine; its command line reads no configuration of Jupyter's."""

    @classmethod
    def execute_managed_notebook(cls, nb_man: Any, kernel_name: str, **options: Any) -> Any:
        """Run a notebook's cells."""
        # Sockets of its own: by default they are kernel-ipc-1 and so on in the current folder for every kernel.
        with tempfile.TemporaryDirectory(prefix="tpcsweep-") as folder:
            config = Config({"KernelManager": {"transport": "ipc", "ip": f"{folder}/kernel"}})
            return super().execute_managed_notebook(nb_man, kernel_name, config=config, **options)


papermill_engines.register(None, LocalEngine)

if __name__ == "__main__":
    papermill()
