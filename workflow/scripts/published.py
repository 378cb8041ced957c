# SPDX-License-Identifier: Apache-2.0
"""Make figures of publications: their data by inner Snakemakes, then the figures and their claims' verdicts."""

from tpcsweep.linux import signals

signals.end_with_snakemake()

import sys
from functools import partial
from pathlib import Path

from tpcsweep.configuration.problems import ConfigurationError
from tpcsweep.published.figures import FIGURES
from tpcsweep.published.making import Making, MakingError, is_placeholder, make
from tpcsweep.published.making import command as to_measure
from tpcsweep.published.report import write
from tpcsweep.running import scripts
from tpcsweep.running.holes import beside
from tpcsweep.studies.terena2005.runs import read_folder
from tpcsweep.studies.terena2005.table import verdicts

asked = snakemake.params
folder = Path(snakemake.log[0]).parent.parent
folder.mkdir(parents=True, exist_ok=True)
run = partial(scripts.make, asked.inner)  # one job a deployment, as in every sweep
making = Making(folder, run, asked.testbed, asked.scale, asked.file, folder.parent)
made, failed = {}, []
with signals.interruptible():
    for name in asked.figures:
        try:
            made[name] = make(FIGURES[name], making)
            print(f"{name}: {made[name]}")
            if beside(made[name].with_name("dataset.nc")):
                failed.append(
                    f"{name}: drawn without cells that could not be measured, which are listed above"
                )
        except (ConfigurationError, MakingError) as error:
            failed.append(f"{name}: {error}")
            print(failed[-1], file=sys.stderr)
    if asked.everything:
        studies = verdicts(read_folder(folder / "terena2005"))
        write(folder, made, studies, [Path(file) for file in snakemake.input])
        for name in (name for name, picture in made.items() if is_placeholder(picture)):
            print(f"{name} is a placeholder, without data: {to_measure(FIGURES[name])}")
        print(f"written: {folder / 'verdicts.csv'}, and the report {folder / 'report.html'}")
if failed:
    sys.exit("\n".join(["these figures could not be made, or not of all their cells:", *failed]))
