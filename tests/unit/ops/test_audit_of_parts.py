"""What the product is made of, held against a small copy of advisories in the OSV format."""

from __future__ import annotations

import json
import zipfile
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ops import inventory, vulnerability_audit
from ops.advisories import (
    Advisories,
    Advisory,
    AdvisoryMatch,
    Affected,
    CopyProblem,
    Range,
    is_affected,
    read_copy,
)
from ops.inventory import Dependency, jar_part, python_parts, script_parts
from ops.setup import PRODUCT_LOCK

NOW = datetime.now(UTC)
PARTS = [
    Dependency("PyPI", "Django_Like", "5.2.9", ("aa",)),
    Dependency(
        "Maven",
        "org.example:shaded",
        "2.0",
        ("bb",),
        "shaded-2.0.jar",
        (Dependency("Maven", "io.netty:netty-codec", "4.1.9.Final"),),
    ),
    Dependency("Maven", "oro", "2.0.8", ("cc",), "oro-2.0.8.jar"),
    Dependency("npm", "uplot", "1.6.32", ("dd",), "uPlot.js"),
]


def osv(
    name: str, ecosystem: str, *events: dict[str, str], package: str, **more: Any
) -> dict[str, Any]:
    """An advisory as it is published."""
    kind = "SEMVER" if ecosystem == "npm" else "ECOSYSTEM"
    return {
        "schema_version": "1.6.0",
        "id": name,
        "modified": f"{NOW:%Y-%m-%dT%H:%M:%SZ}",
        "summary": f"{package} does what it should not",
        "affected": [
            {
                "package": {"ecosystem": ecosystem, "name": package},
                "ranges": [{"type": kind, "events": list(events)}],
            }
        ],
        **more,
    }


