# SPDX-License-Identifier: Apache-2.0

# A notebook receives the inputs and params of its rule that it declares as parameters.
for notebook in NOTEBOOKS:

    rule:
        """Run the notebook of this name on the dataset of a study."""
        name:
            notebook.name
        input:
            **notebook.inputs,
            notebook=workflow.source_path(f"../../notebooks/{notebook.name}.ipynb"),
            dataset="<results>/{study}/dataset.nc",
        output:
            [
                report(
                    f"<results>/{{study}}/figures/{figure.name}.png",
                    category="{study}",
                    subcategory="Figures",
                    caption=f"../report/{figure.caption}.rst",
                    labels={"content": figure.label},
                )
                for figure in notebook.figures
            ],
            [f"<results>/{{study}}/{file}" for file in notebook.pictures],
            notebook=f"<results>/{{study}}/notebooks/{notebook.name}.ipynb",
            html=report(
                f"<results>/{{study}}/notebooks/{notebook.name}.html",
                category="{study}",
                subcategory="Notebooks",
                caption="../report/notebook.rst",
                labels={"content": notebook.name},
            ),
        log:
            f"<results>/{{study}}/logs/{notebook.name}.log",
        conda:
            "../../envs/tpcsweep.yaml"
        params:
            figures=subpath(output[0], parent=True),
            axes=STUDIES.axes(notebook.name),
        script:
            "../scripts/run_notebook.py"
