"""`manage.py pipeline list|describe|new`: the pipelines, one as a graph, and a new one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from dashboard.core.common.times import now_ms, utc
from dashboard.core.job.pipelines import (
    NoSkeleton,
    PipelineView,
    pipeline,
    pipelines,
    write_skeleton,
)
from wire.pipeline import PipelineProgress

CATALOGUE_S = 60
"""How long the list of declared pipelines may take."""


class Command(BaseCommand):
    """One of three actions."""

    help = "List the pipelines, describe one as a graph, or begin a new one."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the actions, and the name of a pipeline."""
        actions = parser.add_subparsers(dest="action", required=True)
        actions.add_parser("list", help="each pipeline, whether it is on, and how it fares")
        describe = actions.add_parser("describe", help="sources, operators, stores, sinks, tasks")
        describe.add_argument("name")
        new = actions.add_parser("new", help="a pipeline that prints, and its test")
        new.add_argument("name")
        new.add_argument("--root", type=Path, default=settings.BASE_DIR, help="of the source tree")

    def handle(self, *_args: Any, action: str, **options: Any) -> None:
        """Carry out the action. Raises CommandError with what was expected."""
        if action == "list":
            self._list()
        elif action == "describe":
            self._describe(options["name"])
        else:
            self._new(options["root"], options["name"])

    def _list(self) -> None:
        known = {shown.record.name: shown for shown in pipelines(now_ms())}
        for declared in catalogue():
            shown = known.get(declared["name"])
            state = "not reported yet" if declared["on"] else "off"
            if shown is not None and declared["on"]:
                state = shown.state
            topics = f"{', '.join(declared['reads'])} -> {', '.join(declared['writes'])}"
            self.stdout.write(f"{declared['name']:24} {state:18} {topics}")

    def _describe(self, name: str) -> None:
        shown = pipeline(name, now_ms())
        if shown is None:
            names = [one["name"] for one in catalogue()]
            if name not in names:
                raise CommandError(f"expected one of {', '.join(names)}, got {name!r}")
            raise CommandError(f"{name} has not run yet: TALLYBOARD_PIPELINES={name} starts it")
        for line in described(shown):
            self.stdout.write(_printable(line))

    def _new(self, root: Path, name: str) -> None:
        try:
            files = write_skeleton(root, name)
        except NoSkeleton as error:
            raise CommandError(str(error)) from None
        for path in files:
            self.stdout.write(f"{path}")
        self.stdout.write(
            f"Test it: .venv/bin/pytest {files[1]}\nRun it: TALLYBOARD_PIPELINES={name} make run"
        )


def catalogue() -> list[dict[str, Any]]:
    """Return every declared pipeline: name, title, on, reads, writes. Raises CommandError."""
    done = subprocess.run(
        [sys.executable, "-m", "streaming.pipelines", "--list"],
        cwd=settings.BASE_DIR,
        capture_output=True,
        text=True,
        timeout=CATALOGUE_S,
        check=False,
    )
    if done.returncode:
        raise CommandError(done.stderr.strip().splitlines()[-1])
    return [json.loads(line) for line in done.stdout.splitlines()]


def described(shown: PipelineView) -> list[str]:
    """Return a pipeline in lines: how it fares, its graph, and which task reads what."""
    one = shown.record
    figures = (
        f"{one.behind:,} records and {one.behind_ms:,} ms behind, {one.records:,} read, "
        f"{one.dead_letters:,} dead letters, {one.restarts:,} restarts"
    )
    lines = [
        f"{one.name}: {one.title}",
        f"{shown.state} since {utc(one.since)}{f': {shown.why}' if shown.why else ''}",
        f"epoch {one.epoch}, {one.slots} slots, every {one.trigger}, state in {one.store}",
        figures,
        *gathered(one),
        "",
        "graph",
    ]
    for part in shown.parts:
        detail = f" ({part.node.detail})" if part.node.detail else ""
        after = f"  <- {', '.join(part.reads)}" if part.reads else ""
        lines.append(f"  {part.node.kind:9} {part.node.name}{detail}{after}")
    lines += ["", "partition -> task"]
    for each in one.assignments:
        task = "not read yet" if each.task < 0 else f"task {each.task}"
        lines.append(f"  {each.topic}/{each.partition} -> {task}, {each.behind:,} behind")
    if one.invalid:
        lines += ["", "records left out for their time"]
        lines += [f"  {each.topic}: {each.reason}: {each.records:,}" for each in one.invalid]
    return lines


def gathered(record: PipelineProgress) -> list[str]:
    """Return a line on what the pipeline's tables gather, none where they gather nothing."""
    if (one := record.gathering) is None:
        return []
    counts = f"{one.given:,} updates gathered into {one.sent:,} records"
    return [f"tables: {counts}; {one.budget:,} bytes may wait, {one.share:,} in each task"]


def _printable(line: str) -> str:
    """Return a line for a terminal, which is to obey nothing of what topics are called."""
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in line)
