# SPDX-License-Identifier: Apache-2.0
"""What a teardown waits for, and asks, on an API server that is played."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import yaml
from tpcsweep.testbeds import TeardownError
from tpcsweep.testbeds.kubernetes import objects, state

from tests.support.played_api import PlayedApi
from tests.support.workflow import ROOT, wait_until


@pytest.fixture(autouse=True)
def secrets(server: PlayedApi) -> None:
    for of in objects.SECRETS:
        server.put("secrets", {"metadata": {"name": f"tpc-aaaaaa-{of}"}})


def asked_of_secrets(server: PlayedApi) -> list[tuple[str, str]]:
    return [(verb, address.partition("?")[2]) for verb, address in server.asked if "/secrets" in address]


def test_secrets_are_waited_for_and_neither_seen_nor_deleted(server: PlayedApi) -> None:
    with ThreadPoolExecutor(1) as pool:
        torn_down = pool.submit(state.teardown, server.cluster(), "aaaaaa")
        wait_until(lambda: len(asked_of_secrets(server)) > 2, "Secrets are looked for more than once")
        assert not torn_down.done()
        for of in objects.SECRETS:
            server.remove("secrets", f"tpc-aaaaaa-{of}")
        assert torn_down.result(60) == []
    assert set(asked_of_secrets(server)) == {("POST", "dryRun=All")}


def test_secrets_that_stay_are_named(server: PlayedApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "GONE_SECONDS", 0.2)
    server.remove("secrets", "tpc-aaaaaa-servers")
    words = "aaaaaa is not gone: secret tpc-aaaaaa-client is still there: .* with its Job$"
    with pytest.raises(TeardownError, match=words):
        state.teardown(server.cluster(), "aaaaaa")


def test_a_quota_that_keeps_it_from_being_known_keeps_no_teardown_from_ending(server: PlayedApi) -> None:
    server.refuse = lambda _, path, __: 403 if path.endswith("/secrets") else None
    assert state.teardown(server.cluster(), "aaaaaa") == []


def test_no_right_of_the_role_shows_a_secret() -> None:
    """Whoever may delete Secrets, one or many, is answered with what would be deleted in a dry run."""
    documents = yaml.safe_load_all((ROOT / "config/kubernetes/rbac.yaml").read_text())
    rules = [rule for document in documents for rule in document.get("rules", [])]
    assert [rule["verbs"] for rule in rules if {"secrets", "*"} & set(rule["resources"])] == [["create"]]
