# SPDX-License-Identifier: Apache-2.0
"""What pods run: the archive that they get of this package."""

import sys
from pathlib import Path

from tpcsweep.testbeds.kubernetes import archive

from tests.support.workflow import finished


def test_it_has_what_is_run_and_what_that_imports_and_no_more() -> None:
    found = archive.modules()
    assert {"tpcsweep", "tpcsweep.testbeds.kubernetes.pod.agent", "tpcsweep.client.__main__"} <= set(found)
    assert {"tpcsweep.tools.gfal", "tpcsweep.xrootd.servers", "tpcsweep.variables"} <= set(found)
    assert not [name for name in found if "netns" in name or "running" in name or "configuration" in name]


def test_python_runs_it_from_the_archive_with_nothing_else(tmp_path: Path) -> None:
    # Modules of tools may ask for libraries of their own; their workers' environment says where the package is.
    names = [name for name in archive.modules() if not name.startswith("tpcsweep.tools.")]
    ask = (
        f"import sys, {', '.join(names)}; print(*(sys.modules[name].__file__ for name in {names}))\n"
        "from pathlib import Path; from tpcsweep.tools import TOOLS; from tpcsweep.tools.base import Credentials\n"
        "for name in ('native', 'gfal2'):\n"
        "    print(TOOLS[name].environment(Credentials(Path('/c')), Path('/h'))['PYTHONPATH'])"
    )
    packed = tmp_path / "tpcsweep.zip"
    packed.write_bytes(archive.package_archive())
    done = finished([sys.executable, "-S", "-c", ask], cwd=tmp_path, env={"PYTHONPATH": str(packed)})
    assert done.returncode == 0, done.stdout
    said = done.stdout.split()
    assert {file.partition("/tpcsweep/")[0] for file in said[: len(names)]} == {str(packed)}
    assert said[len(names) :] == [str(packed)] * 2


def test_it_fits_a_config_map_and_is_the_same_each_time() -> None:
    made = archive.package_archive()
    assert len(made) * 4 / 3 < (1 << 20) / 4  # a ConfigMap may hold 1 MiB, base64 included
    archive.package_archive.cache_clear()
    assert archive.package_archive() == made
