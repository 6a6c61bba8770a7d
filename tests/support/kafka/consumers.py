"""`manage.py consume` as a process of its own, and the lines that it prints."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from config.settings import PREFIX
from support.run.stack import ROOT, EmbeddedBroker

LINE = re.compile(
    r"(?P<at>[0-9:.]{12}) consumer=(?P<consumer>[0-9]+) (?P<event>[a-z]+) (?P<text>.*)"
)


@dataclass(frozen=True)
class Line:
    """What a consumer printed."""

    consumer: int
    event: str
    text: str

    def number(self, field: str) -> int:
        """The number after a field's name."""
        match = re.search(rf"\b{field}=(\d+)", self.text)
        assert match, f"no {field} in {self.text}"
        return int(match[1])

    @property
    def place(self) -> str:
        """The topic and partition that the line begins with."""
        return self.text.split(" ")[0]


class ConsumeProcess:
    """The command, running; its output goes to a file of `folder`."""

    def __init__(self, broker: EmbeddedBroker, folder: Path, *arguments: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.output = folder / f"consume-{time.monotonic_ns()}.log"
        kept = {key: text for key, text in os.environ.items() if not key.startswith(PREFIX)}
        own = {f"{PREFIX}DATA_DIR": str(folder), f"{PREFIX}KAFKA_PORT": str(broker.port)}
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "manage.py", "consume", *arguments],
                cwd=ROOT, env=kept | own, stdout=output, stderr=subprocess.STDOUT,
            )  # fmt: skip

    def lines(self, event: str = "") -> list[Line]:
        """The lines of this kind, or all."""
        text = self.output.read_text()
        lines = [Line(int(m["consumer"]), m["event"], m["text"]) for m in LINE.finditer(text)]
        return [line for line in lines if event in ("", line.event)]

    def assigned(self) -> list[str] | None:
        """The partitions that it has now; None before the group has been formed."""
        changes = [line for line in self.lines() if line.event in ("assigned", "revoked", "lost")]
        if not changes or changes[-1].event != "assigned":
            return None
        text = changes[-1].text
        return [] if text.startswith("nothing") else text.split(" ")

    def kill(self) -> None:
        """End it as `kill -9` does."""
        self.process.kill()
        self.process.wait(20)

    def stop(self) -> int:
        """Ask it to end, and wait; its exit status."""
        self.process.terminate()
        return self.process.wait(20)
