# SPDX-License-Identifier: Apache-2.0
# A notebook receives the inputs and params of its rule that it declares as parameters.


rule surface:
    """Draw the throughput over the axes of a study."""
    input:
        notebook=workflow.source_path("../../notebooks/surface.ipynb"),
        dataset="<results>/{study}/dataset.nc",
    output:
        heatmap=figure("figures/throughput_heatmap.png", "heatmap", "heat map"),
        surface=figure("figures/throughput_surface.png", "surface", "surface"),
        lines=figure("figures/throughput_lines.png", "lines", "lines"),
        series=figure("figures/goodput_series.png", "series", "time series"),
        cpu=figure("figures/cpu.png", "cpu", "CPU"),
        svg=multiext(
            "<results>/{study}/figures/",
            "throughput_heatmap.svg",
            "throughput_surface.svg",
            "throughput_lines.svg",
            "goodput_series.svg",
            "cpu.svg",
        ),
        notebook="<results>/{study}/notebooks/surface.ipynb",
        html=executed("notebooks/surface.html", "notebook", "surface"),
    log:
        "<results>/{study}/logs/surface.log",
    conda:
        "../../envs/tpcsweep.yaml"
    params:
        figures=subpath(output[0], parent=True),
    script:
        "../scripts/run_notebook.py"


use rule surface as limits with:
    """Draw the limits of the cells of a study."""
    input:
        notebook=workflow.source_path("../../notebooks/limits.ipynb"),
        dataset="<results>/{study}/dataset.nc",
    output:
        limits=figure("figures/limits.png", "limits", "limits"),
        svg="<results>/{study}/figures/limits.svg",
        notebook="<results>/{study}/notebooks/limits.ipynb",
        html=executed("notebooks/limits.html", "notebook", "limits"),
    log:
        "<results>/{study}/logs/limits.log",


# Notebooks of the sweep and its testbed, each with the axes that it shows.
use rule surface as curves with:
    """Draw the throughput over one axis of a study, with a curve for each value of another axis."""
    input:
        notebook=workflow.source_path("../../notebooks/curves.ipynb"),
        dataset="<results>/{study}/dataset.nc",
    output:
        curves=figure("figures/curves.png", "curves", "curves"),
        svg="<results>/{study}/figures/curves.svg",
        table="<results>/{study}/figures/curves.csv",
        notebook="<results>/{study}/notebooks/curves.ipynb",
        html=executed("notebooks/curves.html", "notebook", "curves"),
    log:
        "<results>/{study}/logs/curves.log",
    params:
        figures=subpath(output[0], parent=True),
        axes=STUDIES.axes("curves"),


use rule surface as releases with:
    """Compare the releases, or the values of another axis, of a study."""
    input:
        notebook=workflow.source_path("../../notebooks/releases.ipynb"),
        dataset="<results>/{study}/dataset.nc",
    output:
        releases=figure("figures/releases.png", "releases", "releases"),
        svg="<results>/{study}/figures/releases.svg",
        table="<results>/{study}/figures/releases.csv",
        notebook="<results>/{study}/notebooks/releases.ipynb",
        html=executed("notebooks/releases.html", "notebook", "releases"),
    log:
        "<results>/{study}/logs/releases.log",
    params:
        figures=subpath(output[0], parent=True),
        axes=STUDIES.axes("releases"),


use rule surface as hardware with:
    """Separate the effect of nodes from the effect of parameters in a study."""
    input:
        notebook=workflow.source_path("../../notebooks/hardware.ipynb"),
        dataset="<results>/{study}/dataset.nc",
    output:
        hardware=figure("figures/hardware.png", "hardware", "hardware"),
        svg="<results>/{study}/figures/hardware.svg",
        table="<results>/{study}/figures/hardware.csv",
        notebook="<results>/{study}/notebooks/hardware.ipynb",
        html=executed("notebooks/hardware.html", "notebook", "hardware"),
    log:
        "<results>/{study}/logs/hardware.log",
    params:
        figures=subpath(output[0], parent=True),
        axes=STUDIES.axes("hardware"),
