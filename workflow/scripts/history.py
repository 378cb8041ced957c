# SPDX-License-Identifier: Apache-2.0
"""Keep the configured sweep's dataset under its date, and tell what changed in all that are kept."""

import sys
from pathlib import Path

import orjson
from tpcsweep.configuration.loading import load
from tpcsweep.files import write_text
from tpcsweep.history import changes, junit, runs
from tpcsweep.pages.history import content
from tpcsweep.pages.rendering import over_time
from tpcsweep.running.scripts import reported

settings = load(snakemake.config, Path())
folder = settings.folder / runs.FOLDER
with reported(snakemake.log[0], runs.HistoryError, about=settings.name):
    runs.keep(Path(snakemake.input.dataset), folder)
    told = changes.history(*runs.kept(folder))
options = orjson.OPT_INDENT_2 | orjson.OPT_SERIALIZE_NUMPY
write_text(folder / "history.json", orjson.dumps(told.to_dict(), option=options).decode())
write_text(folder / "junit.xml", junit.text(told, settings.run.fail_on))
write_text(folder / "index.html", over_time(content(told)))
lines = changes.summary(told)
print(*lines, f"see {folder / 'index.html'}", sep="\n")
failures = changes.failures(told, settings.run.fail_on)
Path(snakemake.log[0]).write_text("\n".join([*lines, *failures]) + "\n")
if failures:
    sys.exit("\n".join(["new since the last run:", *failures]))
