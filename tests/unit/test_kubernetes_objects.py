# SPDX-License-Identifier: Apache-2.0
"""The objects of a deployment, as the API gets them, and the archive of this package that pods run."""

import ast
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kubernetes.client import ApiClient, V1Job, V1ObjectMeta, V1Pod
from tpcsweep.deploying.paths.network_path import NetworkPath
from tpcsweep.deploying.xrootd import server_config as xrootd
from tpcsweep.sweeps.parameters import DeploymentParameters
from tpcsweep.testbeds.kubernetes import objects
from tpcsweep.testbeds.kubernetes import pod as programs
from tpcsweep.testbeds.kubernetes.api import ClusterError
from tpcsweep.testbeds.kubernetes.metadata import Naming
from tpcsweep.testbeds.kubernetes.placements import server_placements
from tpcsweep.testbeds.kubernetes.pod import capabilities, pod_files
from tpcsweep.testbeds.kubernetes.pod.network import commands, share
from tpcsweep.testbeds.kubernetes.pods import pod_address
from tpcsweep.testbeds.kubernetes.settings import Kubernetes
from tpcsweep.testbeds.kubernetes.testbed import common_release

from tests.support.testbeds import kubernetes as settings
from tests.support.testbeds import pods as of_pods
from tests.support.testbeds import sized
from tests.support.workflow import finished, succeeded

NAMING = Naming("abc123", "demo", "origins=2/rtt=20")
OWNER = V1Job(metadata=V1ObjectMeta(name="tpc-abc123", uid="u"))


def pod(of: Kubernetes, origins: int = 2, **parameters: Any) -> Any:
    """The pod of the first origin of a source side."""
    return pods(of, origins=origins, **parameters)[-origins]


def pods(of: Kubernetes, **parameters: Any) -> list[Any]:
    """The pods of a source side, the redirector's first."""
    return [made["spec"]["template"] for made in jobs(of, **parameters)]


def jobs(of: Kubernetes, **parameters: Any) -> list[Any]:
    wanted = DeploymentParameters(**parameters)
    placed = server_placements(of.pairs[0].source, wanted.origins, host_network=of.host_network)
    addresses = [f"10.0.0.{2 + number}" for number in range(wanted.origins)]
    ports = [pod_files.block(placement.port) for placement in placed]
    servers = xrootd.side_servers("src", "10.0.0.1", addresses, Path("/f"), Path("/r"), ports).servers
    return [
        body(objects.server_job(NAMING, of, placement, server, wanted, 1, 1234.5))
        for placement, server in zip(placed, servers, strict=True)
    ]


def body(made: object) -> Any:
    return ApiClient().sanitize_for_serialization(made)


def client_pod(of: Kubernetes) -> dict[str, Any]:
    return dict(body(objects.client_job(NAMING, of, 60))["spec"]["template"])


def container(made: dict[str, Any], name: str = "servers") -> dict[str, Any]:
    return next(each for each in made["spec"]["containers"] if each["name"] == name)


def annotated(name: str, value: str) -> dict[str, Any]:
    return {"podTemplate": {"metadata": {"annotations": {name: value}}}}


def resources(made: dict[str, Any], name: str = "servers") -> dict[str, Any]:
    return dict(container(made, name)["resources"])


MEMORY = str(5 << 30)


@pytest.mark.parametrize(
    ("qos", "cores", "limit", "requests"),
    [
        ("guaranteed", 1.5, {"cpu": "0.750"}, {"cpu": "0.750", "memory": MEMORY}),
        ("burstable", 4, {"cpu": "2.000"}, {"cpu": "10m", "memory": "32Mi"}),
        ("near", 3, {"cpu": "1.500"}, {"cpu": "1250m", "memory": "4473924267"}),
        ("burstable", None, {}, {"cpu": "10m", "memory": "32Mi"}),
    ],
)
def test_requests_and_limits_of_each_origin(qos: str, cores: float | None, limit: Any, requests: Any) -> None:
    made = resources(pod(settings(qos=qos), **({"cores": cores} if cores else {})))
    assert made == {"limits": {**limit, "memory": MEMORY}, "requests": requests}


def test_a_server_gets_its_release() -> None:
    command = container(pod(settings(), xrootd="5.8.1"))["command"]
    assert command[3:] == ["src1", "server", "5.8.1", "1213", "cmsd", "xrootd"]
    assert container(pod(settings(), origins=1))["command"][5:] == ["system", "1213", "xrootd"]


