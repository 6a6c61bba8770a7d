"""The bill of materials, made of the archives that are here, and audited."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path
from zipfile import ZipFile

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from config.archives import read_lock
from config.settings import PREFIX
from ops import release, vulnerability_audit
from ops.setup import ROOT


def test_the_bill_is_valid_and_names_every_archive(jars_dir: Path, tmp_path: Path) -> None:
    file = tmp_path / "sbom.json"
    subprocess.run([sys.executable, "-m", "ops.sbom", str(file)], cwd=ROOT, check=True)
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(file.read_text()) is None
    bill = json.loads(file.read_text())
    components = bill["components"]
    hashes = {each["content"] for part in components for each in part.get("hashes", [])}
    assert {digest for group in read_lock().values() for digest in group.values()} <= hashes
    urls = {part.get("purl", "") for part in components}
    assert {"pkg:pypi/pyspark@4.3.0", "pkg:maven/org.apache.kafka/kafka_2.13@4.3.1"} <= urls
    assert [url for url in urls if url.startswith("pkg:npm/uplot@")] != []
    shaded = next(part for part in components if part["name"] == "hadoop-client-runtime")
    assert len(shaded["components"]) > 50
    (whole,) = [each for each in bill["dependencies"] if each["ref"].startswith("tallyboard@")]
    assert len(whole["dependsOn"]) == len(components)


def test_a_release_has_its_parts(
    jars_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a clone, as a release is of a commit whatever this tree has besides."""
    monkeypatch.setenv(f"{PREFIX}JARS_DIR", str(jars_dir))
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", "--shared", ROOT, clone], check=True)
    files = release.release(tmp_path / "dist", clone)
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert [file.name for file in files] == [
        f"tallyboard_agents-{version}-py3-none-any.whl",
        f"tallyboard-{version}-image.tar",
        f"tallyboard-{version}.cdx.json",
        f"tallyboard-{version}-notes.md",
    ]
    with ZipFile(files[0]) as wheel:
        assert f"tallyboard_agents-{version}.dist-info/licenses/LICENSE" in wheel.namelist()
    with tarfile.open(files[1]) as context:
        names = set(context.getnames())
    assert {"Dockerfile", "requirements.lock", "manage.py"} <= names
    assert {"tests", "docs", "bench"} & {name.partition("/")[0] for name in names} == set()
    assert json.loads(files[2].read_text())["metadata"]["component"]["version"] == version
    assert "No false green" in files[3].read_text()


def test_an_advisory_about_an_archive_is_found(
    jars_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    affected = {
        "package": {"ecosystem": "Maven", "name": "org.apache.kafka:kafka-clients"},
        "ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "4.0.0"}]}],
    }
    (tmp_path / "GHSA-1.json").write_text(json.dumps({"id": "GHSA-1", "affected": [affected]}))
    assert vulnerability_audit.main([str(tmp_path)]) == vulnerability_audit.FOUND
    assert capsys.readouterr().out.startswith("Maven org.apache.kafka:kafka-clients 3.9.2: GHSA-1")
