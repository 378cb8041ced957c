# SPDX-License-Identifier: Apache-2.0
"""The way to a cluster's API server: find it, call it in spite of what goes wrong on the way, say what it refuses."""

from __future__ import annotations

import base64
import datetime
import itertools
import json
import logging
import os
import random
import re
import threading
import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

import urllib3
import yaml
from cryptography import x509
from kubernetes import client, config
from kubernetes.client import ApiClient, ApiException, Configuration
from kubernetes.client.api_response import ApiResponse
from kubernetes.client.rest import RESTClientObject, should_bypass_proxies
from kubernetes.config import kube_config
from urllib3.exceptions import HTTPError, ProxyError
from websocket import WebSocketBadStatusException

from tpcsweep.configuration.kubernetes import Kubernetes
from tpcsweep.testbeds.kubernetes import faults
from tpcsweep.testbeds.kubernetes.metadata import deployment_of, name_of

TIMEOUT = (5.0, 30.0)
"""Seconds to connect and to wait for an answer, of calls that do not say."""
PATIENCE = 60.0
"""Seconds for which a call is tried: an API server takes less to restart."""
BUSY = 5
"""As many times as long it is tried while the server says that it is busy: it is alive, and others will be done."""
REFUSED_SECONDS = 10.0
"""An API server that has just been started may refuse what it has not yet read that it should allow."""
ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")

KINDS: dict[type, tuple[str, str]] = {
    client.V1Job: ("batch", "job"),
    client.V1Pod: ("core", "pod"),
    client.V1Secret: ("core", "secret"),
    client.V1ConfigMap: ("core", "config_map"),
    client.V1NetworkPolicy: ("networking", "network_policy"),
    client.V1Lease: ("coordination", "lease"),
}
"""What deployments consist of: of each kind the part of the API, and its name in that part's functions."""

T = TypeVar("T")


class ClusterError(Exception):
    """What is wrong with the cluster, or with how it may be used: one line."""

    final = False
    """Whether another attempt is refused, too."""


class RefusedError(ClusterError):
    """The API server has answered, and the answer is no: `status` is HTTP's."""

    def __init__(self, error: ApiException) -> None:
        super().__init__(explain_error(error))
        self.status = int(error.status or 0)
        self.passing = _passing(error)
        """Whether the same request may succeed later, without anybody doing anything about it."""
        self.final = self.status in (400, 403, 404, 422)


