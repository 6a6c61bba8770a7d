"""Known vulnerabilities, read from a copy of advisories in OSV format: a directory or a zip file.

Copies are used as published: one JSON (or YAML) file per advisory.
https://ossf.github.io/osv-schema/ describes the format.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import yaml
from univers.versions import InvalidVersion, MavenVersion, PypiVersion, SemverVersion, Version

from ops.inventory import Dependency

VERSIONS: dict[str, Callable[[str], Version]] = {
    "PyPI": PypiVersion,
    "Maven": MavenVersion,
    "npm": SemverVersion,
}
KINDS = (".json", ".yaml", ".yml")
BY_NAME = "by the archive's name alone, which does not say whose it is"
# GitHub's note on a range without an end: `<= 1.2.3`.
KNOWN_UPTO = "last_known_affected_version_range"


class CopyProblem(Exception):
    """The copy of the advisories cannot be used; the message says why."""


class Package(msgspec.Struct):
    """The package that an advisory concerns."""

    ecosystem: str = ""
    name: str = ""


class Range(msgspec.Struct):
    """Affected versions, given by events: introduced, fixed, last_affected."""

    type: str = ""
    events: list[dict[str, str]] = []


class Affected(msgspec.Struct):
    """One package of an advisory, and its affected versions."""

    package: Package = msgspec.field(default_factory=Package)
    ranges: list[Range] = []
    versions: list[str] = []
    database_specific: dict[str, Any] = {}


class Advisory(msgspec.Struct):
    """The parts of an advisory that are used. modified: time of the last change, ISO 8601."""

    id: str
    modified: str = ""
    withdrawn: str | None = None
    summary: str = ""
    aliases: list[str] = []
    affected: list[Affected] = []
    database_specific: dict[str, Any] = {}

    @property
    def severity(self) -> str:
        """The severity given by the advisory's database: CRITICAL, HIGH, …; else empty."""
        return str(self.database_specific.get("severity") or "")


@dataclass(frozen=True)
class AdvisoryMatch:
    """A part that an advisory concerns. doubt: why it may concern another one, else empty."""

    part: Dependency
    advisory: Advisory
    within: str
    doubt: str = ""

    @property
    def names(self) -> set[str]:
        """The advisory's id and its aliases: one vulnerability has an id in each database."""
        return {self.advisory.id, *self.advisory.aliases}


class Advisories:
    """The advisories of a copy, by ecosystem and package."""

    def __init__(self, advisories: Iterable[Advisory]) -> None:
        self._by_name: dict[tuple[str, str], list[tuple[Advisory, Affected]]] = {}
        self.newest = ""
        self.counts = dict.fromkeys(VERSIONS, 0)
        for advisory in advisories:
            self._add(advisory)

    def _add(self, advisory: Advisory) -> None:
        self.newest = max(self.newest, advisory.modified)
        for ecosystem in {each.package.ecosystem for each in advisory.affected} & {*self.counts}:
            self.counts[ecosystem] += 1
        for affected in () if advisory.withdrawn else advisory.affected:
            for key in _keys(affected.package.ecosystem, affected.package.name):
                self._by_name.setdefault(key, []).append((advisory, affected))

    @property
    def written(self) -> datetime | None:
        """When the newest of them was written."""
        return datetime.fromisoformat(self.newest) if self.newest else None

    def findings(self, parts: Iterable[Dependency]) -> Iterator[AdvisoryMatch]:
        """Yield the matches for these parts and their inner parts, each once per part."""
        for part, within in _all(parts):
            seen: set[str] = set()
            for finding in self._of(part, within):
                if not finding.names & seen:
                    yield finding
                seen |= finding.names

    def _of(self, part: Dependency, within: str) -> Iterator[AdvisoryMatch]:
        unsure = "" if part.ecosystem != "Maven" or ":" in part.name else BY_NAME
        for advisory, affected in self._by_name.get(_keys(part.ecosystem, part.name)[0], ()):
            try:
                if is_affected(part, affected):
                    yield AdvisoryMatch(part, advisory, within, unsure)
            except InvalidVersion as problem:
                yield AdvisoryMatch(
                    part, advisory, within, f"its versions do not compare: {problem}"
                )


