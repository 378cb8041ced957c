# SPDX-License-Identifier: Apache-2.0
"""This repository in the image, as the checkout is now."""

from __future__ import annotations

import subprocess
import tomllib

from .byte_code import byte_code
from .layers import Layer
from .messages import ImageError
from .places import HOME, ROOT, VENV
from .tars import File, read


def repository_files(debian: Layer) -> dict[str, File]:
    """The files that git knows, as they are now, and what makes the virtual environment import the package."""
    files = {}
    for name in filter(None, _git("ls-files", "-z").split("\0")):
        if file := read(ROOT / name):
            files[f"{HOME}/{name}"] = file
    package = {path: file for path, file in files.items() if path.startswith(f"{HOME}/workflow/tpcsweep/")}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    libraries = f"{VENV}/lib/python3.11/site-packages"
    information = f"{libraries}/{project['name']}-{project['version']}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    return {
        **files,
        **byte_code(package, debian),
        f"{libraries}/tpcsweep.pth": File(f"/{HOME}/workflow\n".encode()),
        **{f"{VENV}/bin/{name}": _script(*place.split(":")) for name, place in project["scripts"].items()},
        f"{information}/METADATA": File(metadata.encode()),
        f"{information}/INSTALLER": File(b"envs/image/build.py\n"),
    }


def _script(module: str, function: str) -> File:
    """A console script, as pip writes it."""
    text = f"#!/{VENV}/bin/python\nimport sys\nfrom {module} import {function}\nsys.exit({function}())\n"
    return File(text.encode(), 0o755)


def _git(*arguments: str) -> str:
    try:
        command = ["git", "-C", str(ROOT), *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout
    except FileNotFoundError:
        raise ImageError("the workflow target needs git (Debian: git)") from None
    except subprocess.CalledProcessError as error:
        raise ImageError(
            f"the workflow target needs a checkout of the repository: {error.stderr.strip()}"
        ) from error