def test_servers_of_different_images_or_without_their_release_are_no_deployment() -> None:
    old, new = ({"release": "system", "version": version} for version in ("5.5.3", "5.8.1"))
    assert common_release({"src1": old, "dst1": old}) == old
    said = r"dst1 runs XRootD .*5\.8\.1.*, and src1 runs .*5\.5\.3.*pull_policy"
    with pytest.raises(ClusterError, match=said):
        common_release({"src1": old, "dst1": new})
    with pytest.raises(ClusterError, match="dst1: the image has no") as lacking:
        common_release({"src1": new, "dst1": {"unusable": "the image has no /opt/xrootd/5.9.9"}})
    assert lacking.value.final  # another deployment has the same image


def test_the_pod_of_a_trial_looks_at_its_image_and_reports_its_kernel() -> None:
    def looks(of: Kubernetes, job: V1Job, *, alone: bool) -> list[tuple[str, list[str]]]:
        made = objects.trial_job(job, of, alone=alone, sysctls=["net.a", "net.b"])
        spec = body(made)["spec"]["template"]["spec"]
        if spec["containers"][0]["name"] == "servers":
            assert spec["containers"][0]["command"][3:] == ["420", "system,5.8.1", "net.a,net.b"]
        return [(each["image"], each["command"][3:]) for each in spec["initContainers"]]

    own, site = "registry.example/tpcsweep:1", "example/site:1"
    assert looks(settings(), objects.client_job(NAMING, settings(), 60), alone=True) == [
        (own, ["xrootd", "cmsd", "ip"])
    ]
    of = settings(server_image=site, paths={"kind": "netem", "pairs": [{}]}, releases=["5.8.1"])
    client, server, _ = objects.deployment_jobs(NAMING, of, of.pairs[0], DeploymentParameters(), 1, 60)
    programs = ["ip", "tc", "setpriv"]
    assert looks(of, client, alone=True) == [(own, []), (site, programs)]
    assert looks(of, client, alone=False) == [(own, [])]
    assert looks(of, server, alone=False) == [(site, programs)]


def test_an_image_that_lacks_something_says_so_whatever_its_python_is() -> None:
    source = Path(capabilities.__file__).read_text()
    ast.parse(source, feature_version=(3, 6))
    assert capabilities.lacking(["sh"], (3, 11)) == []
    lacking = ["Python 3.11 or later (it has 3.6)", "no-such-program"]
    assert capabilities.lacking(["sh", "no-such-program"], (3, 6, 8)) == lacking
    ended = finished([sys.executable, "-c", source, "none"])
    assert (ended.returncode, ended.stdout) == (1, "the image lacks none\n")


def test_pods_are_within_the_restricted_security_standard_and_bring_what_runs_in_them() -> None:
    for spec in (pod(settings())["spec"], client_pod(settings())["spec"]):
        assert spec["securityContext"]["runAsNonRoot"]
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not spec["automountServiceAccountToken"]
        # Nor does any ask a name server.
        assert (spec["dnsPolicy"], spec["dnsConfig"]) == ("None", {"nameservers": ["127.0.0.1"]})
        [volume] = [each for each in spec["volumes"] if each["name"] == "package"]
        assert volume["configMap"]["name"] == "tpc-abc123-package"
        for each in spec["containers"]:
            context = each["securityContext"]
            assert context["capabilities"] == {"drop": ["ALL"]}
            assert context["readOnlyRootFilesystem"]
            assert not context["allowPrivilegeEscalation"]
            assert each["resources"]["limits"]["memory"]
            [mount] = [mount for mount in each["volumeMounts"] if mount["name"] == "package"]
            [variable] = each["env"]
            found = variable["name"], Path(variable["value"]).parent
            assert found == ("PYTHONPATH", Path(mount["mountPath"]))


def test_everything_is_labelled_and_owned_by_the_clients_job() -> None:
    made = [make(NAMING, OWNER) for make in (objects.package, objects.network_policy)]
    for each in map(body, made):
        about = each["metadata"]
        assert about["labels"]["tpcsweep/deployment"] == "abc123"
        assert about["ownerReferences"][0]["uid"] == "u"
        assert about["annotations"]["tpcsweep/cells"] == "origins=2/rtt=20"


