# SPDX-License-Identifier: Apache-2.0
"""A cluster's API: find the server, call it again while it does not answer, and explain its refusals."""

import json
import logging
import os
import random
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote

import urllib3
import yaml
from kubernetes import client, config
from kubernetes.client import ApiClient, ApiException, Configuration
from kubernetes.client.api_response import ApiResponse
from kubernetes.config import kube_config
from kubernetes.stream import stream
from kubernetes.stream.ws_client import WSClient
from urllib3.exceptions import HTTPError
from websocket import WebSocketBadStatusException

from tpcsweep.testbeds.kubernetes.metadata import object_name
from tpcsweep.testbeds.kubernetes.settings import Kubernetes

TIMEOUT = (5.0, 30.0)  # seconds to connect and to wait for an answer, unless a call says otherwise
PATIENCE = 60.0  # seconds for which a call is tried: an API server takes less to restart
REFUSED_SECONDS = 10.0  # an API server that has just started may refuse until it has read its rules
ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
KINDS: dict[type, tuple[str, str]] = {
    client.V1Job: ("batch", "job"),
    client.V1Pod: ("core", "pod"),
    client.V1ConfigMap: ("core", "config_map"),
    client.V1NetworkPolicy: ("networking", "network_policy"),
}
"""Kinds of a deployment's objects: the part of the API, and the name in its functions."""

Find = Callable[[], Configuration] | None  # reads the credentials again
T = TypeVar("T")


class ClusterError(Exception):
    """A fault of the cluster, or of how it may be used, in one line."""

    final = False  # whether another attempt fails, too


class RefusedError(ClusterError):
    """The API server has refused a request, with an HTTP `status`."""

    def __init__(self, error: ApiException) -> None:
        self.status, answer = int(error.status or 0), _status(error)
        message = " ".join(str(answer.get("message") or error.reason or "no reason given").split())
        text = f"{message} ({error.status})"
        # TLS: a handshake may fail once, but a wrong certificate remains wrong.
        untrusted = self.status == 0 and "CERTIFICATE_VERIFY_FAILED" in message
        if self.status == 401:
            text = "the API server does not accept the credentials (401): token or certificate invalid or expired"
        elif untrusted:
            text = f"the API server's certificate is not trusted by the kubeconfig's certificate authority: {message}"
        super().__init__(text)
        # Pods created at the same moment race for a quota's counter.
        counting = self.status == 409 and answer.get("details", {}).get("kind") == "resourcequotas"
        unheard = self.status == 0 and not untrusted
        self.final = not (unheard or counting or self.status == 429 or self.status >= 500)


class RenewingClient(ApiClient):
    """A client that limits the time of its requests, and reads refused credentials again."""

    def __init__(self, configuration: Configuration, find: Find = None) -> None:
        super().__init__(configuration)
        self._find = find
        self._lock = threading.Lock()

    def call_api(self, *arguments: Any, **options: Any) -> Any:
        options["_request_timeout"] = options.get("_request_timeout") or TIMEOUT
        response = super().call_api(*arguments, **options)
        if response.status == 401 and self.renew():
            headers, renewed = arguments[2], self.configuration.auth_settings()
            shown = {setting["key"]: setting["value"] for setting in renewed.values()}
            if not shown.items() <= headers.items():
                headers.update(shown)
                response = super().call_api(*arguments, **options)
        return response

    def renew(self) -> bool:
        """Read the credentials again; return whether they can be. Raises ClusterError."""
        with self._lock:
            if self._find:
                self.configuration.api_key = self._find().api_key
        return self._find is not None

    def response_deserialize(self, response_data: Any, response_types_map: Any = None) -> ApiResponse[Any]:
        # The answer to a deletion is a Status, or the deleted object if that has a grace period or a finalizer.
        types = {
            code: "object" if kind == "V1Status" else kind
            for code, kind in (response_types_map or {}).items()
        }
        return super().response_deserialize(response_data, types)