ZERO = {"introduced": "0"}
HARMLESS = [
    osv("PYSEC-1", "PyPI", ZERO, {"fixed": "5.2.9"}, package="django-like"),
    osv("GHSA-2", "Maven", ZERO, {"last_affected": "1.9"}, package="org.example:shaded"),
    osv("GHSA-3", "npm", {"introduced": "1.6.100"}, package="uplot"),
    osv("GHSA-4", "npm", ZERO, package="uplot", withdrawn="2026-01-01T00:00:00Z"),
]


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A directory of advisories, none of which is about our parts."""
    folder = tmp_path / "advisories"
    for each in HARMLESS:
        write(folder, each)
    return folder


def write(folder: Path, advisory: dict[str, Any]) -> None:
    path = folder / advisory["affected"][0]["package"]["ecosystem"] / f"{advisory['id']}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(advisory))


@pytest.fixture(autouse=True)
def _parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vulnerability_audit, "inventory", lambda _jars_dir: PARTS)


def run(*arguments: object) -> int:
    return vulnerability_audit.main([str(each) for each in arguments])


def test_without_a_copy_nothing_is_judged(capsys: pytest.CaptureFixture[str]) -> None:
    assert run() == vulnerability_audit.NOT_JUDGED
    assert "nothing was judged" in capsys.readouterr().err


def test_nothing_known_is_another_status(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(copy) == vulnerability_audit.NONE
    output = capsys.readouterr()
    assert output.err == ""
    assert "4 parts; 0 findings, 0 accepted; advisories: 1 for PyPI, 1 for Maven, 2 for npm" in (
        output.out
    )
    assert f"the newest of {NOW:%Y-%m-%d}" in output.out


@pytest.mark.parametrize(
    ("advisory", "line"),
    [
        (
            osv("PYSEC-9", "PyPI", ZERO, {"fixed": "5.2.10"}, package="django-like"),
            "PyPI Django_Like 5.2.9: PYSEC-9 django-like does what it should not",
        ),
        (
            osv("GHSA-9", "Maven", ZERO, {"fixed": "4.1.10"}, package="io.netty:netty-codec"),
            "Maven io.netty:netty-codec 4.1.9.Final in shaded-2.0.jar: GHSA-9 io.netty:netty-codec",
        ),
        (
            osv("GHSA-9", "Maven", ZERO, package="oro:oro"),
            "Maven oro 2.0.8: GHSA-9 oro:oro does what it should not (by the archive's name alone",
        ),
        (
            osv("GHSA-9", "npm", {"introduced": "1.0.0"}, package="uplot", aliases=["CVE-1"]),
            "npm uplot 1.6.32: GHSA-9, CVE-1 uplot does",
        ),
        (
            osv("GHSA-9", "Maven", ZERO, {"fixed": "2.0.1"}, package="org.example:shaded")
            | {"database_specific": {"severity": "HIGH"}},
            "Maven org.example:shaded 2.0: GHSA-9 HIGH",
        ),
        (
            osv("GHSA-9", "PyPI", ZERO, {"fixed": "soon"}, package="django-like"),
            "PyPI Django_Like 5.2.9: GHSA-9 django-like does what it should not (its versions do",
        ),
    ],
    ids=["python", "shaded", "name-alone", "script", "severity", "incomparable"],
)
def test_a_finding_is_told_in_a_line(
    copy: Path, advisory: dict[str, Any], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write(copy, advisory)
    assert run(copy) == vulnerability_audit.FOUND
    assert capsys.readouterr().out.startswith(line)


def test_one_fault_of_two_databases_is_told_once(copy: Path) -> None:
    for name, alias in (("GHSA-9", "CVE-1"), ("PYSEC-9", "CVE-1")):
        write(copy, osv(name, "PyPI", ZERO, package="django-like", aliases=[alias]))
    assert len(list(Advisories(read_copy(copy)).findings(PARTS))) == 1


def test_a_zip_file_is_a_copy_too(copy: Path, tmp_path: Path) -> None:
    write(copy, osv("PYSEC-9", "PyPI", ZERO, package="django-like"))
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as packed:
        for path in copy.rglob("*.json"):
            packed.write(path, path.name)
    assert run(tmp_path / "all.zip") == vulnerability_audit.FOUND


def test_an_advisory_may_be_yaml(tmp_path: Path) -> None:
    (tmp_path / "PYSEC-9.yaml").write_text(
        "id: PYSEC-9\nmodified: 2026-11-01T00:00:00Z\naffected:\n- package:\n"
        "    name: django-like\n    ecosystem: PyPI\n  versions:\n  - 5.2.9\n"
    )
    (finding,) = Advisories(read_copy(tmp_path)).findings(PARTS)
    assert (finding.advisory.id, finding.doubt) == ("PYSEC-9", "")


def test_a_copy_without_an_ecosystem_does_not_judge_it(
    copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (copy / "Maven" / "GHSA-2.json").unlink()
    assert run(copy) == vulnerability_audit.NOT_JUDGED
    assert "no advisories for Maven" in capsys.readouterr().err


def test_an_old_copy_says_so_and_does_not_judge(
    copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in copy.rglob("*.json"):
        old = json.loads(path.read_text()) | {
            "modified": f"{NOW - timedelta(days=31):%Y-%m-%d}T00:00:00Z"
        }
        path.write_text(json.dumps(old))
    assert run(copy) == vulnerability_audit.NOT_JUDGED
    assert "31 days old" in capsys.readouterr().err
    assert run("--oldest", 40, copy) == vulnerability_audit.NONE


@pytest.mark.parametrize("spoil", ["{", '{"id": 5}'])
def test_a_file_that_is_no_advisory_is_named(
    copy: Path, spoil: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (copy / "bad.json").write_text(spoil)
    assert run(copy) == vulnerability_audit.NOT_JUDGED
    assert "bad.json is no advisory in the OSV format" in capsys.readouterr().err


def test_a_path_that_is_not_there_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path / "none") == vulnerability_audit.NOT_JUDGED
    assert "none cannot be read" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("version", "events", "expected"),
    [
        ("1.5", [ZERO, {"fixed": "1.2"}, {"introduced": "2.0"}, {"fixed": "2.3"}], False),
        ("2.1", [ZERO, {"fixed": "1.2"}, {"introduced": "2.0"}, {"fixed": "2.3"}], True),
        ("2.3", [ZERO, {"fixed": "1.2"}, {"introduced": "2.0"}, {"fixed": "2.3"}], False),
        ("1.0-rc1", [{"introduced": "1.0"}], False),
        ("1.2", [ZERO, {"last_affected": "1.2"}], True),
        ("1.2.1", [ZERO, {"last_affected": "1.2"}], False),
        ("1.10", [{"introduced": "1.9"}, {"fixed": "1.11"}], True),
    ],
)
def test_versions_are_compared_as_maven_does(
    version: str, events: list[dict[str, str]], expected: bool
) -> None:
    affected = osv("x", "Maven", *events, package="g:a")["affected"][0]
    import msgspec

    assert (
        is_affected(Dependency("Maven", "g:a", version), msgspec.convert(affected, Affected))
        is expected
    )


@pytest.mark.parametrize(("version", "expected"), [("1.2.3", True), ("1.2.4", False)])
def test_a_limit_that_github_notes_beside_counts(version: str, expected: bool) -> None:
    noted = Affected(
        ranges=[Range("ECOSYSTEM", [ZERO])],
        database_specific={"last_known_affected_version_range": "<= 1.2.3"},
    )
    assert is_affected(Dependency("Maven", "g:a", version), noted) is expected


def test_an_accepted_finding_stands_until_its_day(tmp_path: Path) -> None:
    path = tmp_path / "advisories.toml"
    path.write_text(
        '[[accepted]]\nid = "CVE-1"\npackage = "oro"\nreason = "not reached"\nuntil = 2026-12-31\n'
    )
    (entry,) = vulnerability_audit.read_accepted(path)
    finding = AdvisoryMatch(PARTS[2], Advisory("GHSA-9", aliases=["CVE-1"]), "")
    assert entry.covers(finding, date(2026, 12, 31))
    assert not entry.covers(finding, date(2027, 1, 1))
    assert not entry.covers(AdvisoryMatch(PARTS[3], finding.advisory, ""), date(2026, 12, 31))


def test_accepted_findings_are_not_counted(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(copy, osv("GHSA-9", "npm", ZERO, package="uplot"))
    entry = vulnerability_audit.Accepted("GHSA-9", "uplot", "no", date.max)
    monkeypatch.setattr(vulnerability_audit, "read_accepted", lambda: [entry])
    assert run(copy) == vulnerability_audit.NONE


def test_an_acceptance_says_why(tmp_path: Path) -> None:
    path = tmp_path / "advisories.toml"
    path.write_text('[[accepted]]\nid = "CVE-1"\npackage = "oro"\nuntil = 2026-12-31\n')
    with pytest.raises(CopyProblem, match=r"advisories\.toml.*reason"):
        vulnerability_audit.read_accepted(path)
    assert all(entry.reason for entry in vulnerability_audit.read_accepted())


def test_every_python_package_of_the_lock_is_a_part() -> None:
    lock = PRODUCT_LOCK.read_text()
    parts = {part.name: part for part in python_parts(lock)}
    assert len(parts) == lock.count("==")
    assert all(part.sha256 for part in parts.values())
    assert parts["pyspark"].version == "4.3.0"


def test_vendored_scripts_tell_their_versions() -> None:
    assert {part.name for part in script_parts()} == {"uplot", "altcha", "htmx.org"}
    vendored = {path.name for path in (inventory.ROOT / "static" / "vendor").iterdir()}
    assert vendored == {"uplot", "altcha"}


def test_an_archive_is_named_by_its_lock_by_itself_or_by_its_file(tmp_path: Path) -> None:
    path = tmp_path / "some-core-1.0-shaded.jar"
    with zipfile.ZipFile(path, "w") as jar:
        for group, artifact in (("g", "some"), ("g", "some-core"), ("h", "inner")):
            properties = f"# by hand\ngroupId={group}\nartifactId={artifact}\nversion=1.0\n"
            jar.writestr(f"META-INF/maven/{group}/{artifact}/pom.properties", properties)
    held = {"h:inner", "g:some"}
    part = jar_part(path, path.name, "ab", {})
    assert (part.name, part.version) == ("g:some-core", "1.0")
    assert {each.name for each in part.parts} == held
    assert jar_part(path, "o:other:2.0", "ab", {}).name == "o:other"

    bare = tmp_path / "zstd-jni-1.5.7-7.jar"
    with zipfile.ZipFile(bare, "w"):
        pass
    assert jar_part(bare, bare.name, "ab", {}) == Dependency(
        "Maven", "zstd-jni", "1.5.7-7", ("ab",), bare.name
    )
    assert jar_part(bare, bare.name, "ab", {"zstd-jni": "com.github.luben"}).name == (
        "com.github.luben:zstd-jni"
    )