class CountingClient(ApiClient):
    """The client, with a time limit on every request, a count of them, and the time that the server says it is.

    Credentials that the server does not accept are read again from where they come from (`find`).
    """

    def __init__(
        self, configuration: Configuration, proxy: str = "", find: Callable[[], Configuration] | None = None
    ) -> None:
        super().__init__(configuration)
        self.requests = 0
        self._proxy, self._find, self._renewals = proxy, find, 0
        self._ahead: float | None = None
        """Seconds by which the server's clock is ahead of this machine's monotonic one; None before an answer."""
        self._lock, self._renewal = threading.Lock(), threading.Lock()

    def count(self) -> None:
        with self._lock:
            self.requests += 1

    def call_api(self, *arguments: Any, **options: Any) -> Any:
        self.count()
        options["_request_timeout"] = options.get("_request_timeout") or TIMEOUT
        renewals = self._renewals
        try:
            response = super().call_api(*arguments, **options)
            if response.status == 401 and self.renew(renewals):
                for setting in self.configuration.auth_settings().values():
                    arguments[2][setting["key"]] = setting["value"]  # the headers
                response = super().call_api(*arguments, **options)
        except ProxyError as error:
            raise ClusterError(f"{self._proxy} does not answer: {_words(error.original_error)}") from error
        self._hear(response.headers.get("Date"))
        return response

    def renew(self, renewals: int | None = None) -> bool:
        """Whether there are other credentials than before, or than after so many `renewals`. Raises ClusterError."""
        with self._renewal:
            if self._find is None or renewals not in (None, self._renewals):
                return self._find is not None
            old, new = self.configuration, self._find()
            before = old.api_key
            old.api_key, old.cert_file, old.key_file = new.api_key, new.cert_file, new.key_file
            self.rest_client = RESTClientObject(old)  # those that are open have shown the old certificate
            self._renewals += 1
            return bool(old.cert_file) or old.api_key != before

    def now(self) -> datetime.datetime:
        """The time by the server's clock, to a second or two, whatever this machine's clock says."""
        ahead = time.time() - time.monotonic() if self._ahead is None else self._ahead
        return datetime.datetime.fromtimestamp(ahead + time.monotonic(), datetime.UTC)

    def _hear(self, date: str | None) -> None:
        """Take note of what time it was at the server: an answer may come late, and never early."""
        try:
            ahead = parsedate_to_datetime(date or "").timestamp() - time.monotonic()
        except ValueError:
            return  # from a proxy that does not say
        with self._lock:
            self._ahead = ahead if self._ahead is None else max(self._ahead, ahead)

    def response_deserialize(self, response_data: Any, response_types_map: Any = None) -> ApiResponse[Any]:
        """The answer as an object.

        What is deleted with a grace or a finalizer is itself the answer to its deletion; the client's model of that
        answer is a Status, and refuses anything else.
        """
        if (response_types_map or {}).get("200") == "V1Status" and 200 <= response_data.status < 300:
            return ApiResponse(
                status_code=response_data.status,
                headers=response_data.headers,
                data=client.V1Status(),
                raw_data=response_data.data,
            )
        return super().response_deserialize(response_data, response_types_map)


class Cluster:
    """A namespace of a cluster, and the parts of its API that deployments use. Thread-safe."""

    def __init__(
        self,
        configuration: Configuration,
        namespace: str,
        name: str,
        find: Callable[[], Configuration] | None = None,
    ) -> None:
        """`name` is the cluster in messages: the kubeconfig's context and the server's address.

        `find` finds credentials again. Raises ClusterError where a proxy is none that requests can go by.
        """
        self.proxy = _choose_proxy(configuration)
        """The proxy that all requests go by, with the variable that names it; empty: none."""
        self.http = CountingClient(configuration, self.proxy, find)
        self.core = client.CoreV1Api(self.http)
        self.batch = client.BatchV1Api(self.http)
        self.coordination = client.CoordinationV1Api(self.http)
        self.networking = client.NetworkingV1Api(self.http)
        self.namespace = namespace
        self.name = name

    @property
    def requests(self) -> int:
        return self.http.requests

    def now(self) -> datetime.datetime:
        """The time by the API server's clock, which all who use it share."""
        return self.http.now()

    def verb(self, verb: str, kind: type) -> Callable[..., Any]:
        """The API's function that does something, such as `list`, with objects of one of KINDS in a namespace."""
        part, name = KINDS[kind]
        function: Callable[..., Any] = getattr(getattr(self, part), f"{verb}_namespaced_{name}")
        return function

    def streaming(self) -> client.CoreV1Api:
        """An API object for one `kubernetes.stream.stream`, which turns every request of its client into its own."""
        self.http.count()
        return client.CoreV1Api(CountingClient(self.http.configuration))


