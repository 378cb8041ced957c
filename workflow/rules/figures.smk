# SPDX-License-Identifier: Apache-2.0
import sys


# A relative path would be taken to lie beside this file.
report: str(Path(FRONT_PAGE).resolve())


# What the report calls the figures of the throughput surface, by their captions.
SURFACE = {
    "heatmap": ("throughput_heatmap", "heat map"),
    "surface": ("throughput_surface", "surface"),
    "lines": ("throughput_lines", "lines"),
    "series": ("goodput_series", "time series"),
    "cpu": ("cpu", "CPU"),
}


# The rules of all other notebooks are made from this one. A notebook's parameters are those of its rule's inputs and
# params that it declares: a dataset, and the folder of figures.
rule surface:
    input:
        notebook=shipped("notebooks/surface.ipynb"),
        dataset=DATASET,
    output:
        **{
            name: in_report(f"{RESULTS}/figures/{figure}.png", "Figures", name, words)
            for name, (figure, words) in SURFACE.items()
        },
        svg=[f"{RESULTS}/figures/{figure}.svg" for figure, _ in SURFACE.values()],
        notebook=f"{RESULTS}/notebooks/surface.ipynb",
    log:
        f"{RESULTS}/logs/surface.log",
    params:
        figures=subpath(output[0], parent=True),
    script:
        "../scripts/notebook.py"


use rule surface as limits with:
    input:
        notebook=shipped("notebooks/limits.ipynb"),
        dataset=DATASET,
    output:
        limits=in_report(f"{RESULTS}/figures/limits.png", "Figures", "limits", "limits"),
        svg=f"{RESULTS}/figures/limits.svg",
        notebook=f"{RESULTS}/notebooks/limits.ipynb",
    log:
        f"{RESULTS}/logs/limits.log",


# The notebooks that the sweep's file asks for, each with a figure and a table of its own name, and axes for its
# parameters.
for name, places in SETTINGS.notebooks.items():

    rule:
        name:
            f"{name}_notebook"
        input:
            notebook=shipped(f"notebooks/{name}.ipynb"),
            dataset=DATASET,
        output:
            figure=in_report(f"{RESULTS}/figures/{name}.png", "Figures", name, name),
            svg=f"{RESULTS}/figures/{name}.svg",
            table=in_report(f"{RESULTS}/figures/{name}.csv", "Cells", name, name),
            notebook=f"{RESULTS}/notebooks/{name}.ipynb",
        log:
            f"{RESULTS}/logs/{name}_notebook.log",
        params:
            **places,
            figures=subpath(output[0], parent=True),
        script:
            "../scripts/notebook.py"


rule notebook_html:
    input:
        notebook=f"{RESULTS}/notebooks/{{notebook}}.ipynb",
        template=shipped("workflow/report/offline/index.html.j2"),
    output:
        report(
            f"{RESULTS}/notebooks/{{notebook}}.html",
            category="Notebooks",
            caption="../report/notebook.rst",
            labels={"notebook": "{notebook}"},
        ),
    log:
        f"{RESULTS}/logs/{{notebook}}_html.log",
    params:
        python=sys.executable,
        folder=subpath(output[0], parent=True),
        templates=subpath(input.template, ancestor=2),
    shell:
        "{params.python:q} -m nbconvert --to html --embed-images"
        " --template offline --TemplateExporter.extra_template_basedirs={params.templates:q}"
        " --output-dir {params.folder:q} {input.notebook:q} > {log:q} 2>&1"


rule report:
    """Make the Snakemake report: figures with captions, every cell, how each was made."""
    input:
        front=FRONT_PAGE,
        shown=[
            f"{RESULTS}/cells.csv",
            f"{RESULTS}/figures/throughput_heatmap.png",
            f"{RESULTS}/figures/limits.png",
            f"{RESULTS}/notebooks/surface.html",
            f"{RESULTS}/notebooks/limits.html",
            *expand(
                f"{RESULTS}/figures/{{notebook}}.png", notebook=SETTINGS.notebooks
            ),
            *expand(
                f"{RESULTS}/notebooks/{{notebook}}.html", notebook=SETTINGS.notebooks
            ),
        ],
    output:
        f"{RESULTS}/report.html",
    log:
        f"{RESULTS}/logs/report.log",
    params:
        python=sys.executable,
        snakefile=INTERNALS.snakefile,
        config=[f"{key}={value}" for key, value in SETTINGS.run.data.items()],
    # A second Snakemake makes it, of what it shows, which is there: asked for that and not for the default target,
    # it neither runs anything nor waits for this job's own output.
    shell:
        "{params.python:q} -m snakemake --snakefile {params.snakefile:q} --nolock --report {output:q}"
        " --config {params.config:q} -- {input.shown:q} > {log:q} 2>&1"
