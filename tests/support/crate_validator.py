# SPDX-License-Identifier: Apache-2.0
"""The community's validator of RO-Crates without a network: what it would download is put where it looks first.

Run by the Python of `.venv/validator` (envs/validator.txt): crate_validator.py CRATE PROFILE FOLDER. It prints what the
validator found as JSON: a list of [severity, message, entity].
"""

import json
import sys
from io import BytesIO
from pathlib import Path

import rocrate
from requests import PreparedRequest, Response
from requests.adapters import BaseAdapter, HTTPAdapter
from requests_cache import CachedSession
from rocrate_validator import services
from rocrate_validator.models import Severity
from urllib3 import HTTPResponse

CONTEXT = "https://w3id.org/ro/crate/1.1/context"


class Library(BaseAdapter):
    def send(self, request: PreparedRequest, *_: object, **__: object) -> Response:
        text = (Path(rocrate.__file__).parent / "data/ro-crate.jsonld").read_bytes()
        assert json.loads(text)["@id"] == request.url
        headers = {"Content-Type": "application/ld+json"}
        answer = HTTPResponse(BytesIO(text), headers, 200, preload_content=False)
        return HTTPAdapter().build_response(request, answer)

    def close(self) -> None: ...


def found(crate: Path, profile: str, folder: Path) -> list[tuple[str, str, str]]:
    """Let the validator's cache have the context, as if it had been downloaded, and ask the validator."""
    cache = folder / "http"
    with CachedSession(str(cache), backend="sqlite", expire_after=-1) as session:
        session.mount("https://", Library())
        assert session.get(CONTEXT).ok
    settings = {"rocrate_uri": str(crate), "profile_identifier": profile, "cache_path": cache}
    settings |= {"offline": True, "requirement_severity": Severity.RECOMMENDED}
    issues = services.validate(settings).get_issues()
    return [(issue.severity.name, str(issue.message), str(issue.violatingEntity or "")) for issue in issues]


if __name__ == "__main__":
    crate, profile, folder = sys.argv[1:]
    sys.stdout.write(json.dumps(found(Path(crate), profile, Path(folder))))
