"""Create `.venv` from requirements-dev.lock with a bare Python 3.11, so only the standard
library."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from config.java import JavaProblem, check_java_home
from ops.java_setup import ensure_java

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
LOCK = ROOT / "requirements-dev.lock"
# The part of it that the product needs, which the image installs.
PRODUCT_LOCK = ROOT / "requirements.lock"
# The tools that build packages available only as sources. They are installed first: otherwise the
# isolated build environment would be filled from the registry, with whatever is newest there.
BUILD_LOCK = ROOT / "requirements-build.lock"
STAMP = VENV / "tallyboard-lock"
# The installers' output; if one fails, its last lines are shown.
LOG = VENV / "setup.log"
SHOWN = 5
PYTHON = (3, 11)


class SetupProblem(Exception):
    """The environment cannot be created; the message says what to do."""


def ensure_environment(venv: Path = VENV, lock: Path = LOCK, build_lock: Path = BUILD_LOCK) -> None:
    """Make `venv` match `lock`, unless it already does.

    Raises SetupProblem if Python is not 3.11, lacks venv, or a package is not available.
    """
    digest = hashlib.sha256(lock.read_bytes() + build_lock.read_bytes()).hexdigest()
    stamp = venv / STAMP.name
    if stamp.exists() and stamp.read_text() == digest and _works(venv):
        return
    if sys.version_info[:2] != PYTHON:
        version = ".".join(map(str, sys.version_info[:3]))
        raise SetupProblem(f"Python 3.11 is needed, and {sys.executable} is {version}: install it.")
    if not _works(venv):
        _say("creating .venv")
        _run(
            [sys.executable, "-m", "venv", "--clear", venv],
            "Python's module venv is missing or broken: install python3.11-venv.",
        )
    log = venv / LOG.name
    _say(f"installing packages from requirements-dev.lock (about a minute; log: {log})")
    _install(venv / "bin" / "python", lock, build_lock)
    stamp.write_text(digest)


def _works(venv: Path) -> bool:
    """Return whether `venv` runs: it may be missing, incomplete, or moved from elsewhere."""
    python = venv / "bin" / "python"
    code = "import pip, sys; print(sys.prefix)"
    if not python.exists():
        return False
    answer = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    return answer.returncode == 0 and Path(answer.stdout.strip()).resolve() == venv.resolve()


def _install(python: Path, lock: Path, build_lock: Path) -> None:
    log = python.parent.parent / LOG.name
    advice = (
        "The package registry cannot be reached, or lacks what requirements-dev.lock pins: check "
        "the network (HTTPS_PROXY, pip's configuration) and start again."
    )
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as only_uv:
        only_uv.write(lock_entry(lock.read_text(), "uv"))
        only_uv.flush()
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        _run_logged(
            [
                *pip,
                "--retries",
                "1",
                "--require-hashes",
                "--only-binary",
                ":all:",
                "-r",
                only_uv.name,
            ],
            advice,
            log,
        )
    uv = [python, "-m", "uv", "pip", "install", "--python", python, "--require-hashes"]
    _run_logged([*uv, "--no-build", "-r", build_lock], advice, log)
    # Compiled once here rather than by ten processes at the first start.
    _run_logged([*uv, "--no-build-isolation", "--compile-bytecode", "-r", lock], advice, log)


def lock_entry(lock: str, name: str) -> str:
    """Return the entry of one package, with its hashes, in a lock file's text.

    Raises SetupProblem if there is none.
    """
    entry: list[str] = []
    for line in lock.splitlines():
        if entry and not line.startswith(" "):
            break
        if entry or line.startswith(f"{name}=="):
            entry.append(line)
    if not entry:
        raise SetupProblem(f"requirements-dev.lock does not pin {name}: run make lock.")
    return (
        "\n".join(line for line in entry if not line.strip().startswith("#")).rstrip("\\ ") + "\n"
    )


def _run(command: Sequence[object], advice: str) -> None:
    done = subprocess.run([str(part) for part in command], check=False)
    if done.returncode:
        raise SetupProblem(advice)


def _run_logged(command: Sequence[object], advice: str, log: Path) -> None:
    """Run a command, logging its output. Raises SetupProblem with the last lines of the log."""
    words = [str(part) for part in command]
    with log.open("ab") as output:
        done = subprocess.run(words, stdout=output, stderr=subprocess.STDOUT, check=False)
    if done.returncode:
        said = log.read_text(errors="replace").strip().splitlines()[-SHOWN:]
        raise SetupProblem("\n".join([advice, *said, f"All of it: {log}"]))


def _say(text: str) -> None:
    print(f"setup: {text}", flush=True)


def main() -> None:
    """Create the environment, and install a Java. Exits with a message on failure."""
    try:
        check_java_home()
        ensure_environment()
        ensure_java(VENV, _say)
    except (SetupProblem, JavaProblem) as problem:
        sys.exit(f"setup: {problem}")
    except KeyboardInterrupt:
        sys.exit("setup: interrupted; start again to go on")


if __name__ == "__main__":
    main()
