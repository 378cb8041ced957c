# SPDX-License-Identifier: Apache-2.0
"""States of hosts that the values of a setting change, in words."""

from tpcsweep.pages.host_changes import names_only, state_words, with_texts


def test_keys_of_states_are_words() -> None:
    assert state_words("a1.interfaces.ens1.qdisc") == "a1's ens1 qdisc"
    assert state_words("a1.interfaces.ens1.offloads.tx-udp") == "a1's ens1 offloads.tx-udp"
    assert state_words("b1.sysctls.net.ipv4.tcp_rmem") == "b1's net.ipv4.tcp_rmem"
    assert state_words("b1.kernel") == "b1's kernel"


def test_changes_are_those_between_two_values() -> None:
    states = {
        "a1's ens1 qdisc": {"stock": "mq", "fq": "fq", "cap": "fq"},
        "b1's tuned": {"stock": "", "fq": "", "cap": "dtn"},
    }
    assert with_texts(states, "stock", "cap") == (
        "a1's ens1 qdisc from mq to fq; b1's tuned from nothing recorded to dtn"
    )
    assert names_only(states, "fq", "cap") == "b1's tuned"
    assert names_only(states, "stock", "cap") == "a1's ens1 qdisc and b1's tuned"
    assert with_texts(states, "stock", "stock") == ""


def test_many_changes_are_counted() -> None:
    states = {f"a1's ens{number} mtu": {"stock": "1500", "jumbo": "9000"} for number in range(7)}
    assert names_only(states, "stock", "jumbo").endswith(
        "a1's ens3 mtu and 3 other states in the table of recorded states"
    )