def connect_cluster(settings: Kubernetes) -> Cluster:
    """The cluster that the settings mean, after it has answered once.

    It is that of `$TPCSWEEP_KUBECONFIG`, else of `$KUBECONFIG` or ~/.kube/config, else the one that this process
    runs in.

    Raises:
        ClusterError: None is found, it does not answer or it refuses.
    """
    # The client is told to try nothing again by itself, so what urllib3 warns of is reported here, or is over.
    logging.getLogger("urllib3").setLevel(logging.ERROR)
    urllib3.disable_warnings()
    configuration, name, namespace = _find(settings)
    configuration.retries = False
    configuration.refresh_api_key_hook = (
        None  # it runs a plugin for every request, if tokens last five minutes
    )
    configuration.keep_alive = True  # a watch over a connection that is dead says nothing, for ever
    configuration.connection_pool_maxsize = 32
    space = settings.namespace or namespace or "default"
    cluster = Cluster(configuration, space, f"{name} ({configuration.host})", lambda: _find(settings)[0])
    try:
        call(cluster.coordination.list_namespaced_lease, space, limit=1, seconds=10)
    except RefusedError as error:
        expiry = _expiry(configuration) if error.status == 401 else ""
        raise ClusterError(f"{cluster.name}: {error}{expiry}") from error
    except ClusterError as error:
        way = f"is {cluster.proxy} the way to it" if cluster.proxy else "can it be reached from here"
        raise ClusterError(f"{cluster.name}: {error}. Is it up, and {way}?") from error
    return cluster


def call(operation: Callable[..., T], *arguments: Any, seconds: float = PATIENCE, **options: Any) -> T:
    """Make one API call, and again while the server does not answer or is busy.

    For calls that may be made twice: reading, deleting, replacing one version of an object; `create` is for the
    others. It is tried again for so many `seconds`; 0: it is tried once.

    Raises:
        RefusedError: An answer that trying again does not change.
        ClusterError: No answer.
    """
    give_up = time.monotonic() + seconds
    pause = 0.1
    while True:
        try:
            return operation(*arguments, **options)
        except ApiException as error:
            failure: ClusterError = RefusedError(error)
            if not _passing(error):
                raise failure from error
            asked = (error.headers or {}).get("Retry-After", "")
            wait = max(pause, float(asked) if asked.isdigit() else 0.0)
        except HTTPError as error:
            failure = ClusterError(f"the API server does not answer: {_words(error)}")
            wait = pause
        except ClusterError as error:  # a proxy or a credential plugin
            failure = error
            wait = pause
        busy = isinstance(failure, RefusedError) and failure.status == 429
        if time.monotonic() + wait > give_up + (BUSY - 1) * seconds * busy:
            raise failure
        # Many clients lose their server at the same time, and should not all come back at the same time.
        time.sleep(wait * random.uniform(1.0, 1.2))
        pause = min(2 * pause, 5.0)


def create_object(cluster: Cluster, body: T) -> T:
    """Create an object that has a name and our labels, just once, even where the answer to the first request is lost.

    What comes back then has what the server adds only where it is a Job or a Lease.

    Raises:
        RefusedError: Status 409 where the name is taken by another's.
        ClusterError: No answer.
    """
    attempts = itertools.count()

    def attempt() -> Any:
        again = next(attempts) > 0
        try:
            return cluster.verb("create", type(body))(cluster.namespace, body)
        except ApiException as error:
            if not (again and error.status == 409 and _status(error).get("reason") == "AlreadyExists"):
                raise
            # All other names have the identifier of a Job that is there already, and nobody needs the right to read.
            if not isinstance(body, client.V1Job | client.V1Lease):
                return body
            named = f"metadata.name={name_of(body)}"
            for present in cluster.verb("list", type(body))(cluster.namespace, field_selector=named).items:
                if deployment_of(present) == deployment_of(body):
                    return present
            raise

    created: T = call(attempt)
    return created


def stream_refusal(error: ApiException) -> RefusedError:
    """What the API server has answered to `kubernetes.stream.stream`.

    That makes of the answer one text, headers and all, without a status (ws_client.websocket_call); what it was made
    of is the error that came before.
    """
    answer = error.__context__
    if isinstance(answer, WebSocketBadStatusException):
        error = ApiException(
            status=answer.status_code,
            reason=answer.status_message,
            body=(answer.resp_body or b"").decode(errors="replace"),
        )
    return RefusedError(error)


