# SPDX-License-Identifier: Apache-2.0
"""The base of kustomize, with the overlay of docs/kubernetes.md, as a cluster takes it."""

import json
import re
import shutil
from pathlib import Path

from tests.cluster import local
from tests.cluster.sweeps import rights, shipped_rights, space
from tests.cluster.test_page import PAGE
from tests.support.workflow import ROOT

OVERLAY = r"^```yaml\n(# kustomization\.yaml.*?)^```$"
NAME = "tpcsweep-kustomize"


def test_the_overlay_of_the_page_makes_rights_volume_and_weekly_job(
    control_plane: local.Cluster, tmp_path: Path
) -> None:
    [overlay] = re.findall(OVERLAY, PAGE.read_text(), re.MULTILINE | re.DOTALL)
    shutil.copytree(ROOT / "config/kubernetes", tmp_path / "tpcsweep/config/kubernetes")
    ours = tmp_path / "ours"
    ours.mkdir()
    (ours / "kustomization.yaml").write_text(overlay.replace("NAMESPACE", NAME))
    for kind in ("sweeps/nodes", "testbeds/kubernetes"):
        shutil.copy(ROOT / f"config/{kind}.yaml", ours)
    kinds = {
        *("serviceaccount/tpcsweep", "role.rbac.authorization.k8s.io/tpcsweep"),
        *("rolebinding.rbac.authorization.k8s.io/tpcsweep", "persistentvolumeclaim/tpcsweep"),
        "cronjob.batch/tpcsweep-weekly",
    }
    with space(control_plane.kubeconfig, NAME):
        made = set(control_plane.kubectl("apply", "--output=name", f"--kustomize={ours}").split())
        [config_map] = made - kinds
        assert made == {config_map, *kinds}

        def get(name: str) -> dict:
            return json.loads(control_plane.kubectl("get", f"--namespace={NAME}", "--output=json", name))

        assert rights(get("role/tpcsweep")["rules"]) == shipped_rights()
        assert get("rolebinding/tpcsweep")["subjects"][0]["namespace"] == NAME
        spec = get("cronjob/tpcsweep-weekly")["spec"]["jobTemplate"]["spec"]["template"]["spec"]
        assert spec["containers"][0]["image"] == "REGISTRY/tpcsweep:0.1.0-workflow"
        [volume] = [each for each in spec["volumes"] if each["name"] == "configuration"]
        assert f"configmap/{volume['configMap']['name']}" == config_map
        assert set(get(config_map)["data"]) == {"nodes.yaml", "kubernetes.yaml"}
