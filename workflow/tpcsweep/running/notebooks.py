# SPDX-License-Identifier: Apache-2.0
"""Run notebooks with parameters, by kernels on socket files, without any network or loopback."""

import ast
import logging
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import nbformat
import papermill  # type: ignore[import-untyped]
from nbconvert import HTMLExporter
from papermill.exceptions import PapermillExecutionError  # type: ignore[import-untyped]
from traitlets.config import Config

from tpcsweep.common import processes
from tpcsweep.common.files import write_text
from tpcsweep.common.installation import SHIPPED
from tpcsweep.pages import rendering

LONGEST = 64  # most characters of a folder for sockets, whose names have at most 107 (unix(7))
FOLDERS = (tempfile.gettempdir(), "/tmp", "/var/tmp", "/dev/shm")  # noqa: S108, for a TMPDIR that is too long


class NotebookError(RuntimeError):
    """A notebook with a cell that raises, or whose kernel ends; the text is one line with the reason."""

    def __init__(self, text: str, details: str = "") -> None:
        super().__init__(text)
        self.details = details  # the cell's traceback, for a log


@contextmanager
def _alone() -> Iterator[Path]:
    """Yield a temporary folder that is this process's home, so that libraries ignore the user's settings."""
    usable = (at for at in FOLDERS if len(at) <= LONGEST and os.access(at, os.W_OK | os.X_OK))
    with tempfile.TemporaryDirectory(prefix="tpcsweep-", dir=next(usable, None)) as folder:
        own = {"JUPYTER_PREFER_ENV_PATH": "1", "JUPYTER_NO_CONFIG": "1"}
        with patch.dict(os.environ, processes.python(Path(folder)) | own, clear=True):
            yield Path(folder)


def make_notebook(name: str, output: Path, values: Mapping[str, Any]) -> None:
    """Run a notebook of the package, and write it as one HTML file that needs no network.

    `values` replace the notebook's parameters of the same names. Raises NotebookError as `run_notebook` does.
    """
    for library in ("papermill", "traitlets"):  # their warnings concern notebook authors, not users
        logging.getLogger(library).setLevel(logging.ERROR)
    notebook = SHIPPED / "notebooks" / f"{name}.ipynb"
    with tempfile.TemporaryDirectory(prefix="tpcsweep-") as folder:
        executed = Path(folder, notebook.name)
        run_notebook(notebook, executed, values)
        export_notebook(executed, output)


def run_notebook(notebook: Path, output: Path, values: Mapping[str, Any]) -> None:
    """Run a notebook, and write it with its outputs after its end.

    The notebook gets the values that it declares as parameters, and imports modules from its own folder, as in Jupyter.
    Raises NotebookError if a cell raises or the kernel ends.
    """
    declared = _declared(notebook)
    parameters = {name: value for name, value in values.items() if name in declared}
    beside = f"--IPKernelApp.exec_lines=import sys; sys.path.insert(0, {str(notebook.parent.absolute())!r})"
    with _alone() as home:
        how: dict[str, Any] = {"kernel_name": "python3", "extra_arguments": [beside]}
        how["config"] = Config({"KernelManager": {"transport": "ipc", "ip": str(home / "kernel")}})
        with _notebook_errors(notebook.name):
            executed = papermill.execute_notebook(notebook, None, parameters, progress_bar=False, **how)
    write_text(output, nbformat.writes(executed))  # type: ignore[no-untyped-call]


@contextmanager
def _notebook_errors(name: str) -> Iterator[None]:
    """Convert errors of a notebook's cells and of its kernel to a NotebookError."""
    try:
        yield
    except PapermillExecutionError as error:
        first = next(iter(str(error.evalue).splitlines()), "")
        raise NotebookError(f"{name}, cell {error.exec_count}: {error.ename}: {first}", str(error)) from error
    except RuntimeError as error:  # also nbclient's DeadKernelError
        why = "its Python process ended or does not answer, perhaps for lack of memory"
        raise NotebookError(f"{name}: {why} ({error})") from error


def export_notebook(notebook: Path, output: Path) -> None:
    """Write an executed notebook as one HTML file that needs no network."""
    config = Config({"TemplateExporter": {"extra_template_basedirs": [str(rendering.FOLDER / "notebooks")]}})
    with _alone():
        exporter = HTMLExporter(config=config, template_name="offline", embed_images=True)  # type: ignore[no-untyped-call]
        html, _ = exporter.from_filename(str(notebook))
    write_text(output, html)


def _declared(notebook: Path) -> set[str]:
    # papermill.inspect_notebook misses names on lines with a second equals sign, such as base = "demo:cores=0.15"
    cells = nbformat.read(notebook, as_version=4).cells  # type: ignore[no-untyped-call]
    source = "\n".join(cell.source for cell in cells if "parameters" in cell.metadata.get("tags", ()))
    names = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name))
    return {node.id for node in names if isinstance(node.ctx, ast.Store)}
