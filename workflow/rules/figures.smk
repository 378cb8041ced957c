# SPDX-License-Identifier: Apache-2.0
# A notebook receives the inputs and params of its rule that it declares as parameters.


rule surface:
    """Draw the throughput over the axes of a study."""
    input:
        notebook=workflow.source_path("../../notebooks/surface.ipynb"),
        dataset="<results>/{study}/dataset.nc",
    output:
        heatmap=report(
            "<results>/{study}/figures/throughput_heatmap.png",
            category="{study}",
            subcategory="Figures",
            caption="../report/heatmap.rst",
            labels={"content": "heat map"},
        ),
        surface=report(
            "<results>/{study}/figures/throughput_surface.png",
            category="{study}",
            subcategory="Figures",
            caption="../report/surface.rst",
            labels={"content": "surface"},
        ),
        lines=report(
            "<results>/{study}/figures/throughput_lines.png",
            category="{study}",
            subcategory="Figures",
            caption="../report/lines.rst",
            labels={"content": "lines"},
        ),
        series=report(
            "<results>/{study}/figures/goodput_series.png",
            category="{study}",
            subcategory="Figures",
            caption="../report/series.rst",
            labels={"content": "time series"},
        ),
        cpu=report(
            "<results>/{study}/figures/cpu.png",
            category="{study}",
            subcategory="Figures",
            caption="../report/cpu.rst",
            labels={"content": "CPU"},
        ),
        svg=multiext(
            "<results>/{study}/figures/",
            "throughput_heatmap.svg",
            "throughput_surface.svg",
            "throughput_lines.svg",
            "goodput_series.svg",
            "cpu.svg",
        ),
        notebook="<results>/{study}/notebooks/surface.ipynb",
        html=report(
            "<results>/{study}/notebooks/surface.html",
            category="{study}",
            subcategory="Notebooks",
            caption="../report/notebook.rst",
            labels={"content": "surface"},
        ),
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
        limits=report(
            "<results>/{study}/figures/limits.png",
            category="{study}",
            subcategory="Figures",
            caption="../report/limits.rst",
            labels={"content": "limits"},
        ),
        svg="<results>/{study}/figures/limits.svg",
        notebook="<results>/{study}/notebooks/limits.ipynb",
        html=report(
            "<results>/{study}/notebooks/limits.html",
            category="{study}",
            subcategory="Notebooks",
            caption="../report/notebook.rst",
            labels={"content": "limits"},
        ),
    log:
        "<results>/{study}/logs/limits.log",


# Notebooks of the sweep and its testbed, each with the axes that it shows.
use rule surface as curves with:
    """Draw the throughput over one axis of a study, with a curve for each value of another axis."""
    input:
        notebook=workflow.source_path("../../notebooks/curves.ipynb"),
        dataset="<results>/{study}/dataset.nc",
    output:
        curves=report(
            "<results>/{study}/figures/curves.png",
            category="{study}",
            subcategory="Figures",
            caption="../report/curves.rst",
            labels={"content": "curves"},
        ),
        svg="<results>/{study}/figures/curves.svg",
        table="<results>/{study}/figures/curves.csv",
        notebook="<results>/{study}/notebooks/curves.ipynb",
        html=report(
            "<results>/{study}/notebooks/curves.html",
            category="{study}",
            subcategory="Notebooks",
            caption="../report/notebook.rst",
            labels={"content": "curves"},
        ),
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
        releases=report(
            "<results>/{study}/figures/releases.png",
            category="{study}",
            subcategory="Figures",
            caption="../report/releases.rst",
            labels={"content": "releases"},
        ),
        svg="<results>/{study}/figures/releases.svg",
        table="<results>/{study}/figures/releases.csv",
        notebook="<results>/{study}/notebooks/releases.ipynb",
        html=report(
            "<results>/{study}/notebooks/releases.html",
            category="{study}",
            subcategory="Notebooks",
            caption="../report/notebook.rst",
            labels={"content": "releases"},
        ),
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
        hardware=report(
            "<results>/{study}/figures/hardware.png",
            category="{study}",
            subcategory="Figures",
            caption="../report/hardware.rst",
            labels={"content": "hardware"},
        ),
        svg="<results>/{study}/figures/hardware.svg",
        table="<results>/{study}/figures/hardware.csv",
        notebook="<results>/{study}/notebooks/hardware.ipynb",
        html=report(
            "<results>/{study}/notebooks/hardware.html",
            category="{study}",
            subcategory="Notebooks",
            caption="../report/notebook.rst",
            labels={"content": "hardware"},
        ),
    log:
        "<results>/{study}/logs/hardware.log",
    params:
        figures=subpath(output[0], parent=True),
        axes=STUDIES.axes("hardware"),
