import sys

from tpcsweep.configuration.question import Question


# A relative path would be taken to lie beside this file.
report: str(Path(FRONT_PAGE).resolve())


rule surface:
    input:
        notebook="notebooks/surface.ipynb",
        dataset=f"{RESULTS}/dataset.nc",
    output:
        heatmap=report(
            f"{RESULTS}/figures/throughput_heatmap.png",
            category="Figures",
            caption="../report/heatmap.rst",
            labels={"what": "heat map"},
        ),
        surface=report(
            f"{RESULTS}/figures/throughput_surface.png",
            category="Figures",
            caption="../report/surface.rst",
            labels={"what": "surface"},
        ),
        lines=report(
            f"{RESULTS}/figures/throughput_lines.png",
            category="Figures",
            caption="../report/lines.rst",
            labels={"what": "lines"},
        ),
        series=report(
            f"{RESULTS}/figures/goodput_series.png",
            category="Figures",
            caption="../report/series.rst",
            labels={"what": "time series"},
        ),
        cpu=report(
            f"{RESULTS}/figures/cpu.png",
            category="Figures",
            caption="../report/cpu.rst",
            labels={"what": "CPU"},
        ),
        svg=expand(
            f"{RESULTS}/figures/{{figure}}.svg",
            figure=[
                "throughput_heatmap",
                "throughput_surface",
                "throughput_lines",
                "goodput_series",
                "cpu",
            ],
        ),
        notebook=f"{RESULTS}/notebooks/surface.ipynb",
    log:
        f"{RESULTS}/logs/surface.log",
    conda:
        "../../envs/tpcsweep.yaml"
    params:
        python=sys.executable,
    shell:
        "{{ {params.python:q} -m tpcsweep.running.run_notebook {input.notebook:q} {output.notebook:q}.part.ipynb"
        ' -r dataset {input.dataset:q} -r figures "$(dirname {output.heatmap:q})"'
        " && mv {output.notebook:q}.part.ipynb {output.notebook:q}; }} > {log:q} 2>&1"


rule limits:
    input:
        notebook="notebooks/limits.ipynb",
        dataset=f"{RESULTS}/dataset.nc",
    output:
        limits=report(
            f"{RESULTS}/figures/limits.png",
            category="Figures",
            caption="../report/limits.rst",
            labels={"what": "limits"},
        ),
        others=expand(
            f"{RESULTS}/figures/{{figure}}",
            figure=["limits.svg", "limits_throughput.png", "limits_throughput.svg"],
        ),
        notebook=f"{RESULTS}/notebooks/limits.ipynb",
    log:
        f"{RESULTS}/logs/limits.log",
    conda:
        "../../envs/tpcsweep.yaml"
    params:
        python=sys.executable,
    shell:
        "{{ {params.python:q} -m tpcsweep.running.run_notebook {input.notebook:q} {output.notebook:q}.part.ipynb"
        ' -r dataset {input.dataset:q} -r figures "$(dirname {output.limits:q})"'
        " && mv {output.notebook:q}.part.ipynb {output.notebook:q}; }} > {log:q} 2>&1"


# The notebooks that the sweep's file asks for, each with a figure of its own name.
for name, places in SETTINGS.notebooks.items():

    rule:
        name:
            f"{name}_notebook"
        input:
            notebook=f"notebooks/{name}.ipynb",
            dataset=f"{RESULTS}/dataset.nc",
        output:
            figure=report(
                f"{RESULTS}/figures/{name}.png",
                category="Figures",
                caption=f"../report/{name}.rst",
                labels={"what": name},
            ),
            svg=f"{RESULTS}/figures/{name}.svg",
            notebook=f"{RESULTS}/notebooks/{name}.ipynb",
        log:
            f"{RESULTS}/logs/{name}_notebook.log",
        conda:
            "../../envs/tpcsweep.yaml"
        params:
            python=sys.executable,
            places=[f"-r {place} {axis}" for place, axis in places.items()],
        shell:
            "{{ {params.python:q} -m tpcsweep.running.run_notebook {input.notebook:q} {output.notebook:q}.part.ipynb"
            ' -r dataset {input.dataset:q} -r figures "$(dirname {output.figure:q})" {params.places}'
            " && mv {output.notebook:q}.part.ipynb {output.notebook:q}; }} > {log:q} 2>&1"


rule notebook_html:
    input:
        notebook=f"{RESULTS}/notebooks/{{notebook}}.ipynb",
        template="workflow/report/offline/index.html.j2",
    output:
        report(
            f"{RESULTS}/notebooks/{{notebook}}.html",
            category="Notebooks",
            caption="../report/notebook.rst",
            labels={"notebook": "{notebook}"},
        ),
    log:
        f"{RESULTS}/logs/{{notebook}}_html.log",
    conda:
        "../../envs/tpcsweep.yaml"
    params:
        python=sys.executable,
    shell:
        "{params.python:q} -m nbconvert --to html --embed-images"
        " --template offline --TemplateExporter.extra_template_basedirs=workflow/report"
        ' --output-dir "$(dirname {output:q})" {input.notebook:q} > {log:q} 2>&1'


rule report:
    input:
        FRONT_PAGE,
        f"{RESULTS}/cells.csv",
        f"{RESULTS}/figures/throughput_heatmap.png",
        f"{RESULTS}/figures/limits.png",
        f"{RESULTS}/notebooks/surface.html",
        f"{RESULTS}/notebooks/limits.html",
        expand(f"{RESULTS}/figures/{{notebook}}.png", notebook=SETTINGS.notebooks),
        expand(f"{RESULTS}/notebooks/{{notebook}}.html", notebook=SETTINGS.notebooks),
    output:
        f"{RESULTS}/report.html",
    log:
        f"{RESULTS}/logs/report.log",
    conda:
        "../../envs/tpcsweep.yaml"
    params:
        python=sys.executable,
        snakefile=workflow.main_snakefile,
        # What is asked of models, and whether it is to measure, makes no other report.
        config=[
            f"{key}={value}"
            for key, value in config.items()
            if key not in Question.model_fields and key != "measure"
        ],
    # A second Snakemake makes it, of the files that are there: asked for them and not for the default target,
    # it neither runs anything nor waits for this job's own output.
    shell:
        "{params.python:q} -m snakemake --snakefile {params.snakefile:q} --nolock --report {output:q}"
        " --config {params.config:q} -- {input:q} > {log:q} 2>&1"