def test_every_object_has_the_labels_and_annotations_of_the_testbed() -> None:
    queue = {"kueue.x-k8s.io/queue-name": "storage", "team": "dtn"}
    template = {"podTemplate": {"metadata": {"labels": {"team": "client"}}}}
    of = settings(metadata={"labels": queue, "annotations": {"cost": "42"}}, client=template)
    naming = Naming.new("demo", "rtt=20", of)
    jobs = objects.deployment_jobs(naming, of, of.pairs[0], DeploymentParameters(), 1, 60)
    made = list(map(body, [*jobs, *objects.other_objects(naming)]))
    assert len(made) == 5
    for each in [*made, *(job["spec"]["template"] for job in made[:3])]:
        about = each["metadata"]
        assert about["annotations"].items() >= {"cost": "42"}.items()
        assert about["labels"]["kueue.x-k8s.io/queue-name"] == "storage"
        assert about["labels"]["tpcsweep/deployment"] == naming.identifier
    assert made[0]["spec"]["template"]["metadata"]["labels"]["team"] == "client"
    assert {each["metadata"]["labels"]["team"] for each in made} == {"dtn"}


def test_jobs_end_by_themselves_and_no_pod_has_a_successor() -> None:
    client = body(objects.client_job(NAMING, settings(), 1234.5))
    [of_server] = jobs(settings())
    ends = {"activeDeadlineSeconds": 1234, "backoffLimit": 0, "podReplacementPolicy": "Failed"}
    for made in (client, of_server):
        assert ends.items() <= made["spec"].items()
        assert made["spec"]["template"]["spec"]["restartPolicy"] == "Never"
    assert client["spec"]["ttlSecondsAfterFinished"] == objects.FINISHED_SECONDS
    assert of_server["metadata"]["name"] == "tpc-abc123-src1"


def test_buffers_are_set_where_pods_may_and_congestion_control_where_it_is_not_the_nodes_own() -> None:
    names = [entry["name"] for entry in pod(settings())["spec"]["securityContext"]["sysctls"]]
    assert names == ["net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"]
    other = settings(tcp_buffer="16 MiB", congestion_controls=["bbr", "cubic"])
    [entry] = pod(other, congestion_control="cubic")["spec"]["securityContext"]["sysctls"]
    assert entry == {"name": "net.ipv4.tcp_congestion_control", "value": "cubic"}
    assert "sysctls" not in pod(other, congestion_control="bbr")["spec"]["securityContext"]
    nodes = {"kind": "nodes", "pairs": [{"rtt": 20, "source": {}, "destination": {}}]}
    of_nodes = settings(host_network=True, tcp_buffer="4 MiB", paths=nodes)
    assert objects.pod_sysctls(of_nodes, DeploymentParameters(congestion_control="reno")) == []


def test_the_affinity_of_a_template_is_kept_beside_that_which_keeps_deployments_apart() -> None:
    racks = [{"matchExpressions": [{"key": "rack", "operator": "In", "values": ["a"]}]}]
    own = {"labelSelector": {"matchLabels": {"app": "storage"}}, "topologyKey": "rack"}
    given = {
        "nodeAffinity": {objects.REQUIRED: {"nodeSelectorTerms": racks}},
        "podAntiAffinity": {objects.REQUIRED: [own]},
    }
    pair = {"rtt": 20, "source": of_pods(affinity=given), "destination": {}}
    affinity = pod(settings(paths={"kind": "nodes", "pairs": [pair]}))["spec"]["affinity"]
    assert affinity["nodeAffinity"] == given["nodeAffinity"]
    kept = objects.exclusive_nodes(NAMING, None)
    assert affinity["podAntiAffinity"][objects.REQUIRED] == [own, kept]
    assert "namespaceSelector" not in kept  # pods of others are no reason to wait


def test_namespaces_that_agree_on_a_group_keep_each_others_deployments_off_their_nodes() -> None:
    of = settings(exclusive_group="dtn")
    naming = Naming.new("demo", "rtt=20", of)
    job = body(objects.client_job(naming, of, 60))
    assert job["spec"]["template"]["metadata"]["labels"]["tpcsweep/group"] == "dtn"
    [term] = job["spec"]["template"]["spec"]["affinity"]["podAntiAffinity"][objects.REQUIRED]
    assert term["namespaceSelector"] == {}
    assert term["labelSelector"]["matchLabels"] == {"tpcsweep/group": "dtn"}
    assert term["labelSelector"]["matchExpressions"][1]["values"] == [naming.identifier]