def explain_error(error: ApiException) -> str:
    """What the API server has refused and why, in one line."""
    status = _status(error)
    message = " ".join(str(status.get("message") or error.reason or "no reason given").split())
    if error.status == 401:
        return "the API server does not accept the credentials (401): token or certificate invalid or expired"
    if right := RIGHT.search(message):
        group = f".{right['group']}" if right["group"] else ""
        where = f"in namespace {right['namespace']}" if right["namespace"] else "in the whole cluster"
        return f"{right['user']} lacks the right to {right['verb']} {right['resource']}{group} {where} (403)"
    if missing := re.fullmatch(r'namespaces "([^"]*)" not found', message):
        return (
            f"there is no namespace {missing[1]}: kubectl create namespace {missing[1]}, "
            "or correct `namespace` of the testbed"
        )
    if quota := re.search(r"^(.*?) is forbidden: (?:exceeded|failed) quota: (.*)", message):
        return f"quota exceeded by {quota[1]}: {quota[2]}"
    if (limited := re.search(r"^(.*?) is forbidden: (.*)", message)) and faults.limit_range(limited[2]):
        return f"{limited[1]}: {limited[2]}{faults.limit_range(limited[2])}"
    if security := re.search(r"^(.*?) is forbidden: violates (PodSecurity.*)", message):
        return f"{security[1]} violates {security[2]}"
    if error.status == 0 and "CERTIFICATE_VERIFY_FAILED" in message:
        return f"the API server's certificate is not trusted by the kubeconfig's certificate authority: {message}"
    reason = status.get("reason") or error.reason
    return f"{'' if reason in (None, message) else f'{reason}: '}{message} ({error.status})"


RIGHT = re.compile(
    r'User "(?P<user>[^"]*)" cannot (?P<verb>\S+) resource "(?P<resource>[^"]*)" in API group "(?P<group>[^"]*)"'
    r'(?: in the namespace "(?P<namespace>[^"]*)")?'
)
"""How RBAC refuses."""


