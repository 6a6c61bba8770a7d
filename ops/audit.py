"""`make audit`: hold what the product is made of against a copy of known vulnerabilities.

It asks nobody: the copy is given by its path. Exit status 0: nothing known; 1: findings; 2: it
could not judge, as there is no copy, it is too old, or it lacks an ecosystem.
"""

from __future__ import annotations

import argparse
import sys
import tomllib
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from pathlib import Path

import msgspec

from config.archives import ArchivesProblem
from config.settings import load_settings
from ops.advisories import Advisories, CopyProblem, Finding, read_copy
from ops.inventory import InventoryProblem, inventory

ACCEPTED = Path(__file__).with_name("advisories.toml")
OLDEST_DAYS = 30
NO_COPY = (
    "no copy of the advisories, so nothing was judged. Give one: make audit ADVISORIES=PATH, a "
    "directory or a zip file in the OSV format (docs/security.md says where to get it)."
)
NONE, FOUND, NOT_JUDGED = range(3)


class Accepted(msgspec.Struct, frozen=True):
    """A finding that stands for a time: which advisory of which package, why, until when."""

    id: str
    package: str
    reason: str
    until: date

    def covers(self, finding: Finding, today: date) -> bool:
        """Whether it is this finding, and still stands."""
        same = self.id in finding.names and self.package == finding.part.name
        return same and today <= self.until


def read_accepted(path: Path = ACCEPTED) -> list[Accepted]:
    """Read the findings that are accepted. Raises CopyProblem naming what is wrong."""
    try:
        entries = tomllib.loads(path.read_text()).get("accepted", [])
        return msgspec.convert(entries, list[Accepted])
    except (msgspec.ValidationError, tomllib.TOMLDecodeError) as problem:
        raise CopyProblem(f"{path}: {problem}") from None


def told(finding: Finding) -> str:
    """A finding in a line."""
    part, advisory = finding.part, finding.advisory
    where = f" in {finding.within}" if finding.within else ""
    doubt = f" ({finding.doubt})" if finding.doubt else ""
    names = ", ".join([advisory.id, *sorted(advisory.aliases)])
    return " ".join(
        f"{part.ecosystem} {part.name} {part.version}{where}: {names} "
        f"{advisory.severity} {advisory.summary}{doubt}".split()
    )


def gaps(copy: Advisories, now: datetime, oldest_days: int) -> Iterator[str]:
    """Why nothing found would not mean that there is nothing."""
    for ecosystem, count in copy.counts.items():
        if not count:
            yield f"the copy has no advisories for {ecosystem}: its packages were not judged"
    if copy.written is None:
        yield "the copy does not say how old it is"
    elif (age := (now - copy.written).days) > oldest_days:
        yield f"the copy's newest advisory is {age} days old, which is more than {oldest_days}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what is known of the product's parts; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m ops.audit", description=__doc__)
    parser.add_argument("copy", type=Path, nargs="*", help="directories or zip files")
    parser.add_argument("--oldest", type=int, default=OLDEST_DAYS, help="days (30)")
    options = parser.parse_args(arguments)
    if not options.copy:
        print(f"audit: {NO_COPY}", file=sys.stderr)
        return NOT_JUDGED
    try:
        return _audit(options.copy, options.oldest)
    except (ArchivesProblem, CopyProblem, InventoryProblem) as problem:
        print(f"audit: {problem}", file=sys.stderr)
        return NOT_JUDGED


def _audit(paths: Sequence[Path], oldest_days: int) -> int:
    accepted, now = read_accepted(), datetime.now(UTC)
    parts = inventory(load_settings().jars_dir)
    copy = Advisories(each for path in paths for each in read_copy(path))
    found = sorted(copy.findings(parts), key=lambda each: (each.part.ecosystem, each.part.name))
    open_ones = [
        each for each in found if not any(one.covers(each, now.date()) for one in accepted)
    ]
    for finding in open_ones:
        print(told(finding))
    missing = list(gaps(copy, now, oldest_days))
    for gap in missing:
        print(f"audit: {gap}", file=sys.stderr)
    counts = ", ".join(f"{count:,} for {name}" for name, count in copy.counts.items())
    print(
        f"audit: {len(parts)} parts; {len(open_ones)} findings, {len(found) - len(open_ones)} "
        f"accepted; advisories: {counts}, the newest of {copy.newest[:10] or 'no date'}"
    )
    return FOUND if open_ones else NOT_JUDGED if missing else NONE


if __name__ == "__main__":
    sys.exit(main())
