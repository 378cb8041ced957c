# SPDX-License-Identifier: Apache-2.0
from functools import partial

from tpcsweep.running.studies import shown_in_report


report: "../report/workflow.rst"


# Outputs that the report shows: file in the study's folder, caption, content.
figure = partial(shown_in_report, report, "Figures")
table = partial(shown_in_report, report, "Tables")
executed = partial(shown_in_report, report, "Notebooks")
