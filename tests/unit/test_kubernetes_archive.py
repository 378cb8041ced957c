# SPDX-License-Identifier: Apache-2.0
"""What pods run: the archive that they get of this package."""

import sys
from pathlib import Path

from tpcsweep.testbeds.kubernetes import objects, pod

from tests.support.workflow import finished


def test_python_runs_it_from_the_archive_with_nothing_else(tmp_path: Path) -> None:
    """All that containers' commands name, and the workers of tools, whose environment says where the package is."""
    programs = [f"{pod.__name__}.{path.stem}" for path in Path(pod.__path__[0]).glob("[!_]*.py")]
    names = [*programs, "tpcsweep.client.__main__"]
    ask = (
        f"import sys, {', '.join(names)}\n"
        "files = {module.__file__ for name, module in sys.modules.items() if name.startswith('tpcsweep')}\n"
        "print({file.partition('/tpcsweep/')[0] for file in files})\n"
        "from pathlib import Path; from tpcsweep.tools import TOOLS; from tpcsweep.tools.base import Credentials\n"
        "for tool in TOOLS.values():\n"
        "    print(tool.environment(Credentials(Path('/c')), Path('/h')).get('PYTHONPATH'))"
    )
    packed = tmp_path / "tpcsweep.zip"
    packed.write_bytes(objects.package_archive())
    done = finished([sys.executable, "-S", "-c", ask], cwd=tmp_path, env={"PYTHONPATH": str(packed)})
    assert done.returncode == 0, done.stdout
    said, *environments = done.stdout.splitlines()
    assert said == str({str(packed)})
    assert set(environments) == {str(packed), "None"}


def test_it_fits_a_config_map_and_is_the_same_each_time() -> None:
    made = objects.package_archive()
    assert len(made) * 4 / 3 < (1 << 20) / 2  # a ConfigMap may hold 1 MiB, base64 included
    assert objects.package_archive() == made
