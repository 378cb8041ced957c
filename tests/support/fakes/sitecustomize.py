# SPDX-License-Identifier: Apache-2.0
"""Have the jobs of a workflow use the testbed of this folder, which stands in PYTHONPATH."""

from tests.support import fakes

fakes.install()
