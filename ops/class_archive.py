"""Have the job write its class archive, using its own broker: `python -m ops.class_archive`.

This is done once, at set-up. Without the archive, the job works too, but starts more slowly.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from config.java import JavaProblem
from config.settings import PREFIX, load_settings
from ops.broker import BrokerProblem, prepare
from ops.ports import PortProblem, free_port

ROOT = Path(__file__).resolve().parent.parent
LONGEST_S = 400.0
# Short batches, so that a few commits are done quickly.
BATCH_S = 5


class ClassesProblem(Exception):
    """The class archive could not be written; the message says why."""


def build(jars_dir: Path, say: Callable[[str], None]) -> None:
    """Write the class archive, unless it exists. Raises ClassesProblem."""
    if _job("streaming.spark.gateway", jars_dir, {}).returncode == 0:
        return
    say("noting down what the job loads, so that it starts faster (once, about a minute)")
    with tempfile.TemporaryDirectory(prefix="tallyboard-classes-") as name:
        folder, port = Path(name), free_port()
        settings = {"DATA_DIR": name, "KAFKA_PORT": str(port), "BATCH_S": str(BATCH_S)}
        with _broker(folder, jars_dir, port):
            done = _job("streaming.job.cds_training", jars_dir, settings)
    if done.returncode:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:] or ["it ended without a word"]
        raise ClassesProblem(last[0])
    say("done")


def _job(module: str, jars_dir: Path, settings: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a module of the job in `/`, where no `.env` names a user's own Kafka."""
    own = {"JARS_DIR": str(jars_dir), "SCENARIOS": str(ROOT / "scenarios.toml"), **settings}
    command = [sys.executable, "-m", "ops.child", sys.executable, "-m", module]
    try:
        return subprocess.run(
            command,
            cwd="/",
            env=_environment() | {f"{PREFIX}{name}": text for name, text in own.items()},
            capture_output=True,
            text=True,
            check=False,
            timeout=LONGEST_S,
        )
    except subprocess.TimeoutExpired:
        raise ClassesProblem(f"not done within {LONGEST_S:g} s") from None


def _environment() -> dict[str, str]:
    """Return the environment without the user's own settings."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith(PREFIX)}
    return kept | {"PYTHONPATH": str(ROOT)}


@contextmanager
def _broker(folder: Path, jars_dir: Path, port: int) -> Iterator[None]:
    """Run an embedded broker in `folder` within the context. Raises ClassesProblem."""
    try:
        command = prepare(folder, jars_dir, port)
    except (BrokerProblem, JavaProblem, PortProblem) as problem:
        raise ClassesProblem(str(problem)) from None
    with (folder / "broker.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "ops.child", *command], cwd=ROOT, stdout=log, stderr=log
        )
    try:
        yield
    finally:
        process.kill()
        process.wait()


def main() -> None:
    """Write the class archive. What prevents it is reported, but is no failure."""
    try:
        build(load_settings().jars_dir, lambda text: print(f"classes: {text}", flush=True))
    except ClassesProblem as problem:
        print(f"classes: {problem}; the job will start more slowly", file=sys.stderr)


if __name__ == "__main__":
    main()
