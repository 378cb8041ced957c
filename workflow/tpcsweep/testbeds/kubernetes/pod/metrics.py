# SPDX-License-Identifier: Apache-2.0
"""The running cell as OpenMetrics for scrapers of the client pod, if the testbed sets `metrics`.

Metrics have the names of the exported dataset (`exporting`). Its rates and sums are counters here:
`rate(tpcsweep_source_cpu_seconds_total[10s])` becomes `tpcsweep_source_cpu_cores`.
"""

import math
import socket
import socketserver
import threading
from collections.abc import Iterable, Iterator, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Any

from tpcsweep.measure.sampler import Record
from tpcsweep.testbeds.kubernetes.pod.places import METRICS_PATH, METRICS_PORT
from tpcsweep.variables import METRICS_END, metric_head, metric_labels, metric_name

TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"
PATIENCE = 5.0  # seconds that a scraper has for its request

METRICS = (
    ("goodput", "bytes", "goodput", "payload that has arrived in the destination's files"),
    ("wire", "bytes", "wire_throughput", "bytes that the destination's interface has received"),
    ("sent", "bytes", "sent", "data sent by data connections, sent again included"),
    ("resent", "bytes", "resent", "data sent again by data connections"),
    ("retransmits", "", "retransmits", "TCP segments sent again by the source"),
    ("connections", "", "connections", "data connections that are open"),
    ("rtt_loaded", "seconds", "rtt_loaded", "smoothed RTT, mean over connections"),
    *(
        (f"{side}_cpu", "seconds", f"{side}_cpu", "CPU time used")
        for side in ("source", "destination", "client")
    ),
)
"""Metrics: name, unit, quantity, and meaning."""
GAUGES = ("connections", "rtt_loaded")


class CellMetrics:
    """The state of the running cell; one thread writes it, and another one reads it."""

    def __init__(self) -> None:
        self._deployment_labels: dict[str, str] = {}
        self._cell: dict[str, str] = {}
        self._active = 0
        self._samples: dict[str, Record] = {}
        self._well = self._failed = 0

    def begin(self, deployment_labels: dict[str, str], cell: dict[str, str]) -> None:
        """Begin a cell; `deployment_labels` are labels of all metrics, and `cell` those of the cell's own."""
        self._deployment_labels, self._cell = deployment_labels, cell

    def update(self, message: Mapping[str, Any]) -> None:
        match message:
            case {"sample": sample, "of": origin}:
                self._samples[origin] = sample
            case {"client": {"event": "prepared"}}:
                self._active = int(self._cell.get("streams", 0))
            case {"client": {"event": "end", "failure": None}}:
                self._well += 1
            case {"client": {"event": "end"}}:
                self._failed += 1
            case {"client": {"event": "stopped"}}:
                self._active, self._cell = 0, {}
            case {"client": {"event": "exhausted" | "finished"}}:
                self._active = 0

    def lines(self) -> Iterator[str]:
        """Yield OpenMetrics text, without metrics before the first cell."""
        if labels := self._deployment_labels:
            if self._cell:
                meaning = "the parameters of the cell that is measured"
                yield from _family("cell", "info", "", meaning, [(labels | self._cell, 1)])
            for called, kind, meaning, value in (
                ("streams", "gauge", "transfers that the client keeps active", self._active),
                ("transfers", "counter", "transfers that ended well", self._well),
                ("transfers_failed", "counter", "transfers that ended badly", self._failed),
            ):
                yield from _family(called, kind, "", meaning, [(labels, value)])
            samples = sorted(dict(self._samples).items())
            for called, unit, field, meaning in METRICS:
                kind = "gauge" if called in GAUGES else "counter"
                values = [
                    (labels | {"origin": origin}, sample[field])
                    for origin, sample in samples
                    if field in sample
                ]
                yield from _family(called, kind, unit, meaning, values)
        yield METRICS_END


def _family(
    called: str, kind: str, unit: str, meaning: str, values: Iterable[tuple[dict[str, str], float]]
) -> Iterator[str]:
    """Yield the lines of a metric, without unknown values."""
    name, suffix = metric_name(called, unit), {"counter": "_total", "info": "_info"}.get(kind, "")
    yield from metric_head(name, kind, unit, meaning)
    for labels, value in values:
        if not math.isnan(value):
            yield f"{name}{suffix}{metric_labels(labels)} {value:.15g}"


def serve_metrics(running: CellMetrics, port: int = METRICS_PORT) -> socketserver.TCPServer:
    """Answer scrapers one after the other, in a thread."""

    class Handler(BaseHTTPRequestHandler):
        timeout = PATIENCE
        server_version, sys_version = "tpcsweep", ""

        def do_GET(self) -> None:
            if self.path != METRICS_PATH:
                self.send_error(HTTPStatus.NOT_FOUND)
                return
            body = "".join(f"{line}\n" for line in running.lines()).encode()
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", TYPE)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = _Server(("", port), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


class _Server(socketserver.TCPServer):
    """A server that, unlike `HTTPServer`, does not look up this machine's name."""

    address_family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET
    allow_reuse_address = True

    def handle_error(self, *_: object) -> None:
        """Ignore that a scraper has gone."""
