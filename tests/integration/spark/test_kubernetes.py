"""The job with executors in pods: of a played Kubernetes, whose pods are processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from support.histories.judge import assert_equal_to_fold
from support.run import manifests
from support.run.stack import free_ports, wait_until
from support.spark.jobs import Job, Load
from support.spark.kubernetes_api import KubernetesApi
from wire.job import decode_heartbeat

pytestmark = [
    pytest.mark.timeout(480),
    pytest.mark.slow,
    pytest.mark.extensive(
        guard="tests/unit/ops/test_executor.py::test_the_command_says_what_the_environment_says"
    ),
]

NAMESPACE = "tallyboard"
SECRET = "0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c"


@pytest.fixture
def kubernetes(tmp_path: Path) -> Iterator[KubernetesApi]:
    """Kubernetes with the driver's pod, whose process the test starts itself."""
    api = KubernetesApi(NAMESPACE, tmp_path)
    driver = {"containers": [{"name": "job"}]}
    metadata = {"name": "job-0", "labels": {}}
    api.create("pods", {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": driver})
    yield api
    api.close()


@pytest.fixture
def job(make_job: Callable[..., Job], tmp_path: Path, kubernetes: KubernetesApi) -> Job:
    """The job with the base's Spark settings, fitted to this machine."""
    secret, conf = tmp_path / "spark-secret", tmp_path / "spark.conf"
    secret.write_text(SECRET)
    conf.write_text(fitted((manifests.FOLDER / "spark.conf").read_text()))
    return make_job(
        prefix=f"pods-{uuid4().hex[:8]}.",
        batch_s=None,
        master=f"k8s://{kubernetes.url}",
        memory="600m",
        variables={
            "TALLYBOARD_SPARK_CONF": str(conf),
            "TALLYBOARD_SPARK_SECRET_FILE": str(secret),
        },
    )


def fitted(conf: str) -> str:
    """Return the base's settings of Spark with this machine's ports and memory."""
    driver, blocks = free_ports(2)
    here = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.port": str(driver),
        "spark.driver.blockManager.port": str(blocks),
        "spark.executor.instances": "1",
        "spark.executor.memory": "500m",
        "spark.kubernetes.executor.podTemplateFile": str(manifests.FOLDER / "executor.yaml"),
    }
    lines = [line.split(maxsplit=1) for line in conf.splitlines() if line.startswith("spark.")]
    assert set(here) <= {name for name, _ in lines}
    return "\n".join(f"{name} {here.get(name, value)}" for name, value in lines)


def allowed() -> set[tuple[str, str]]:
    """What the service account of the base may do: verbs with resources."""
    (role,) = [each for each in manifests.rendered() if each["kind"] == "Role"]
    return {
        (verb, resource)
        for rule in role["rules"]
        for verb in rule["verbs"]
        for resource in rule["resources"]
    }


def check_pod(pod: dict[str, Any]) -> None:
    """Fail unless an executor's pod is what the base says."""
    (container,), spec = pod["spec"]["containers"], pod["spec"]
    conf = (manifests.FOLDER / "spark.conf").read_text()
    assert f"spark.kubernetes.container.image {container['image']}\n" in conf
    assert container["args"] == ["executor"]
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert spec["automountServiceAccountToken"] is False
    assert [owner["name"] for owner in pod["metadata"]["ownerReferences"]] == ["job-0"]
    claims = {
        volume["name"]: volume["persistentVolumeClaim"]["claimName"]
        for volume in spec["volumes"]
        if "persistentVolumeClaim" in volume
    }
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert claims == {"data": "data", "command-keys": "command-keys"}
    assert (mounts["data"], mounts["command-keys"]) == ("/data", "/command-keys")
    environ = {each["name"]: each.get("value") for each in container["env"]}
    assert environ["SPARK_DRIVER_URL"].startswith("spark://CoarseGrainedScheduler@127.0.0.1:")
    assert SECRET not in str(pod)
    assert "_SPARK_AUTH_SECRET" not in environ


def test_the_job_runs_on_executors_in_pods(job: Job, kubernetes: KubernetesApi) -> None:
    process, load = job.start(), Load(job, 1)
    load.send(300)
    load.finish()
    begun = kubernetes.pods()
    assert begun
    for pod in begun:
        check_pod(pod)
        kubernetes.fail(pod["metadata"]["name"])
    wait_until(kubernetes.pods, 60, f"Spark made no other pod, see {job.log}")
    load.send(100)
    load.finish()
    process.terminate()
    assert process.wait(30) == 0, job.log.read_text()[-2000:]

    assert_equal_to_fold(job)
    beats = [decode_heartbeat(each.value) for each in job.read([job.topics.buckets])]
    assert len({beat.executor for beat in beats}) >= 2, "an executor, and the one in its place"
    assert kubernetes.pods() == [], "Spark has deleted its pods"
    assert kubernetes.asked <= allowed(), kubernetes.asked - allowed()
