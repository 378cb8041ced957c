# SPDX-License-Identifier: Apache-2.0
"""Colours and letters of limits, in figures and on pages."""

_LIMITS = {
    "bandwidth": ("#4477AA", "B"),
    "window": ("#66CCEE", "W"),
    "cpu_source": ("#EE6677", "SC"),
    "cpu_destination": ("#FFAABB", "DC"),
    "client": ("#AA3377", "C"),
    "disk": ("#997755", "D"),
    "server": ("#BB5566", "S"),
    "path_queue": ("#CCBB44", "Q"),
    "loss": ("#EEDD88", "L"),
    "between_files": ("#AADDCC", "BF"),
    "machine": ("#777777", "M"),
    "none_found": ("#DDDDDD", "–"),
    "not_visible": ("#EEEEEE", "?"),
}
"""Colour and letters of each limit. Colours are cold for the network and warm for servers; letters serve colour-blind
readers and grey print. Source: P. Tol's schemes "bright" and "light" (2021)."""
_ON_DARK = {"none_found": "#5a636e", "not_visible": "#46505b"}
"""Colours on dark pages of the limits without a cause, which would be the brightest ones there."""
_OF_HOSTS = {"host_rate": ("#DDAA33", "R"), "connection": ("#997700", "P")}
"""The same of the limits of `host_limits`, which pages alone have."""
LIMIT_COLOURS = {limit: colour for limit, (colour, _) in _LIMITS.items()}
LIMIT_LETTERS = {limit: letters for limit, (_, letters) in _LIMITS.items()}
PAGE_COLOURS = LIMIT_COLOURS | {limit: colour for limit, (colour, _) in _OF_HOSTS.items()}
PAGE_COLOURS_ON_DARK = PAGE_COLOURS | _ON_DARK
PAGE_LETTERS = LIMIT_LETTERS | {limit: letters for limit, (_, letters) in _OF_HOSTS.items()}
