# SPDX-License-Identifier: Apache-2.0
"""All that Snakemake and a test's process load at their start, for processes that are forked from one that has it."""

import gc

import nbformat  # noqa: F401
import pytest  # noqa: F401
import smart_open  # noqa: F401
import snakemake.notebook  # noqa: F401
from snakemake import cli

import tests.support.snakemakes  # noqa: F401

cli.get_argument_parser()  # looks for plugins, once a process
gc.collect()
gc.freeze()  # a collection in a fork would copy the memory of all objects
