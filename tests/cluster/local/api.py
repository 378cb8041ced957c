# SPDX-License-Identifier: Apache-2.0
"""The API server as those inside see it: requests of the admin, without a client library."""

import http.client
import json
import ssl
import urllib.error
import urllib.request
from functools import cache
from typing import Any

from tests.cluster.local.settings import PKI, PORT

TIMEOUT = 10.0  # s
TYPE = {"Content-Type": "application/json"}
PODS = "/api/v1/pods"
POLICIES = "/apis/networking.k8s.io/v1/networkpolicies"
RESOURCES = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def request(method: str, path: str, body: dict[str, Any] | None = None) -> tuple[int, bytes]:
    """Status and body; (0, b"") where no answer is to be had now."""
    data = None if body is None else json.dumps(body).encode()
    asked = urllib.request.Request(f"https://127.0.0.1:{PORT}{path}", data, TYPE, method=method)
    try:
        with _opener().open(asked, timeout=TIMEOUT) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()
    except (OSError, http.client.HTTPException):
        return 0, b""


def create(path: str, body: dict[str, Any]) -> None:
    """Raises RuntimeError where the API server does not create it."""
    status, answer = request("POST", path, body)
    if status != 201:
        raise RuntimeError(f"{path}: status {status}: {answer[:500].decode(errors='replace')}")


def there(path: str) -> bool:
    return request("GET", path)[0] == 200


def items(path: str) -> list[dict[str, Any]] | None:
    """What a list has; None where no answer is to be had now."""
    status, body = request("GET", path)
    found: list[dict[str, Any]] | None = json.loads(body)["items"] if status == 200 else None
    return found


def ready_nodes() -> list[str]:
    return [
        node["metadata"]["name"]
        for node in items("/api/v1/nodes") or []
        for each in node["status"].get("conditions", [])
        if each["type"] == "Ready" and each["status"] == "True"
    ]


@cache
def _opener() -> urllib.request.OpenerDirector:
    context = ssl.create_default_context(cafile=str(PKI / "ca.crt"))
    context.load_cert_chain(PKI / "admin.crt", PKI / "admin.key")
    direct = urllib.request.ProxyHandler({})
    return urllib.request.build_opener(direct, urllib.request.HTTPSHandler(context=context))
