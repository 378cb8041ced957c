# SPDX-License-Identifier: Apache-2.0
"""The cell that is measured, as OpenMetrics for whoever scrapes the client pod: where the testbed's file asks for it.

Figures have the names of the exported dataset (`exporting`). What it has as a rate or a sum over the cell is a counter
here: `rate(tpcsweep_source_cpu_seconds_total[10s])` is what will be `tpcsweep_source_cpu_cores`.
"""

from __future__ import annotations

import socket
import socketserver
import threading
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Any, NamedTuple

from tpcsweep.testbeds.kubernetes.pod.places import METRICS_PATH, METRICS_PORT, Sample
from tpcsweep.variables import METRICS_END, metric_head, metric_labels, metric_name

TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"
PATIENCE = 5.0
"""Seconds that a scraper may take for its request; the next one waits."""


class Figure(NamedTuple):
    """A figure of every origin of a side, or of the client."""

    kind: str
    called: str
    unit: str
    field: str
    """Of `Sample`."""
    of: str
    """What the names of those begin with that have it."""
    meaning: str
    scale: float = 1.0
    """What the field is multiplied by to be in the unit."""


FIGURES = (
    Figure(
        "counter", "goodput", "bytes", "payload", "dst", "payload that has arrived in the destination's files"
    ),
    Figure(
        "counter", "wire", "bytes", "received", "dst", "bytes that the destination's interface has received"
    ),
    Figure(
        "counter", "sent", "bytes", "data_sent", "src", "data sent by data connections, sent again included"
    ),
    Figure("counter", "resent", "bytes", "data_resent", "src", "data sent again by data connections"),
    Figure("counter", "retransmits", "", "retransmits", "src", "TCP segments sent again by the source"),
    Figure("gauge", "connections", "", "connections", "src", "data connections that are open"),
    Figure("gauge", "rtt_loaded", "seconds", "rtt", "src", "smoothed RTT, mean over data connections", 1e-3),
    *(
        figure
        for side, of in (("source", "src"), ("destination", "dst"), ("client", "client"))
        for figure in (
            Figure("counter", f"{side}_cpu", "seconds", "cpu", of, "CPU time used"),
            Figure(
                "counter", f"{side}_periods", "", "periods", of, "scheduling periods with something to run"
            ),
            Figure(
                "counter",
                f"{side}_throttled_periods",
                "",
                "throttled",
                of,
                "those in which the quota ran out",
            ),
        )
    ),
)


class Running:
    """What the hub has heard of the cell that is measured; read by another thread than the one that writes."""

    def __init__(self) -> None:
        self._whose: dict[str, str] = {}
        self._cell: dict[str, str] = {}
        self._active = 0
        self._samples: dict[str, Sample] = {}
        self._well = self._failed = 0

    def begin(self, whose: dict[str, str], cell: dict[str, str]) -> None:
        """A cell begins: the labels of everything, and what is said of the cell alone."""
        self._whose, self._cell = whose, cell

    def hear(self, message: Mapping[str, Any]) -> None:
        """Take what the job is told unasked."""
        if "sample" in message:
            self._samples[message["of"]] = Sample(*message["sample"])
        elif "client" in message:
            self._event(message["client"])

    def _event(self, event: Mapping[str, Any]) -> None:
        match event["event"]:
            case "prepared":
                self._active = int(self._cell.get("streams", 0))
            case "end" if event["failure"] is None:
                self._well += 1
            case "end":
                self._failed += 1
            case "stopped":
                self._active, self._cell = 0, {}
            case "exhausted" | "finished":
                self._active = 0

    def lines(self) -> Iterator[str]:
        """Give them all as OpenMetrics text; nothing before the first cell."""
        if self._whose:
            yield from self._about()
            samples = dict(self._samples)
            for figure in FIGURES:
                yield from self._figure(figure, samples)
        yield METRICS_END

    def _about(self) -> Iterator[str]:
        whose = metric_labels(self._whose)
        if self._cell:
            yield from metric_head(
                metric_name("cell"), "info", "", "the parameters of the cell that is measured"
            )
            yield f"{metric_name('cell')}_info{metric_labels(self._whose | self._cell)} 1"
        yield from metric_head(metric_name("streams"), "gauge", "", "transfers that the client keeps active")
        yield f"{metric_name('streams')}{whose} {self._active}"
        outcomes = {"transfers": ("well", self._well), "transfers_failed": ("badly", self._failed)}
        for called, (how, count) in outcomes.items():
            yield from metric_head(metric_name(called), "counter", "", f"transfers that ended {how}")
            yield f"{metric_name(called)}_total{whose} {count}"

    def _figure(self, figure: Figure, samples: Mapping[str, Sample]) -> Iterator[str]:
        metric = metric_name(figure.called, figure.unit)
        yield from metric_head(metric, figure.kind, figure.unit, figure.meaning)
        for origin, sample in sorted(samples.items()):
            value = getattr(sample, figure.field)
            if origin.startswith(figure.of) and value is not None:
                suffix = "_total" if figure.kind == "counter" else ""
                yield f"{metric}{suffix}{metric_labels({**self._whose, 'origin': origin})} {value * figure.scale:.15g}"


def serve(running: Running, port: int = METRICS_PORT) -> socketserver.TCPServer:
    """Answer scrapers from now on, in a thread of its own; those that come at the same time one after the other."""

    class Handler(BaseHTTPRequestHandler):
        timeout = PATIENCE

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

        def version_string(self) -> str:
            return "tpcsweep"

        def log_message(self, *_: object) -> None:
            pass

    server = _Server(("", port), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


class _Server(socketserver.TCPServer):
    """Not `HTTPServer`, which looks for this machine's name when it begins."""

    address_family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET
    allow_reuse_address = True

    def handle_error(self, *_: object) -> None:
        """A scraper that has gone is nobody's concern."""
