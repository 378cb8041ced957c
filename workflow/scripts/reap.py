"""Remove what killed runs have left on this machine."""

import sys

from tpcsweep.runner import reap
from tpcsweep.testbeds.netns.state import BusyError, TeardownError

try:
    for what in reap() or ["nothing was left"]:
        print("reaped:", what)
except (BusyError, TeardownError) as error:
    sys.exit(str(error))
