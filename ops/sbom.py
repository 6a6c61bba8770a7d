"""`make sbom`: list the product's components in a CycloneDX document.

It contains the Python packages with the hashes by which they are installed, the Java archives with
theirs and what was shaded into them, and the scripts that pages load.
"""

from __future__ import annotations

import argparse
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

from cyclonedx.model import (
    ExternalReference,
    ExternalReferenceType,
    HashAlgorithm,
    HashType,
    Property,
    XsUri,
)
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

from config.archives import ArchivesProblem
from config.settings import load_settings
from ops.inventory import Dependency, InventoryProblem, inventory
from ops.setup import ROOT

FILE = ROOT / "sbom.cdx.json"
TYPES = {"PyPI": "pypi", "Maven": "maven", "npm": "npm"}
REGISTRY = "https://pypi.org/project/{}/{}/"


def document(parts: Sequence[Dependency]) -> str:
    """Return the CycloneDX document (JSON, 1.6) of the product with these parts."""
    bom = Bom()
    bom.metadata.component = root = _product()
    made = [component(part) for part in parts]
    bom.components.update(made)
    bom.register_dependency(root, made)
    return JsonV1Dot6(bom).output_as_string(indent=1)


def component(part: Dependency, within: str = "") -> Component:
    """Return a part as a component. within: reference of the component that contains it."""
    url = package_url(part)
    reference = (
        f"{within}{url or part.name + '@' + part.version}{'#' + part.file if part.file else ''}"
    )
    return Component(
        type=ComponentType.LIBRARY,
        bom_ref=reference,
        name=part.name.rpartition(":")[2],
        group=part.name.rpartition(":")[0] or None,
        version=part.version,
        purl=url,
        hashes=_hashes(part) if part.file else [],
        external_references=list(_distributions(part)),
        properties=[Property(name="tallyboard:file", value=part.file)] if part.file else [],
        components=[component(each, f"{reference}/") for each in part.parts],
    )


def package_url(part: Dependency) -> PackageURL | None:
    """Return the part's package URL, or None for an archive that does not say whose it is."""
    group, _, name = part.name.rpartition(":")
    if part.ecosystem == "Maven" and not group:
        return None
    return PackageURL(TYPES[part.ecosystem], group or None, name, part.version)


def _hashes(part: Dependency) -> list[HashType]:
    return [HashType(alg=HashAlgorithm.SHA_256, content=digest) for digest in part.sha256]


def _distributions(part: Dependency) -> Iterator[ExternalReference]:
    """Yield the registry's files of a Python package, any of which pip may install."""
    if not part.file and part.sha256:
        yield ExternalReference(
            type=ExternalReferenceType.DISTRIBUTION,
            url=XsUri(REGISTRY.format(part.name, part.version)),
            comment="SHA-256 of each file of this release",
            hashes=_hashes(part),
        )


def _product() -> Component:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    name, version = project["name"], project["version"]
    return Component(
        type=ComponentType.APPLICATION, name=name, version=version, bom_ref=f"{name}@{version}"
    )


def main() -> None:
    """Write the document; ends with one message when a part cannot be told."""
    parser = argparse.ArgumentParser(prog="python -m ops.sbom", description=main.__doc__)
    parser.add_argument("file", type=Path, nargs="?", default=FILE)
    file: Path = parser.parse_args().file
    try:
        parts = inventory(load_settings().jars_dir)
    except (InventoryProblem, ArchivesProblem) as problem:
        sys.exit(f"sbom: {problem}")
    file.write_text(document(parts) + "\n")
    held = sum(len(part.parts) for part in set(parts))
    print(f"sbom: {len(set(parts))} components, and {held} within them, in {file}")


if __name__ == "__main__":
    main()
