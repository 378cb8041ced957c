# SPDX-License-Identifier: Apache-2.0
"""The right to remove deployments shows no Secret."""

import yaml

from tests.support.workflow import ROOT


def test_no_right_of_the_role_shows_a_secret() -> None:
    """Whoever may delete Secrets, one or many, is answered with what would be deleted in a dry run."""
    documents = yaml.safe_load_all((ROOT / "config/kubernetes/rbac.yaml").read_text())
    rules = [rule for document in documents for rule in document.get("rules", [])]
    assert [rule["verbs"] for rule in rules if {"secrets", "*"} & set(rule["resources"])] == [["create"]]
