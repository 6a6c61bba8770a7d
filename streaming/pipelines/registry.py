"""The pipelines that there are, and which of them run."""

from __future__ import annotations

import pkgutil
from importlib import import_module
from pathlib import Path

from streaming.pipelines.declaration import DeclarationError, Pipeline

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "pipelines"


def declared(package: str | None = None) -> dict[str, Pipeline]:
    """Return the pipeline of each module of a package, by name. Raises DeclarationError.

    package: by default the shipped ones.
    """
    package = package or PACKAGE
    folder = import_module(package)
    pipelines: dict[str, Pipeline] = {}
    for module in sorted(pkgutil.iter_modules(folder.__path__), key=lambda one: one.name):
        pipeline = _pipeline_of(f"{package}.{module.name}")
        if pipeline.name != module.name.replace("_", "-"):
            raise DeclarationError(
                f"{package}/{module.name}.py: expected the pipeline "
                f"{module.name.replace('_', '-')}, got {pipeline.name}"
            )
        pipelines[pipeline.name] = pipeline
    _check_folders(pipelines)
    return pipelines


def _pipeline_of(module: str) -> Pipeline:
    try:
        pipeline = getattr(import_module(module), "PIPELINE", None)
    except DeclarationError as error:
        raise DeclarationError(f"{module}: {error}") from None
    if not isinstance(pipeline, Pipeline):
        raise DeclarationError(f"{module}: expected PIPELINE = Pipeline(...), got {pipeline!r}")
    return pipeline


def _check_folders(pipelines: dict[str, Pipeline]) -> None:
    owners: dict[str, str] = {}
    for name, pipeline in pipelines.items():
        if (other := owners.setdefault(pipeline.folder, name)) != name:
            raise DeclarationError(
                f"{name}: checkpoint: expected a folder of its own, got that of {other}"
            )


def chosen(selection: str, pipelines: dict[str, Pipeline]) -> dict[str, Pipeline]:
    """Return the pipelines that TALLYBOARD_PIPELINES selects: all, none, or names with commas.

    Raises DeclarationError for a name that no pipeline has.
    """
    if selection in ("all", "none"):
        return {n: p for n, p in pipelines.items() if selection == "all" and p.on}
    names = [name.strip() for name in selection.split(",") if name.strip()]
    for name in names:
        if name not in pipelines:
            raise DeclarationError(
                f"TALLYBOARD_PIPELINES: expected all, none or some of {', '.join(pipelines)}, "
                f"got {name!r}"
            )
    return {name: pipelines[name] for name in names}
