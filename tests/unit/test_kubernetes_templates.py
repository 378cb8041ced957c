# SPDX-License-Identifier: Apache-2.0
"""Pod templates of a testbed: how they are merged, and what is refused in them."""

from pathlib import Path

import pytest
import yaml
from tpcsweep.sweeps.problems import validated
from tpcsweep.testbeds.kubernetes.checks import template_problems
from tpcsweep.testbeds.kubernetes.pod_templates import merged, pruned
from tpcsweep.testbeds.kubernetes.reserved import problems
from tpcsweep.testbeds.kubernetes.settings import Kubernetes

from tests.support.commands import tpcsweep
from tests.support.projects import cases, loaded
from tests.support.testbeds import kubernetes
from tests.support.workflow import ROOT


def test_templates_are_merged_and_their_lists_by_the_published_keys() -> None:
    below = yaml.safe_load("""
affinity: {nodeAffinity: x}
containers: [{name: a, env: [{name: X, value: 1}], args: [x]}, {name: b, tty: true}]
hostAliases: x
nodeSelector: x
tolerations: [{key: one}]
volumes: [{name: v, emptyDir: {}}]
securityContext: {runAsUser: 1, sysctls: [{name: s, value: 1}]}
""")
    above = yaml.safe_load("""
affinity: x
containers: [{name: b, image: i, tty: null}, {name: a, env: [{name: Y, value: 2}, {name: X, value: 3}], args: [y]}]
hostAliases: [{ip: x}]
nodeSelector: {x: y}
tolerations: [{key: two}, {key: one}]
securityContext: {runAsUser: null, sysctls: [{name: t, value: 2}]}
""")
    whole = merged(below, above)
    assert merged(whole, above) == whole
    assert merged(below, {}) == below
    assert pruned(whole) == yaml.safe_load("""
affinity: x
containers: [{name: a, env: [{name: X, value: 3}, {name: Y, value: 2}], args: [y]}, {name: b, image: i}]
hostAliases: [{ip: x}]
nodeSelector: {x: y}
tolerations: [{key: one}, {key: two}]
volumes: [{name: v, emptyDir: {}}]
securityContext: {sysctls: [{name: s, value: 1}, {name: t, value: 2}]}
""")


REFUSED = """
{server: {podTemplate: {spec: {tolerations: [{effekt: NoSchedule}]}}}}
    server.podTemplate.spec.tolerations[0].effekt: an unknown key → effect?
{client: {podTemplate: {spec: {node_selector: {a: b}}}}}
    client.podTemplate.spec.node_selector: {'a': 'b'} → nothing: it is a name of Python's client
{client: {podTemplate: {spec: {affinity: {nodeAffinity: 5}}}}}
    client.podTemplate.spec.affinity.nodeAffinity: 5 → a mapping
{agent: {podTemplate: {spec: {containers: [{image: x}]}}}}
    agent.podTemplate.spec.containers[0].name: nothing → this key is needed
{server: {podTemplate: {spec: {containers: [{name: servers, command: [x], args: [y], image: z}]}}}}
    server.podTemplate.spec.containers[0].command: ['x'] → nothing: tpcsweep starts its own programs in it
    server.podTemplate.spec.containers[0].args: ['y'] → nothing: tpcsweep starts its own programs in it
    server.podTemplate.spec.containers[0].image: 'z' → nothing: image and server_image of the testbed
{source: {podTemplate: {spec: {containers: [{name: servers, resources: {limits: {cpu: 16}}}]}}}}
    source.podTemplate.spec.containers[0].resources.limits.cpu: '16' → nothing: the sweep sets it to cores /
        origins
{source: {podTemplate: {spec: {containers: [{name: client}]}}}}
    source.podTemplate.spec.containers[0].name: 'client' → nothing: a pod has only the containers servers
{client: {podTemplate: {metadata: {name: x, labels: {tpcsweep/deployment: y, app.kubernetes.io/name: z}}}}}
    client.podTemplate.metadata.name: 'x' → nothing: a Job makes the pod
    client.podTemplate.metadata.labels.tpcsweep/deployment: 'y' → nothing: tpcsweep finds and removes
    client.podTemplate.metadata.labels.app.kubernetes.io/name: 'z' → nothing: tpcsweep finds and removes
{client: {podTemplate: {spec: {nodeName: n, restartPolicy: Always, hostNetwork: true}}}}
    client.podTemplate.spec.nodeName: 'n' → nothing: the scheduler keeps deployments apart
    client.podTemplate.spec.restartPolicy: 'Always' → nothing: a server that restarts
    client.podTemplate.spec.hostNetwork: True → nothing: set host_network of the testbed
{server: {podTemplate: {spec: {volumes: [{name: files, emptyDir: {}}], securityContext: {sysctls: [{name:
  net.ipv4.tcp_rmem, value: '1'}]}}}}}
    server.podTemplate.spec.volumes[0].name: 'files' → nothing: it is a volume of tpcsweep's
    server.podTemplate.spec.securityContext.sysctls[0].name: 'net.ipv4.tcp_rmem' → nothing: set tcp_buffer
{server: {podTemplate: {spec: {containers: [{name: agent, env: [{name: PYTHONPATH, value: x}], volumeMounts:
  [{name: v, mountPath: /tmp/x}]}]}}}}
    server.podTemplate.spec.containers[0].env[0].name: 'PYTHONPATH' → nothing: tpcsweep sets it
    server.podTemplate.spec.containers[0].volumeMounts[0].mountPath: '/tmp/x' → nothing: tpcsweep has its
        files there
{metadata: {labels: {tpcsweep/deployment: y}, annotations: {app.kubernetes.io/name: z}}}
    metadata.labels.tpcsweep/deployment: 'y' → nothing: tpcsweep finds and removes
    metadata.annotations.app.kubernetes.io/name: 'z' → nothing: tpcsweep finds and removes
{paths: {kind: nodes, pairs: [{rtt: 1, source: {origins: [{podTemplate: {spec: {nodeName: n}}}]}}]}}
    paths.pairs[0].source.origins[0].podTemplate.spec.nodeName: 'n' → nothing: the scheduler keeps
"""


