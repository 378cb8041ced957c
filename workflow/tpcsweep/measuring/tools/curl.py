# SPDX-License-Identifier: Apache-2.0
"""curl: one process for each transfer, which sends COPY with macaroons fetched once for each cell."""

import os
import re
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from pathlib import Path

from tpcsweep.common import processes
from tpcsweep.measuring.tools.http_tpc import (
    MACAROON_TYPE,
    DigestAnswer,
    Progress,
    common_headers,
    copy_succeeded,
    digest_failure,
    digest_request,
    end_headers,
    macaroon_request,
    parse_macaroon,
    wish,
)
from tpcsweep.measuring.tools.tool import (
    CHECKSUMS,
    HTTP_LAYERS,
    Credentials,
    Program,
    Transfer,
    first_line,
    shortened,
)

_STATUS = re.compile(r"^HTTP status (\d{3})(?: retry-after \[(.*)\] date \[(.*)\])?$", re.MULTILINE)
"""The line that curl writes after the body of its last answer to COPY, before 7.84 without the headers."""
_CHECKSUM = re.compile(r"^checksum (\w+) of (source|destination): HTTP (\d{3})$", re.MULTILINE)
"""The line that curl writes after the headers of an end's answer to HEAD."""
_DIGEST = re.compile(r"^digest:(.*)$", re.MULTILINE | re.IGNORECASE)


class Curl(Program):
    """`curl -X COPY`."""

    name = "curl"
    order = 1
    encryptions = ("tls", "none")
    authorizations = ("macaroons", "none")
    checksums = CHECKSUMS
    layers = HTTP_LAYERS
    tags = True

    def prepare(self, transfer: Transfer, credentials: Credentials, folder: Path) -> None:
        """Fetch a macaroon from both ends if needed, and write the headers of all requests to private files."""
        tokens = fetch_tokens(transfer, credentials, folder)
        _write_headers(folder / "headers", common_headers(*tokens))
        if transfer.verifying:
            for role, token in zip_longest(transfer.roles, tokens):
                _write_headers(folder / f"headers.{role}", digest_request(transfer.checksum, token))

    def command(self, transfer: Transfer, credentials: Credentials, folder: Path) -> list[str]:
        """Return a COPY to the active end; macaroons come from a file, never from the command line."""
        active = transfer.ends[0]
        sent = [*_lines(end_headers(transfer)), f"@{folder / 'headers'}"]
        copy = ["-X", "COPY", *(word for line in sent for word in ("-H", line))]
        headers = "retry-after [%header{retry-after}] date [%header{date}]"
        # --no-buffer shows performance markers when they arrive.
        copy += ["--no-buffer", "--write-out", f"\nHTTP status %{{http_code}} {headers}\n", active]
        command = [*_curl(credentials), *_redirected(active), "--fail-early", *copy]
        for end in ("source", "destination") if transfer.verifying else ():
            url = transfer.source if end == "source" else transfer.destination
            head = ["--head", "-H", f"@{folder / f'headers.{end}'}", *_redirected(url)]
            command += ["--next", *_curl(credentials)[1:], *head]
            command += ["--write-out", f"\nchecksum {transfer.checksum} of {end}: HTTP %{{http_code}}\n", url]
        return command

    def failure(self, returncode: int, output: str) -> str | None:
        found, checksums = _STATUS.search(output), [*_CHECKSUM.finditer(output)]
        status, text = (int(found[1]), output.replace(found[0], "")) if found else (0, output)
        if found and checksums and returncode == 0:
            text = output[: found.start()]
        body, _, _ = text.partition("curl: (")  # curl's own message follows if the body does not end
        progress = Progress(body.encode())
        result = progress.last.decode()
        if returncode == 0 and copy_succeeded(status, result):
            return _checksum_failure(output, checksums) if checksums else None
        reason = (
            shortened(result) if progress.failed else self.failure_reason(text if text.strip() else output)
        )
        if found and status >= 400:
            reason = f"HTTP {status}{wish(status, found[2] or '', found[3] or '')}: {reason}"
        return f"exit code {returncode}: {reason}"

    def versions(self) -> dict[str, str]:
        return {"curl": first_line(["/usr/bin/curl", "--version"])}


def _checksum_failure(output: str, ends: Sequence[re.Match[str]]) -> str | None:
    """Return why checksums are not equal; `ends` are the lines after the headers of both ends in the output."""
    begins = [0, *(end.end() for end in ends)]
    answers = {
        end[2]: DigestAnswer(int(end[3]), (_DIGEST.findall(output, begin, end.start()) or [""])[-1].strip())
        for begin, end in zip(begins, ends, strict=False)
    }
    missing = DigestAnswer(0, "")
    return digest_failure(ends[0][1], answers.get("source", missing), answers.get("destination", missing))


def _redirected(url: str) -> list[str]:
    """Return the options to follow a redirector's 307 and send the token there too, but never from https to http."""
    return ["--location-trusted", "--proto-redir", "=https" if url.startswith("https:") else "=http,https"]


def _write_headers(path: Path, headers: Mapping[str, str]) -> None:
    private = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(private, "w") as file:
        file.writelines(f"{line}\n" for line in _lines(headers))


def _lines(headers: Mapping[str, str]) -> list[str]:
    return [f"{name}: {value}" for name, value in headers.items()]


def fetch_tokens(transfer: Transfer, credentials: Credentials, folder: Path) -> list[str]:
    """Return the token of the end that gets a COPY and that of the other one; [] if servers need none.

    An end without a token of its own gives a macaroon. Raises RuntimeError with its answer if it gives none.
    """
    if not credentials.needed:
        return []
    folders = [url.rpartition("/")[0] + "/" for url in transfer.ends[::2]]
    return [
        credentials.token(role) or _macaroon(role, url, transfer, credentials, folder)
        for role, url in zip(transfer.roles, folders, strict=True)
    ]


def _macaroon(role: str, url: str, transfer: Transfer, credentials: Credentials, folder: Path) -> str:
    identity = ["--cert", str(credentials.certificate), "--key", str(credentials.key)]
    body = macaroon_request(role, credentials, verifying=transfer.verifying).decode()
    request = ["-X", "POST", "-H", *_lines(MACAROON_TYPE), "-d", body, "--max-time", "30"]
    done = processes.run(
        [*_curl(credentials), *identity, *request, url], processes.measured_environment(folder)
    )
    try:
        return parse_macaroon(done.stdout)
    except ValueError:
        answer = (done.stdout + done.stderr).strip() or f"exit code {done.returncode}"
        raise RuntimeError(f"{url} gave no macaroon: {answer[:300]}") from None


def _curl(credentials: Credentials) -> list[str]:
    return ["/usr/bin/curl", "--silent", "--show-error", "--cacert", str(credentials.authority)]