class Cluster:
    """A namespace of a cluster, and the parts of its API that deployments use. Thread-safe."""

    def __init__(self, configuration: Configuration, namespace: str, name: str, find: Find = None) -> None:
        """`name` is the cluster's in messages."""
        self.http = RenewingClient(configuration, find)
        self.core = client.CoreV1Api(self.http)
        self.batch = client.BatchV1Api(self.http)
        self.networking = client.NetworkingV1Api(self.http)
        self.namespace = namespace
        self.name = name

    def verb(self, verb: str, kind: type) -> Callable[..., Any]:
        """Return the API's function for a verb, such as `list`, and one of KINDS in a namespace."""
        part, name = KINDS[kind]
        function: Callable[..., Any] = getattr(getattr(self, part), f"{verb}_namespaced_{name}")
        return function

    def execute(self, pod: str, container: str, command: list[str]) -> WSClient:
        """Start a command in a container, and return its input and output. Raises RefusedError."""
        core = client.CoreV1Api(RenewingClient(self.http.configuration))  # `stream` replaces its requests
        try:
            connection: WSClient = stream(
                core.connect_get_namespaced_pod_exec,
                pod,
                self.namespace,
                container=container,
                command=command,
                **dict.fromkeys(("stdin", "stdout", "stderr", "binary"), True),
                _preload_content=False,
            )
        except ApiException as error:
            answer = error.__context__
            if isinstance(answer, WebSocketBadStatusException):  # `stream` puts the answer into one text
                body = (answer.resp_body or b"").decode(errors="replace")
                error = ApiException(status=answer.status_code, reason=answer.status_message, body=body)
            if error.status == 401:
                self.http.renew()  # for the next attempt
            raise RefusedError(error) from error
        return connection


def connect_cluster(settings: Kubernetes) -> Cluster:
    """Return the cluster of the settings, after it has answered once.

    Raises ClusterError if there is no cluster, or if it does not answer or refuses.
    """
    cluster = find_cluster(settings)
    require_answer(cluster, cluster.batch.list_namespaced_job, cluster.namespace, limit=1, seconds=10)
    return cluster


def require_answer(cluster: Cluster, operation: Callable[..., T], *arguments: Any, **options: Any) -> T:
    """Make the first call to a cluster, and return the answer. Raises ClusterError with the name of the cluster."""
    try:
        return call(operation, *arguments, **options)
    except ClusterError as error:
        advice = "" if isinstance(error, RefusedError) else ". Is it up, and can it be reached from here?"
        raise ClusterError(f"{cluster.name}: {error}{advice}") from error


def find_cluster(settings: Kubernetes) -> Cluster:
    """Return the cluster of the settings, without a request.

    Its kubeconfig is that of `$TPCSWEEP_KUBECONFIG`, `$KUBECONFIG` or ~/.kube/config; without one, a pod uses its
    service account. Raises ClusterError if there is no cluster.
    """
    # The client retries nothing by itself, so warnings of urllib3 are reported here, or are over.
    logging.getLogger("urllib3").setLevel(logging.ERROR)
    urllib3.disable_warnings()
    configuration, name, namespace = _find(settings)
    configuration.retries = False
    # It runs a plugin for each request if its tokens last five minutes.
    configuration.refresh_api_key_hook = None
    configuration.keep_alive = True  # a watch over a dead connection would never end
    configuration.connection_pool_maxsize = 32
    proxy = urllib3.util.parse_url(configuration.proxy or "")
    if proxy.auth:
        configuration.proxy_headers = urllib3.make_headers(proxy_basic_auth=unquote(proxy.auth))
    space = settings.namespace or namespace or "default"
    return Cluster(configuration, space, f"{name} ({configuration.host})", lambda: _find(settings)[0])


