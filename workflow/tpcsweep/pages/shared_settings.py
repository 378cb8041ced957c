# SPDX-License-Identifier: Apache-2.0
"""Settings that all cells of a dataset share, for one line of its page."""

import math
import re

import numpy as np
import xarray as xr

from tpcsweep.data.host_rates import THIS_MACHINE
from tpcsweep.data.labels import ENDPOINTS, axis_name
from tpcsweep.data.made_with import endpoint_servers, hosts_of_data, hosts_of_one_machine
from tpcsweep.data.pair_rtts import ends_text, pair_rtt_text
from tpcsweep.pages.encryption import encryption_text
from tpcsweep.sweeps.parameters import Parameters, name_text, value_text
from tpcsweep.sweeps.sweep import REPETITION

_SETTINGS = {
    "bandwidth": "path {}",
    "rtt": "RTT {}",
    "origins": "origins per side: {}",
    "cores": "cores per side: {}",
    "streams": "streams {}",
    "tcp_buffer": "TCP buffer {}",
    "file_size": "files of {}",
    "tool": "tool {}",
    "copy_mode": "{} mode",
    "mtu": "MTU {}",
    "congestion_control": "congestion control {}",
}
"""Settings in the page's first lines, with their words."""
_MOST_VALUES = 8  # of an axis that are named
_USUAL = "as usual for the tool"
_NAMES = {
    "loss": "loss set on the path",  # cells record the share of lost packets, too
    "beside": "background traffic",
    "scitag": "SciTag",
    "tcp_streams": "TCP connections a stream",
}
_ONLY = "only"  # the pair, and the sites, of a testbed that has one of them


def shared_settings(summary: xr.Dataset) -> list[str]:
    """Return the settings that all cells share and the length of cells, for one line; axes name the others."""
    fixed = [
        _rtt(summary) if name == "rtt" else words.format(value_text(name, summary[name].item()))
        for name, words in _SETTINGS.items()
        if name in summary.coords and summary[name].size == 1
    ]
    fixed = [text for text in fixed if text]
    of_hosts = (encryption_text(summary), _servers(summary), _direction(summary), _machines(summary))
    fixed += [text for text in of_hosts if text]
    lengths = summary["duration"].values if "duration" in summary else np.array([])
    if not np.isfinite(lengths).any():
        return fixed
    return [*fixed, f"cells of {ends_text(lengths)} s"]


def varied_settings(summary: xr.Dataset) -> list[str]:
    """Return the axes with several values, each with its values or their number, for one line."""
    texts = []
    for name in map(str, summary["throughput"].dims):
        values = summary[name].values.tolist()
        if len(values) > 1 and name != REPETITION:
            known = ", ".join(value_text(name, value) for value in values)
            short_list = known if len(values) <= _MOST_VALUES else f"{len(values)} values"
            texts.append(f"{axis_name(name)} {short_list}")
    return texts


def _servers(summary: xr.Dataset) -> str:
    """Return the names by which the servers of endpoints answer; these may lack the release."""
    texts = {
        role: ", ".join(name if re.search("[0-9]", name) else f"{name} (tells no release)" for name in names)
        for role, names in endpoint_servers(summary).items()
    }
    if len(texts) == 2 and len({*texts.values()}) == 1:
        return f"servers {texts['source']}"
    return ", ".join(f"server of the {role} {text}" for role, text in texts.items())


def _direction(summary: xr.Dataset) -> str:
    """Return from and to which recorded hosts the data of endpoints went; "" if nobody knows, or both ways."""
    senders, receivers = hosts_of_data(summary)
    if not senders or not receivers or {*senders} & {*receivers}:
        return ""
    return f"data from host {' and '.join(senders)} to {' and '.join(receivers)}"


def _machines(summary: xr.Dataset) -> str:
    """Tell which recorded hosts are one machine, so that they share its CPUs; "" if each is its own."""
    texts = []
    for group in hosts_of_one_machine(summary):
        names = [name for name in group if name != THIS_MACHINE]
        where = "the measuring machine" if len(names) < len(group) else "one machine"
        texts.append(f"{'host' if len(names) == 1 else 'hosts'} {' and '.join(names)} on {where}")
    return ", ".join(texts)


def other_settings(summary: xr.Dataset) -> str:
    """Return the parameters that all cells share and `shared_settings` lacks, such as the encryption."""
    known = {str(name): values for name, values in summary.coords.items() if name in Parameters.model_fields}
    texts = {
        name: value_text(name, values.item())
        for name, values in known.items()
        if name not in _SETTINGS and not values.ndim and values.item() != _ONLY
        if name != "encryption" or not encryption_text(summary)
    }
    return ", ".join(
        f"{_NAMES.get(name) or name_text(name)} {_USUAL if text == 'usual' else text}"
        for name, text in texts.items()
        if text
    )


def _rtt(summary: xr.Dataset) -> str:
    """Return the RTT that all cells share, or those of the pairs of endpoints, to which nothing adds an RTT; or ""."""
    if of_pairs := pair_rtt_text(summary):
        return f"RTT {of_pairs}"
    rtt, is_added = float(summary["rtt"].item()), summary.attrs["testbed_kind"] != ENDPOINTS
    return f"RTT {value_text('rtt', rtt)}" if math.isfinite(rtt) and (rtt or is_added) else ""