def _choose_proxy(configuration: Configuration) -> str:
    """Decide for all requests which proxy they go by: REST and exec read it and NO_PROXY each in a way of its own.

    Returns the proxy in words, without its password; empty: none.
    """
    given = (configuration.proxy or "").strip()
    if not given:
        return ""
    host = urlsplit(configuration.host)
    names = f"{host.scheme}_proxy", "all_proxy"
    named = [name for name, value in os.environ.items() if name.lower() in names and value.strip() == given]
    source = named[0] if named else "proxy-url of the kubeconfig"
    # Brackets are for addresses with ports; to the client an address without one has none.
    listed = [
        re.sub(r"^\[(.*)\]$", r"\1", entry) for entry in re.split(r"[,\s]+", configuration.no_proxy or "")
    ]
    if named and should_bypass_proxies(configuration.host, ",".join(listed)):
        configuration.no_proxy = "*"
        return ""
    configuration.no_proxy = ","  # which names nobody: of nothing, exec would read NO_PROXY
    try:
        url = urllib3.util.parse_url(given if "://" in given else f"http://{given}")
    except ValueError:
        url = urllib3.util.Url()
    if url.scheme != "http" or not url.host:
        raise ClusterError(
            f"{source} names a proxy of kind {url.scheme}, by which commands in pods cannot be started: name one "
            "of kind http, such as http://proxy.example:3128, or the API server in NO_PROXY"
        )
    if ":" in (host.hostname or ""):
        raise ClusterError(
            f"{source}: commands in pods cannot be started by a proxy if the API server has an address of IPv6, "
            f"{host.netloc}: name it in NO_PROXY, or have the kubeconfig call it by its name"
        )
    configuration.proxy = f"http://{url.host}:{url.port or 80}"
    if url.auth:
        configuration.proxy_headers = urllib3.make_headers(proxy_basic_auth=unquote(url.auth))
    return f"the proxy {configuration.proxy} ({source})"


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
    # What a credential plugin says when it fails is logged by the client, which then goes on without credentials.
    said: list[str] = []
    listener = logging.Handler()
    listener.addFilter(lambda record: record.thread == threading.get_ident())
    listener.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    root = logging.getLogger()
    try:
        paths = [Path(file).expanduser() for file in files.split(os.pathsep) if file]
        filled = [str(path) for path in paths if path.exists() and path.read_text().strip()]
        merger = kube_config.KubeConfigMerger(os.pathsep.join(filled) or files)
        contexts = {entry["name"]: entry["context"] for entry in merger.config["contexts"]}
        # The first that names one wins, as in kubectl.
        named = [content.get("current-context") for content in merger.config_files.values()]
        current = context or next(filter(None, named), None)
        if current not in contexts:
            lacking = f"context {current}" if current else "current context"
            raise ClusterError(f"{files} has no {lacking}; it has {', '.join(sorted(contexts)) or 'none'}")
        for user in merger.config["users"]:
            # Files are beside the kubeconfig that names them; the client looks for these beside the cluster's.
            for key in {"client-certificate", "client-key"} & set(user.value.get("user") or ()):
                user.value["user"][key] = str(Path(user.path).absolute().parent / user["user"][key])
        root.addHandler(listener)
        options = {"config_base_path": None, "config_persister": merger.save_changes}
        loader = kube_config.KubeConfigLoader(merger.config, current, **options)
        loader.load_and_set(configuration)
    except (config.ConfigException, yaml.YAMLError, OSError, TypeError, AttributeError, ValueError) as error:
        raise ClusterError(f"{files} is no usable kubeconfig: {_words(error)}") from error
    finally:
        root.removeHandler(listener)
    if said:
        words = " ".join("; ".join(said).split())
        raise ClusterError(f"{files}: context {current} gives no credentials: {words}")
    configuration.api_key = {name: key.strip() for name, key in configuration.api_key.items()}
    return configuration, f"context {current}", contexts[current].safe_get("namespace")


def _from_pod() -> tuple[Configuration, str, str | None]:
    configuration = Configuration()
    try:
        config.load_incluster_config(client_configuration=configuration)
        namespace = (ACCOUNT / "namespace").read_text().strip()
    except (config.ConfigException, OSError) as error:
        raise ClusterError(f"the service account of this pod is of no use: {_words(error)}") from error
    return configuration, "this pod's cluster", namespace


def _status(error: ApiException) -> dict[str, Any]:
    """The Status that an answer is made of; empty where a proxy or nobody has answered."""
    try:
        status = json.loads(error.body or "")
    except ValueError:
        return {}
    return status if isinstance(status, dict) else {}


def _passing(error: ApiException) -> bool:
    status = int(error.status or 0)
    if status == 0:  # TLS: a server may die in the middle of a handshake, but a wrong certificate stays wrong
        return "CERTIFICATE_VERIFY_FAILED" not in str(error.reason)
    # Pods created at the same time count against a quota at the same time, and the count lets one of them win.
    counting = status == 409 and _status(error).get("details", {}).get("kind") == "resourcequotas"
    return status == 429 or status >= 500 or counting


def _words(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _expiry(configuration: Configuration) -> str:
    token = str(configuration.api_key.get("BearerToken", "")).partition(" ")[2]
    try:
        if token:
            payload = token.split(".")[1]
            claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
            until = datetime.datetime.fromtimestamp(claims["exp"], datetime.UTC)
        else:
            certificate = Path(configuration.cert_file or "").read_bytes()
            until = x509.load_pem_x509_certificate(certificate).not_valid_after_utc
    except (OSError, ValueError, LookupError, TypeError):
        return ""
    kind = "token" if token else "certificate"
    expired = until < datetime.datetime.now(datetime.UTC)
    return f"; the {kind} has expired at {until:%Y-%m-%d %H:%M:%S} UTC" if expired else ""