@pytest.mark.parametrize(("changes", "messages"), cases(REFUSED))
def test_what_no_pod_can_have_and_what_is_tpcsweeps_own_is_refused(changes: str, messages: list[str]) -> None:
    found = [str(problem) for problem in problems(kubernetes(**yaml.safe_load(changes)))]
    for line, message in zip(found, messages, strict=True):
        assert line.startswith(message)


def test_what_kubernetes_accepts_is_accepted() -> None:
    template = """
metadata: {labels: {team: storage}, annotations: {a: b}}
spec:
  serviceAccountName: sweeps
  priorityClassName: low
  runtimeClassName: kata
  securityContext: {runAsUser: 1000700000, fsGroup: 1000700000, runAsGroup: null}
  topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}]
  imagePullSecrets: [{name: registry}]
  initContainers: [{name: mesh, image: proxy, restartPolicy: Always}]
  containers: [{name: client, resources: {limits: {cpu: 2, memory: 1Gi}}, env: [{name: A, value: b}]}]
"""
    assert problems(kubernetes(client={"podTemplate": yaml.safe_load(template)})) == []


def test_shipped_testbeds_have_no_problem() -> None:
    texts = [path.read_text() for path in (ROOT / "config/testbeds").glob("*.yaml")]
    contents = [yaml.safe_load(text) for text in texts if "kind: kubernetes" in text]
    assert len(contents) > 4
    assert not any(problems(validated(Kubernetes, content)) for content in contents)


@pytest.mark.parametrize("arguments", [("one",), ("one", "--sweep", "one"), ("--print",)])
def test_check_refuses_a_wrong_template_before_it_asks_a_cluster(
    arguments: tuple[str, ...], root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = """
server: {podTemplate: {spec: {containers: [{name: server, resources: {limit: {cpu: 1}}}], node_selector: {a: b}}}}
client: {podTemplate: {spec: {nodeSelektor: {kubernetes.io/hostname: n2}, containers: [{name: cleint}]}}}
"""
    content = kubernetes(**yaml.safe_load(changes)).model_dump(mode="json", exclude_unset=True)
    study = loaded(root, "parameters: {rtt: 20}\n", yaml.safe_dump(content))
    monkeypatch.chdir(root)
    monkeypatch.setenv("TPCSWEEP_KUBECONFIG", "/nowhere")
    (root / "config/config.yaml").write_text("sweep: one\ntestbed: one\n")
    done = tpcsweep("check", *arguments)
    assert done.exit_code == 2, done.output
    wrong = list(map(str, template_problems(study)))
    assert len(wrong) == 2 and all(line in done.stderr for line in wrong)
