# SPDX-License-Identifier: Apache-2.0
from dataclasses import asdict
from pathlib import Path

from tpcsweep.studies.terena2005.cases import SIMULATED, measured_in

TERENA = f"{PUBLISHED}/terena2005"
TERENA_SIMULATED = [f"{TERENA}/simulated/{case.name}.json" for case in SIMULATED]
# What has been measured before, or is shipped; measuring takes root, and so is never a consequence of asking for the table.
TERENA_MEASURED = [str(path) for path in measured_in(Path(f"{TERENA}/measured"))]


rule terena2005:
    """Set published, computed, simulated and measured TCP on long fat paths side by side."""
    input:
        f"{TERENA}/table.csv",
        f"{TERENA}/notebooks/terena2005.html",


rule terena2005_program:
    input:
        shipped("workflow/tpcsweep/studies/terena2005/bottleneck.cc"),
        extra=needs("ns3"),
    output:
        f"{TERENA}/bottleneck",
    log:
        f"{TERENA}/logs/program.log",
    script:
        "../scripts/tcp_program.py"


# A rule for each case, so that one that is changed is simulated again, and no other.
for number, case in enumerate(SIMULATED, start=1):

    rule:
        name:
            f"terena2005_simulation_{number}"
        input:
            program=f"{TERENA}/bottleneck",
        output:
            f"{TERENA}/simulated/{case.name}.json",
        log:
            f"{TERENA}/logs/{case.name}.log",
        params:
            case=asdict(case),
        script:
            "../scripts/tcp_simulation.py"


# Without outputs, so that it always runs: what is left to measure is read from the files.
rule terena2005_measured:
    """Measure its cases with real kernels; as root."""
    log:
        f"{TERENA}/logs/measured.log",
    localrule: True
    params:
        folder=f"{TERENA}/measured",
    script:
        "../scripts/tcp_measurement.py"


rule terena2005_table:
    input:
        simulated=TERENA_SIMULATED,
        measured=TERENA_MEASURED,
    output:
        csv=f"{TERENA}/table.csv",
        markdown=f"{TERENA}/table.md",
    log:
        f"{TERENA}/logs/table.log",
    script:
        "../scripts/tcp_table.py"


use rule surface as terena2005_notebook with:
    input:
        notebook=shipped("notebooks/terena2005.ipynb"),
        simulated=TERENA_SIMULATED,
        measured=TERENA_MEASURED,
    output:
        *pictures(f"{TERENA}/figures", "utilisation", "recovery", "fairness"),
        notebook=f"{TERENA}/notebooks/terena2005.ipynb",
    log:
        f"{TERENA}/logs/notebook.log",
    params:
        results=subpath(output[0], ancestor=2),


use rule notebook_html as terena2005_html with:
    input:
        notebook=f"{TERENA}/notebooks/terena2005.ipynb",
        template=shipped("workflow/report/offline/index.html.j2"),
    output:
        f"{TERENA}/notebooks/terena2005.html",
    log:
        f"{TERENA}/logs/html.log",