def call(operation: Callable[..., T], *arguments: Any, seconds: float = PATIENCE, **options: Any) -> T:
    """Make one API call, and repeat it for `seconds` while the server does not answer or is busy.

    The call must be one that may be made twice; `create_object` is for creations. Raises RefusedError if another
    attempt does not change the refusal, and ClusterError if the server does not answer.
    """
    give_up = time.monotonic() + seconds
    pause = 0.1
    while True:
        try:
            return operation(*arguments, **options)
        except ApiException as error:
            failure: ClusterError = RefusedError(error)
            if failure.final:
                raise failure from error
        except HTTPError as error:
            failure = ClusterError(f"the API server does not answer: {_words(error)}")
        except ClusterError as error:  # the credentials cannot be read, or an exec was refused
            if error.final:
                raise
            failure = error
        if time.monotonic() + pause > give_up:
            raise failure
        time.sleep(pause * random.uniform(1.0, 1.2))  # or all clients would come back at the same moment
        pause = min(2 * pause, 5.0)


def create_object(cluster: Cluster, body: T) -> T:
    """Create an object of a deployment once, even if the answer to the first request is lost.

    The returned object lacks fields that the server adds if its answer was lost, unless it is a Job. Raises as `call`.
    """

    def attempt() -> Any:
        try:
            return cluster.verb("create", type(body))(cluster.namespace, body)
        except ApiException as error:
            if _status(error).get("reason") != "AlreadyExists":
                raise
            # Its name contains the identifier of its deployment, so that it is the one of the first request.
            named = f"metadata.name={object_name(body)}"
            is_job, listing = isinstance(body, client.V1Job), cluster.batch.list_namespaced_job
            return next(iter(listing(cluster.namespace, field_selector=named).items if is_job else ()), body)

    created: T = call(attempt)
    return created


def _find(settings: Kubernetes) -> tuple[Configuration, str, str | None]:
    variables = [name for name in ("TPCSWEEP_KUBECONFIG", "KUBECONFIG") if os.environ.get(name)]
    files = os.environ[variables[0]] if variables else "~/.kube/config"
    if any(Path(file).expanduser().exists() for file in files.split(os.pathsep) if file):
        return _from_file(files, settings.context)
    if variables:
        raise ClusterError(f"${variables[0]} names {files}, which does not exist: correct it or unset it")
    if settings.context is None and (ACCOUNT / "token").exists():
        return _from_pod()
    wanted = "" if settings.context is None else f" with context {settings.context}"
    raise ClusterError(
        f"no kubeconfig{wanted}: there is no {files}, and this is not a pod with a service account. "
        "Name one by $KUBECONFIG."
    )


def _from_file(files: str, context: str | None) -> tuple[Configuration, str, str | None]:
    configuration = Configuration()
    try:
        merged = kube_config.KubeConfigMerger(files).config
        loader = kube_config.KubeConfigLoader(merged, context, config_base_path=None)
        loader.load_and_set(configuration)
        current = loader.current_context
    except (config.ConfigException, yaml.YAMLError, OSError, TypeError, AttributeError, ValueError) as error:
        raise ClusterError(f"{files} is no usable kubeconfig: {_words(error)}") from error
    configuration.api_key = {key: value.strip() for key, value in configuration.api_key.items()}
    return configuration, f"context {current['name']}", current["context"].get("namespace")


def _from_pod() -> tuple[Configuration, str, str | None]:
    configuration = Configuration()
    try:
        config.load_incluster_config(client_configuration=configuration)
        namespace = (ACCOUNT / "namespace").read_text().strip()
    except (config.ConfigException, OSError) as error:
        raise ClusterError(f"the service account of this pod cannot be used: {_words(error)}") from error
    return configuration, "this pod's cluster", namespace


def _status(error: ApiException) -> dict[str, Any]:
    """Return the Status in an answer; empty if the answer is a proxy's, or there is none."""
    try:
        status = json.loads(error.body or "")
    except ValueError:
        return {}
    return status if isinstance(status, dict) else {}


def _words(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
