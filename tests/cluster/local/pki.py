# SPDX-License-Identifier: Apache-2.0
"""A certificate authority of a cluster's own, what it signs, and kubeconfigs that carry it."""

import base64
import json
import subprocess
from pathlib import Path

DAYS = 30
CONFIG = "[req]\ndistinguished_name = name\n[name]\n"
NEW_KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]


def authority(folder: Path) -> None:
    """Make ca.crt and ca.key, and the key pair that ServiceAccount tokens are signed with."""
    folder.mkdir(mode=0o700)
    (folder / "openssl.cnf").write_text(CONFIG)
    extensions = ["basicConstraints=critical,CA:TRUE", "keyUsage=critical,keyCertSign,cRLSign"]
    _request(folder, "ca", "/CN=cluster", [*extensions, "subjectKeyIdentifier=hash"])
    _openssl(folder, "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", "accounts.key")
    _openssl(folder, "ec", "-in", "accounts.key", "-pubout", "-out", "accounts.pub")


def server(folder: Path, name: str, names: list[str]) -> None:
    """Sign a server's certificate; `names` as in subjectAltName, e.g. IP:127.0.0.1."""
    _issue(folder, name, f"/CN={name}", ["extendedKeyUsage=serverAuth", "subjectAltName=" + ",".join(names)])


def client(folder: Path, name: str, user: str, group: str) -> None:
    """Sign a client's certificate: Kubernetes takes the user from CN and the group from O."""
    subject = (f"/O={group}" if group else "") + f"/CN={user}"
    _issue(folder, name, subject, ["extendedKeyUsage=clientAuth"])


def kubeconfig(folder: Path, name: str, url: str) -> str:
    """The text of a kubeconfig for the client `name`, with all that it needs inside."""

    def data(file: str) -> str:
        return base64.b64encode((folder / file).read_bytes()).decode()

    cluster = {"server": url, "certificate-authority-data": data("ca.crt")}
    user = {"client-certificate-data": data(f"{name}.crt"), "client-key-data": data(f"{name}.key")}
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "local",
        "contexts": [{"name": "local", "context": {"cluster": "local", "user": name}}],
        "clusters": [{"name": "local", "cluster": cluster}],
        "users": [{"name": name, "user": user}],
    }
    return json.dumps(content, indent=1)  # JSON is YAML


def _issue(folder: Path, name: str, subject: str, extensions: list[str]) -> None:
    usage = ["basicConstraints=critical,CA:FALSE", "keyUsage=critical,digitalSignature"]
    all_extensions = [*usage, "authorityKeyIdentifier=keyid", *extensions]
    _request(folder, name, subject, all_extensions, "-CA", "ca.crt", "-CAkey", "ca.key")


def _request(folder: Path, name: str, subject: str, extensions: list[str], *signed: str) -> None:
    words = ["req", "-x509", "-config", "openssl.cnf", *NEW_KEY, "-days", str(DAYS)]
    words += ["-subj", subject, "-keyout", f"{name}.key", "-out", f"{name}.crt", *signed]
    for extension in extensions:
        words += ["-addext", extension]
    _openssl(folder, *words)


def _openssl(folder: Path, *words: str) -> None:
    subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)
