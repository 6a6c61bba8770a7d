"""deploy/kubernetes against Kubernetes' own schemas, settings and the list of processes."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from config.entry import unknown_settings
from config.secret_files import SUFFIX
from config.settings import PREFIX, SECRETS, Settings
from ops.health import ASKED
from ops.processes import processes
from streaming.spark.conf_file import with_file
from streaming.spark.session import spark_conf
from support.run import manifests
from support.run.manifests import FOLDER, environment, every_container, rendered, workloads
from support.run.stack import ROOT

WORKLOADS = workloads()
VERSIONS = ("1.30", "1.33", "1.37")
"""Versions of Kubernetes whose schemas every object fits."""
SHARED = {"command-keys": {"job", "pipelines", "web", "worker"}, "data": {"job", "worker"}}
"""Volumes of several pods, and whose: who signs commands or checks them; who keeps snapshots."""


def ident(manifest: dict[str, Any]) -> str:
    return f"{manifest['kind']}/{manifest['metadata']['name']}"


def pod(name: str) -> dict[str, Any]:
    spec: dict[str, Any] = WORKLOADS[name]["spec"]["template"]["spec"]
    return spec


def container(name: str) -> dict[str, Any]:
    (only,) = pod(name)["containers"]
    assert only["name"] == name
    return dict(only)


def names(kind: str) -> set[str]:
    return {each["metadata"]["name"] for each in rendered() if each["kind"] == kind}


# ---- what Kubernetes is given -------------------------------------------------------------------


@pytest.fixture(scope="session")
def kubernetes_validate() -> Any:
    """The validator, which takes a second to import: in each worker, were it imported above."""
    import kubernetes_validate

    return kubernetes_validate


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("manifest", rendered(), ids=ident)
def test_every_object_fits_the_schema_of_kubernetes(
    kubernetes_validate: Any, manifest: dict[str, Any], version: str
) -> None:
    kubernetes_validate.validate(manifest, version, strict=True)


def test_a_mistake_in_an_object_is_found(kubernetes_validate: Any) -> None:
    manifest = next(each for each in rendered() if ident(each) == "Deployment/web")
    manifest["spec"]["template"]["spec"]["containers"][0]["livenessProb"] = {}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(manifest, VERSIONS[0], strict=True)


def test_the_executors_template_fits_too(kubernetes_validate: Any) -> None:
    (template,) = manifests.documents("executor.yaml")
    template["metadata"]["name"] = "executor"
    template["spec"]["containers"][0]["image"] = "tallyboard"
    for version in VERSIONS:
        kubernetes_validate.validate(template, version, strict=True)


def test_every_file_of_the_base_is_used() -> None:
    base = manifests.kustomization()
    used = {"kustomization.yaml", *base["resources"]}
    for generator in base["configMapGenerator"]:
        used |= {*generator.get("files", ()), *generator.get("envs", ())}
    assert {path.name for path in FOLDER.iterdir()} == used
    assert len({ident(each) for each in rendered()}) == len(rendered())


def test_what_is_named_is_there() -> None:
    for name, workload in WORKLOADS.items():
        spec = pod(name)
        if account := spec.get("serviceAccountName"):
            assert account in names("ServiceAccount")
        for volume in spec["volumes"]:
            if "persistentVolumeClaim" in volume:
                assert volume["persistentVolumeClaim"]["claimName"] in names(
                    "PersistentVolumeClaim"
                )
            if "configMap" in volume:
                assert volume["configMap"]["name"] in names("ConfigMap")
        for each in every_container(workload):
            mounted = {mount["name"] for mount in each["volumeMounts"]}
            assert mounted <= {volume["name"] for volume in spec["volumes"]}
        labels = workload["spec"]["template"]["metadata"]["labels"]
        assert workload["spec"]["selector"]["matchLabels"].items() <= labels.items()
    assert WORKLOADS["job"]["spec"]["serviceName"] in names("Service")


# ---- what runs ----------------------------------------------------------------------------------


def test_runs_what_the_supervisor_runs() -> None:
    outside = Settings(_env_file=None, kafka_bootstrap="kafka:9092", demo=False)  # type: ignore[call-arg]
    wanted = {process.name: ["python", *process.command[1:]] for process in processes(outside)}
    assert {name: container(name)["args"] for name in WORKLOADS} == wanted
    first = {
        each["name"]: each["args"]
        for name in WORKLOADS
        for each in pod(name).get("initContainers", ())
    }
    assert first == {
        "prepare": ["python", "manage.py", "prepare"],
        "prepared": ["python", "manage.py", "migrate", "--check"],
    }


def test_the_database_is_brought_up_to_date_by_one_and_awaited_by_the_others() -> None:
    database = f"{PREFIX}DATABASE_PASSWORD{SUFFIX}"
    using = {name for name in WORKLOADS if database in environment(container(name))}
    first = {name: [each["name"] for each in pod(name)["initContainers"]] for name in using}
    assert first.pop("materialiser") == ["prepare"]
    assert WORKLOADS["materialiser"]["spec"]["replicas"] == 1
    assert first == {name: ["prepared"] for name in using - {"materialiser"}}


@pytest.mark.parametrize("name", sorted(WORKLOADS))
def test_every_setting_exists_and_is_accepted(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    secret = "7f0c2d1e8a7465f9c3e2d1a0b8f7e6d5c4b3a29e"
    pem = "-----BEGIN PRIVATE KEY-----\nMIGH\n-----END PRIVATE KEY-----"
    for each in every_container(WORKLOADS[name]):
        for key, value in environment(each).items():
            if value.startswith(manifests.SECRETS):
                file = tmp_path / Path(value).name
                file.write_text(pem if file.name == "push-key" else secret)
                monkeypatch.setenv(key, str(file))
            else:
                monkeypatch.setenv(key, value)
    monkeypatch.chdir(tmp_path)
    assert unknown_settings() == []
    settings = Settings()
    assert settings.data_dir == Path("/data/tallyboard")
    assert not settings.one_machine


def test_only_one_of_each_runs_but_of_the_web_server() -> None:
    assert {name for name in WORKLOADS if WORKLOADS[name]["spec"]["replicas"] > 1} == {"web"}
    for name, workload in WORKLOADS.items():
        if workload["kind"] == "Deployment" and name != "web":
            assert workload["spec"]["strategy"] == {"type": "Recreate"}


@pytest.mark.parametrize("name", sorted(WORKLOADS))
def test_each_process_is_asked_whether_it_lives(name: str) -> None:
    probes = [container(name)[f"{kind}Probe"] for kind in ("startup", "liveness", "readiness")]
    if name in ASKED:
        server = Settings(_env_file=None, allowed_hosts=SETTINGS[f"{PREFIX}ALLOWED_HOSTS"])  # type: ignore[call-arg]
        for probe in probes:
            asked = probe["httpGet"]
            assert (asked["path"], asked["port"]) == ("/healthz", "http")
            (header,) = asked["httpHeaders"]
            assert header["value"] in server.allowed_hosts.split(",")
    else:
        for probe in probes:
            assert probe["exec"]["command"] == ["python", "-m", "ops.health", name]


SETTINGS = next(each["data"] for each in rendered() if ident(each) == "ConfigMap/settings")


# ---- what a pod may do --------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*sorted(WORKLOADS), "executor"])
def test_a_pod_may_do_nothing_that_its_process_does_not_need(name: str) -> None:
    (template,) = manifests.documents("executor.yaml")
    spec = template["spec"] if name == "executor" else pod(name)
    security = spec["securityContext"]
    assert (security["runAsNonRoot"], security["runAsUser"]) == (True, 10001)
    assert "--uid 10001" in (ROOT / "Dockerfile").read_text()
    assert security["seccompProfile"] == {"type": "RuntimeDefault"}
    if name != "job":
        assert spec["automountServiceAccountToken"] is False
    for each in (*spec.get("initContainers", ()), *spec["containers"]):
        assert each["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        if name != "executor":  # Spark says how much memory that one has
            assert {"memory"} <= each["resources"]["limits"].keys()


def needs() -> dict[str, set[str]]:
    """Which processes need a secret, by the documented table, which is that of the containers."""
    text = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    table = text.partition("| secret | for |\n|---|---|\n")[2].partition("\n\n")[0]
    rows = [row.split("|")[1:3] for row in table.split("\n")]
    return {name.strip(" `"): {each.strip() for each in given.split(",")} for name, given in rows}


def test_a_pod_is_given_the_secrets_that_its_process_needs() -> None:
    given: dict[str, set[str]] = {}
    for name in WORKLOADS:
        for volume in pod(name)["volumes"]:
            for source in volume.get("projected", {}).get("sources", ()):
                assert source["secret"]["name"] == "tallyboard"
                for item in source["secret"]["items"]:
                    assert item["key"] == item["path"]
                    given.setdefault(item["key"], set()).add(name)
        if "command-keys" in {volume["name"] for volume in pod(name)["volumes"]}:
            given.setdefault("command-keys.json", set()).add(name)
    wanted = {secret: processes & set(WORKLOADS) for secret, processes in needs().items()}
    assert given == wanted
    values = {f"{PREFIX}{name.upper()}" for name in set(SECRETS) - {"database_url", "redis_url"}}
    for workload in WORKLOADS.values():
        for each in every_container(workload):
            assert not values & set(environment(each)), "a variable is in the pod's description"


def test_a_volume_is_shared_by_those_who_need_it() -> None:
    using: dict[str, set[str]] = {}
    for name in WORKLOADS:
        for volume in pod(name)["volumes"]:
            if claim := volume.get("persistentVolumeClaim", {}).get("claimName"):
                using.setdefault(claim, set()).add(name)
    modes = {
        each["metadata"]["name"]: each["spec"]["accessModes"]
        for each in rendered()
        if each["kind"] == "PersistentVolumeClaim"
    }
    assert using == SHARED | {"pipelines": {"pipelines"}}
    assert {name for name, mode in modes.items() if mode == ["ReadWriteMany"]} == set(SHARED)


# ---- Spark --------------------------------------------------------------------------------------

CONF = dict(
    line.split(maxsplit=1)
    for line in (FOLDER / "spark.conf").read_text().splitlines()
    if line and not line.startswith("#")
)


def test_executors_run_from_the_same_image() -> None:
    (image,) = manifests.kustomization()["images"]
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert CONF["spark.kubernetes.container.image"] == f"{image['name']}:{version}"
    assert container("job")["image"] == CONF["spark.kubernetes.container.image"]


def test_executors_find_the_driver_and_end_with_its_pod() -> None:
    service = next(each for each in rendered() if ident(each) == "Service/job")
    assert service["spec"]["clusterIP"] == "None"
    ports = {str(port["port"]) for port in service["spec"]["ports"]}
    assert ports == {CONF["spark.driver.port"], CONF["spark.driver.blockManager.port"]}
    assert CONF["spark.driver.host"] == f"{CONF['spark.kubernetes.driver.pod.name']}.job"
    assert CONF["spark.kubernetes.executor.useDriverPodIP"] == "false", "else by bindAddress"
    assert CONF["spark.kubernetes.driver.pod.name"] == "job-0", "the one pod of a StatefulSet"
    assert WORKLOADS["job"]["kind"] == "StatefulSet"
    assert CONF["spark.kubernetes.namespace"] == manifests.kustomization()["namespace"]


def test_executors_have_the_drivers_checkpoints_and_keys() -> None:
    mounted = {mount["name"]: mount["mountPath"] for mount in container("job")["volumeMounts"]}
    claims = "spark.kubernetes.executor.volumes.persistentVolumeClaim"
    for name in SHARED:
        assert CONF[f"{claims}.{name}.options.claimName"] == name
        assert CONF[f"{claims}.{name}.mount.path"] == mounted[name]
    env = environment(container("job"))
    assert env[f"{PREFIX}DATA_DIR"].startswith(f"{mounted['data']}/")
    assert env[f"{PREFIX}COMMAND_KEYS"].startswith(f"{mounted['command-keys']}/")
    assert CONF["spark.kubernetes.executor.podTemplateFile"] == f"{mounted['spark']}/executor.yaml"


def cluster(folder: Path, **more: object) -> Settings:
    given = {"data_dir": folder, "spark_master": SETTINGS[f"{PREFIX}SPARK_MASTER"], **more}
    return Settings(_env_file=None, **given)  # type: ignore[call-arg]


def test_the_product_takes_sparks_settings_of_the_base(tmp_path: Path) -> None:
    ours = spark_conf(cluster(tmp_path), 1, [])
    conf = with_file(FOLDER / "spark.conf", ours)
    assert conf.items() >= CONF.items()
    assert conf["spark.master"].startswith("k8s://https://kubernetes.default.svc")


def test_executors_read_sparks_secret_where_it_is_mounted(tmp_path: Path) -> None:
    mounted = environment(container("job"))[f"{PREFIX}SPARK_SECRET{SUFFIX}"]
    conf = spark_conf(cluster(tmp_path, spark_secret_file=mounted, spark_secret="s" * 40), 1, [])
    assert conf["spark.authenticate.secret.file"] == mounted
    assert "spark.authenticate.secret" not in conf, "it would be in each pod's description"
    (template,) = manifests.documents("executor.yaml")
    (secret,) = [each for each in template["spec"]["volumes"] if "secret" in each]
    (path,) = [
        f"{mount['mountPath']}/{item['path']}"
        for mount in template["spec"]["containers"][0]["volumeMounts"]
        if mount["name"] == secret["name"]
        for item in secret["secret"]["items"]
    ]
    assert path == mounted


def test_without_a_file_of_the_secret_executors_are_given_one_that_is_made(tmp_path: Path) -> None:
    conf = spark_conf(cluster(tmp_path), 1, [])
    assert len(conf["spark.authenticate.secret"]) > 40
    standalone = cluster(tmp_path, spark_master="spark://m:7077", spark_secret_file="/none")
    assert "spark.authenticate.secret.file" not in spark_conf(standalone, 1, [])


def test_the_image_begins_with_the_entry_that_executors_need() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text()
    entry = re.search(r'^ENTRYPOINT \["/app/(\S+)"\]$', dockerfile, re.MULTILINE)
    assert entry
    assert (ROOT / entry[1]).stat().st_mode & 0o111