def _all(parts: Iterable[Dependency]) -> Iterator[tuple[Dependency, str]]:
    seen = set()
    for part in parts:
        for each, within in [(part, ""), *((inner, part.file) for inner in part.parts)]:
            if (key := (each.ecosystem, each.name, each.version)) not in seen:
                seen.add(key)
                yield each, within


def _keys(ecosystem: str, name: str) -> list[tuple[str, str]]:
    """Return the keys for finding a package; a Maven package is also found by its artifact
    alone."""
    base = ecosystem.partition(":")[0]
    if base == "PyPI":
        return [(base, re.sub(r"[-_.]+", "-", name).lower())]
    if base == "Maven":
        return [(base, name), (base, name.rpartition(":")[2])]
    return [(base, name)]


def is_affected(part: Dependency, affected: Affected) -> bool:
    """Return whether the part's version is among the affected ones. Raises InvalidVersion."""
    if part.version in affected.versions:
        return True
    make = VERSIONS[part.ecosystem]
    version = make(part.version)
    if not _up_to(version, str(affected.database_specific.get(KNOWN_UPTO, "")), make):
        return False
    ranges = [each for each in affected.ranges if each.type in ("ECOSYSTEM", "SEMVER")]
    return any(_within(version, each.events, make) for each in ranges)


def _within(version: Version, events: list[dict[str, str]], make: Callable[[str], Version]) -> bool:
    """Return whether the last event up to this version leaves it affected."""
    happened = [(kind, at) for event in events for kind, at in event.items()]
    began = [at for kind, at in happened if kind == "introduced"]
    begun = [make(at) for at in began if at != "0" and make(at) <= version]
    if not begun and "0" not in began:
        return False
    start = max(begun, default=None)
    for kind, at in happened:
        end = make(at) if kind in ("fixed", "last_affected") else None
        if end is None or (start is not None and end < start):
            continue
        if end < version or (kind == "fixed" and end == version):
            return False
    return True


def _up_to(version: Version, limit: str, make: Callable[[str], Version]) -> bool:
    """Return whether a version is within GitHub's limit; True without a limit."""
    named = re.fullmatch(r"(<=?)\s*(\S+)", limit)
    if named is None:
        return True
    end = make(named[2])
    return bool(version < end or (named[1] == "<=" and version == end))


def read_copy(path: Path) -> Iterator[Advisory]:
    """Yield every advisory in a directory or a zip file. Raises CopyProblem."""
    try:
        for name, content in _files(path):
            yield _decode(name, content)
    except (OSError, zipfile.BadZipFile) as problem:
        raise CopyProblem(f"{path} cannot be read: {problem}") from None


def _decode(name: str, content: bytes) -> Advisory:
    try:
        if name.endswith(".json"):
            return msgspec.json.decode(content, type=Advisory)
        return msgspec.convert(yaml.load(content, yaml.CBaseLoader), Advisory)  # noqa: S506
    except (msgspec.MsgspecError, UnicodeDecodeError, yaml.YAMLError) as problem:
        raise CopyProblem(f"{name} is no advisory in the OSV format: {problem}") from None


def _files(path: Path) -> Iterator[tuple[str, bytes]]:
    if path.is_dir():
        for each in path.rglob("*"):
            if each.suffix in KINDS and not _aside(each.relative_to(path)):
                yield str(each), each.read_bytes()
        return
    with zipfile.ZipFile(path) as packed:
        for name in packed.namelist():
            if name.endswith(KINDS) and not _aside(Path(name)):
                yield f"{path}: {name}", packed.read(name)


def _aside(path: Path) -> bool:
    """Return whether a file in a clone of the repository is not an advisory."""
    return any(part.startswith(".") or part in ("triage", "schemas") for part in path.parts)