def test_redirectors_and_clients_have_the_networks_annotations_and_devices_of_their_placements() -> None:
    sides = [
        {
            "network": "data/wan",
            "addresses": [f"10.9.{side}.{host}/24" for host in (1, 2, 3)],
            "podTemplate": {
                **annotated("example.com/queue", "fast")["podTemplate"],
                **sized(container, limits={"example.com/vf": 1})["podTemplate"],
            },
        }
        for side, container in enumerate(("servers", "servers", "client"))
    ]
    pair = {"rtt": 60, "source": sides[0], "destination": sides[1]}
    of = settings(paths={"kind": "networks", "pairs": [pair]}, client=sides[2])
    server = pods(of, origins=2)[0]
    client = client_pod(of)
    for each, name, address in ((server, "servers", "10.9.0.1/24"), (client, "client", "10.9.2.1/24")):
        annotations, asked = each["metadata"]["annotations"], resources(each, name)
        assert annotations["example.com/queue"] == "fast"
        interface = {"name": "wan", "namespace": "data", "interface": objects.NETWORK, "ips": [address]}
        assert json.loads(annotations[objects.NETWORKS]) == [interface]
        assert asked["limits"]["example.com/vf"] == asked["requests"]["example.com/vf"] == "1"


def test_an_emulated_path_delays_what_goes_to_the_other_side_alone_and_origins_share_its_queue() -> None:
    path = NetworkPath(20, 1, 0, 1500, queue_limit=1000)
    lines = commands("eth0", share(path, 4), ["10.0.0.5"])
    assert lines[0].startswith("qdisc replace dev eth0 root handle 4: htb default 0")
    assert any(line.endswith("parent 4:1 handle 1: netem delay 10000us limit 250") for line in lines)
    assert any("tbf rate 250000000bit" in line for line in lines)
    assert lines[-1].endswith("protocol ip prio 1 u32 match ip dst 10.0.0.5/32 flowid 4:1")
    *_, six = commands("eth0", path, ["10.0.0.5", "fd00::5"])
    assert six.endswith("protocol ipv6 prio 2 u32 match ip6 dst fd00::5/128 flowid 4:1")
    assert not any("netem" in line for line in commands("eth0", NetworkPath(0, 1, 0, 1500), ["10.0.0.5"]))
    assert share(replace(path, queue_limit=3), 4).queue_limit == 1
    assert share(replace(path, queue_limit=None), 4).queue_limit is None


def test_templates_of_testbed_pair_and_server_are_merged_in_this_order() -> None:
    own = [{"key": name, "operator": "Exists"} for name in ("all", "mine")]

    def of(label: str, toleration: Any, *containers: Any) -> dict[str, Any]:
        spec = {"tolerations": [toleration], "containers": list(containers)}
        return {"podTemplate": {"metadata": {"labels": {"of": label, label: "yes"}}, "spec": spec}}

    def of_size(name: str, kind: str, **values: Any) -> dict[str, Any]:
        known = {key.replace("vf", "example.com/vf"): value for key, value in values.items()}
        return {"name": name, "resources": {kind: known}}

    redirector = of("redirector", own[1], of_size("servers", "limits", cpu=3))
    of_pair = of("pair", own[1], of_size("agent", "limits", memory="1Gi"))
    far = {
        "rtt": 20,
        "source": {**of_pair, "redirector": redirector, "memory": "8 GiB"},
        "client": of_pods(containers=[of_size("client", "limits", cpu=12)]),
    }
    given = settings(
        qos="burstable",
        server=of("server", own[0], of_size("servers", "requests", cpu="500m")),
        agent=of_pods(priorityClassName="low"),
        source=of("side", own[0], of_size("servers", "limits", memory="16Gi", vf=1)),
        client=of_pods(containers=[of_size("client", "requests", cpu=1)]),
        paths={"kind": "nodes", "pairs": [far]},
    )
    first, origin, _ = pods(given, origins=2, cores=4)
    assert resources(origin) == {
        "limits": {"cpu": "2.000", "memory": "16Gi", "example.com/vf": "1"},
        "requests": {"cpu": "500m", "memory": "32Mi", "example.com/vf": "1"},
    }
    assert resources(first)["limits"] == {"cpu": "3", "memory": "512Mi", "example.com/vf": "1"}
    assert resources(origin, "agent")["limits"]["memory"] == "1Gi"
    for made, label in ((first, "redirector"), (origin, "pair")):
        labels = made["metadata"]["labels"]
        assert (labels["of"], labels["server"], labels["side"]) == (label, "yes", "yes")
        assert labels["tpcsweep/deployment"] == "abc123"
        assert made["spec"]["tolerations"] == own
        assert made["spec"]["priorityClassName"] == "low"
    volumes = {each["name"]: each.get("emptyDir", {}).get("sizeLimit") for each in origin["spec"]["volumes"]}
    assert volumes["files"] == str(8 * 2**30)
    asked = resources(client_pod(given.model_copy(update={"client": given.pairs[0].client})), "client")
    assert (asked["limits"]["cpu"], asked["requests"]["cpu"]) == ("12", "1")


