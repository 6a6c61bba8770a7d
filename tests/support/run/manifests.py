"""The manifests of deploy/kubernetes, rendered as Kustomize does, as far as they use it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from support.run.stack import ROOT

FOLDER = ROOT / "deploy" / "kubernetes"
SECRETS = "/run/secrets/tallyboard"
"""Where containers find the files of the secret."""
WORKLOADS = ("Deployment", "StatefulSet")

Manifest = dict[str, Any]


def kustomization() -> Manifest:
    """Return the base's kustomization, which uses nothing but what `rendered` knows."""
    base: Manifest = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())
    known = {"apiVersion", "kind", "namespace", "labels", "images", "resources"}
    assert set(base) <= known | {"configMapGenerator"}
    return base


def documents(name: str) -> list[Manifest]:
    """Return the documents of one file."""
    return [each for each in yaml.safe_load_all((FOLDER / name).read_text()) if each]


def rendered() -> list[Manifest]:
    """Return every object that the base makes: with namespace, labels, images and settings."""
    base = kustomization()
    manifests = [each for name in base["resources"] for each in documents(name)]
    manifests += [_config_map(each) for each in base["configMapGenerator"]]
    labels = {key: value for each in base["labels"] for key, value in each["pairs"].items()}
    tags = {each["name"]: f"{each['name']}:{each['newTag']}" for each in base["images"]}
    for manifest in manifests:
        metadata = manifest["metadata"]
        if manifest["kind"] != "Namespace":
            metadata["namespace"] = base["namespace"]
        metadata["labels"] = {**metadata.get("labels", {}), **labels}
        for subject in manifest.get("subjects", ()):
            subject["namespace"] = base["namespace"]
        if manifest["kind"] in WORKLOADS:
            template = manifest["spec"]["template"]
            template["metadata"]["labels"] |= labels
            for container in every_container(manifest):
                container["image"] = tags[container["image"]]
    return manifests


def _config_map(generator: Manifest) -> Manifest:
    data = {name: (FOLDER / name).read_text() for name in generator.get("files", ())}
    for name in generator.get("envs", ()):
        data |= dict(_variables(FOLDER / name))
    metadata = {"name": generator["name"]}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def _variables(path: Path) -> Iterator[tuple[str, str]]:
    for line in path.read_text().splitlines():
        name, equals, value = line.partition("=")
        assert equals, f"{path.name}: {line}"
        yield name, value


def workloads() -> dict[str, Manifest]:
    """Return what runs, by name."""
    return {each["metadata"]["name"]: each for each in rendered() if each["kind"] in WORKLOADS}


def every_container(workload: Manifest) -> list[Manifest]:
    """Return the containers of a workload, those that run first included."""
    pod = workload["spec"]["template"]["spec"]
    return [*pod.get("initContainers", ()), *pod["containers"]]


def environment(container: Manifest) -> dict[str, str]:
    """Return what a container finds in its environment."""
    maps = {each["metadata"]["name"]: each for each in rendered() if each["kind"] == "ConfigMap"}
    variables: dict[str, str] = {}
    for source in container.get("envFrom", ()):
        variables |= maps[source["configMapRef"]["name"]]["data"]
    return variables | {each["name"]: each["value"] for each in container.get("env", ())}


def services() -> dict[str, Manifest]:
    """Return command and environment of each container as docker-compose.yml has them, and of
    `prepare`."""
    every = [each for workload in workloads().values() for each in every_container(workload)]
    return {
        each["name"]: {
            "command": each["args"],
            "environment": {
                name: value.replace(SECRETS, "/run/secrets")
                for name, value in environment(each).items()
            },
        }
        for each in every
    }
