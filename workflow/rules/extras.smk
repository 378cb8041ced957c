# SPDX-License-Identifier: Apache-2.0
import os
import sys

from tpcsweep.extras import missing


def pictures(folder, *names):
    """The files of figures, as PNG and as SVG."""
    return expand(f"{folder}/{{name}}.{{kind}}", name=names, kind=["png", "svg"])


def in_report(file, category, caption, what):
    """A file that the report has, with a caption of workflow/report."""
    labels = {"what": what, **({"as": "CSV"} if file.endswith(".csv") else {})}
    caption = f"../report/{caption}.rst"
    return report(file, category=category, caption=caption, labels=labels)


def shipped(path):
    """A file of the checkout, as seen from the folder in which Snakemake runs, which may be another."""
    return os.path.relpath(SHIPPED / path)


def need(extras):
    """End with a line for each of the extras of set-up that is not there."""
    # With conda, jobs have an environment of their own, with all extras.
    if not INTERNALS.in_conda and (lines := missing(extras)):
        sys.exit("\n".join(lines))


def needs(extra):
    """An input function for rules that need an extra: no file, and nothing runs without it."""
    return lambda wildcards: need([extra]) or []
