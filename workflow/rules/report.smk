# SPDX-License-Identifier: Apache-2.0
report: "../report/workflow.rst"


def shown(section, file, caption, content):
    """A file in the study's folder that the report shows in a section, with a caption of workflow/report."""
    labels = {
        "category": "{study}",
        "subcategory": section,
        "labels": {"content": content},
    }
    return report(
        f"<results>/{{study}}/{file}", caption=f"../report/{caption}.rst", **labels
    )


def figure(file, caption, content):
    return shown("Figures", file, caption, content)


def table(file, caption, content):
    return shown("Tables", file, caption, content)


def executed(file, caption, content):
    return shown("Notebooks", file, caption, content)