def test_a_user_of_a_template_is_the_one_that_an_emulating_agent_becomes() -> None:
    user = of_pods(securityContext={"runAsUser": 1000700000, "fsGroup": 1000700000})
    made = pod(settings(server=user, paths={"kind": "netem", "pairs": [{}]}), origins=1)
    assert "--reuid=1000700000" in container(made, "agent")["command"]
    assert made["spec"]["securityContext"]["runAsGroup"] == objects.USER


def test_servers_on_the_network_of_their_node_have_ports_of_their_own() -> None:
    side = {"redirector": {"port": 8085}, "origins": [{}, {"address": "10.1.0.1", "port": 9000}, {}]}
    paths = {"kind": "nodes", "pairs": [{"rtt": 1, "source": side}]}
    of = settings(host_network=True, tcp_buffer="4 MiB", paths=paths)
    made = pods(of, origins=3)
    listening = [[port["containerPort"] for port in container(pod)["ports"]] for pod in made]
    assert [ports[0] for ports in listening] == [8085, 8080, 9000, 8090]
    everything = [port for ports in listening for port in ports]
    assert len(set(everything)) == len(everything)
    assert container(made[2], "agent")["command"][-1] == "9000"
    assert container(made[0])["command"][6] == "8086"
    assert all(pod["spec"]["hostNetwork"] for pod in made)


def test_the_address_of_an_attached_pod_is_the_one_that_its_network_has_assigned() -> None:
    def attached(*networks: dict[str, Any]) -> V1Pod:
        status = {objects.NETWORK_STATUS: json.dumps(networks)}
        content = {"metadata": {"name": "p", "annotations": status}, "status": {"podIP": "10.0.0.1"}}
        return V1Pod.model_validate(content)

    cluster = {"name": "cbr0", "interface": "eth0", "ips": ["10.0.0.1"]}
    wan = {"name": "wan", "interface": objects.NETWORK, "ips": ["10.9.0.7"]}
    assert pod_address(attached(cluster, wan)) == "10.0.0.1"
    assert pod_address(attached(cluster, wan), attached=True) == "10.9.0.7"
    with pytest.raises(ClusterError, match="the network assigns none"):
        pod_address(attached(cluster), attached=True)
    pair = {"rtt": 1, "source": {"network": "wan"}, "destination": {"network": "wan"}}
    made = pod(settings(paths={"kind": "networks", "pairs": [pair]}), origins=1)
    [asked] = json.loads(made["metadata"]["annotations"][objects.NETWORKS])
    assert "ips" not in asked


def test_python_runs_the_package_from_its_archive_with_nothing_else(tmp_path: Path) -> None:
    """All that containers' commands name, and the workers of tools, whose environment says where the package is."""
    started = [f"{programs.__name__}.{path.stem}" for path in Path(programs.__path__[0]).glob("[!_]*.py")]
    names = [*started, "tpcsweep.measuring.client.__main__"]
    ask = (
        f"import sys, {', '.join(names)}\n"
        "files = {module.__file__ for name, module in sys.modules.items() if name.startswith('tpcsweep')}\n"
        "print({file.partition('/tpcsweep/')[0] for file in files})\n"
        "from pathlib import Path\n"
        "from tpcsweep.measuring.tools.registry import TOOLS\n"
        "from tpcsweep.measuring.tools.tool import Credentials\n"
        "for tool in TOOLS.values():\n"
        "    print(tool.environment(Credentials(Path('/c')), Path('/h')).get('PYTHONPATH'))"
    )
    packed = tmp_path / "tpcsweep.zip"
    packed.write_bytes(objects.package_archive())
    told = succeeded([sys.executable, "-S", "-c", ask], cwd=tmp_path, env={"PYTHONPATH": str(packed)})
    said, *environments = told.splitlines()
    assert said == str({str(packed)})
    assert set(environments) == {str(packed), "None"}


def test_the_archive_fits_a_config_map_and_is_the_same_each_time() -> None:
    made = objects.package_archive()
    assert len(made) * 4 / 3 < (1 << 20) / 2  # a ConfigMap may hold 1 MiB, base64 included
    assert objects.package_archive() == made
