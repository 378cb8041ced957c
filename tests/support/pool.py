# SPDX-License-Identifier: Apache-2.0
"""A deployment for tests that only look: kept from one to the next, as long as they want the same and it is whole."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tpcsweep.flags import BrokenError
from tpcsweep.testbeds.netns.site import NetnsSite

from tests.support.sites import site_of


class Pool:
    """Holds one deployment at a time, and with it the machine: close it before another one is to come up."""

    def __init__(self) -> None:
        self._up = contextlib.ExitStack()
        self._wanted: Mapping[str, Any] | None = None
        self._site: NetnsSite | None = None

    def site(self, folder: Callable[[], Path], wanted: Mapping[str, Any]) -> NetnsSite:
        """The one that is up, where it is the wanted one and whole; or another one, with its logs in a new `folder`."""
        if self._site is None or self._wanted != wanted or not _whole(self._site):
            self.close()
            self._site = self._up.enter_context(site_of(folder(), **wanted))
            self._wanted = wanted
        return self._site

    def discard(self) -> None:
        """Hand what is up to nobody else."""
        self._wanted = None

    def close(self) -> None:
        """Take down what is up."""
        self._site = None
        self._up.close()


def _whole(site: NetnsSite) -> bool:
    """Whether all of its processes run: XRootD 5.5.3 crashes now and then."""
    try:
        site.check()
    except BrokenError:
        return False
    return True
