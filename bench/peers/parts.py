"""What the peers need beside the product: archives, their compiled programs, an environment.

All of it lies in `.jars/peers`, comes with the first run of the bench, and is held to locks of its
own: `jars.lock` and `requirements.lock` beside this file.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import tomllib
import venv
from pathlib import Path

from bench.stack import JARS, BenchProblem, say
from config.archives import ArchivesProblem, compare, file_name, read_lock
from config.java import JavaProblem, find_java
from ops.jars import JarGroup, JarPins, JarsProblem, retrieve
from ops.jars_lock import as_toml, registry_digests

HERE = Path(__file__).resolve().parent
HOME = JARS / "peers"
PINS, LOCK = HERE / "jars.toml", HERE / "jars.lock"
REQUIREMENTS = HERE / "requirements.lock"
# What each program is compiled of: the fold, which they share, and its own.
SOURCES = {"streams": ("fold", "streams"), "flink": ("fold", "flink")}
RELEASE = "17"
HEAD = "# Made by python -m bench.peers.parts: the SHA-256 of every archive that the peers load.\n"


def class_path(program: str) -> str:
    """Return the class path of a Java program, fetched and compiled. Raises BenchProblem."""
    try:
        jars = _fetched(program)
        return os.pathsep.join(map(str, [_compiled(program, jars), *jars]))
    except (ArchivesProblem, JarsProblem, JavaProblem) as problem:
        raise BenchProblem(f"{program}: {problem}") from None


def python() -> Path:
    """Return the Python with Quix Streams, in an environment of its own. Raises BenchProblem."""
    digest = hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()[:16]
    home = HOME / f"quix-{digest}"
    executable = home / "bin" / "python"
    if not (home / "complete").exists():
        say("peers: making an environment with Quix Streams")
        venv.create(home, with_pip=True, clear=True)
        _install(executable)
        (home / "complete").touch()
    return executable


def _install(executable: Path) -> None:
    command = [str(executable), "-m", "pip", "install", "--quiet", "--require-hashes", "--no-deps"]
    command += ["--only-binary", ":all:", "-r", str(REQUIREMENTS)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchProblem(f"Quix Streams cannot be installed:\n{done.stderr}")


def _pins() -> JarPins:
    raw = PINS.read_bytes()
    groups = tuple(
        JarGroup(name, tuple(entry["modules"]), tuple(entry["exclude"]))
        for name, entry in tomllib.loads(raw.decode()).items()
    )
    return JarPins("", groups, hashlib.sha256(raw).hexdigest())


def _fetched(group: str) -> list[Path]:
    """Return a group's archives, fetched where they are not there, and held to the lock."""
    folder = HOME / group
    if not folder.is_dir():
        HOME.mkdir(parents=True, exist_ok=True)
        say("peers: fetching Kafka Streams and Flink (about 230 MB)")
        with tempfile.TemporaryDirectory(dir=HOME, prefix="fetch-") as name:
            retrieve(_pins(), Path(name), say)
            for fetched in Path(name, "jars").iterdir():
                if not (HOME / fetched.name).exists():
                    fetched.rename(HOME / fetched.name)
    locked = read_lock(LOCK).get(group, {})
    compare(folder, {file_name(key): digest for key, digest in locked.items()})
    return sorted(folder.glob("*.jar"))


def _compiled(program: str, jars: list[Path]) -> Path:
    """Return the folder of a program's classes."""
    folders = [HERE / "java" / part for part in SOURCES[program]]
    files = [path for folder in folders for path in sorted(folder.rglob("*.java"))]
    digest = hashlib.sha256(LOCK.read_bytes())
    for path in files:
        digest.update(path.read_bytes())
    target = HOME / f"{program}-{digest.hexdigest()[:16]}"
    if not target.exists():
        with tempfile.TemporaryDirectory(dir=HOME, prefix="build-") as name:
            _compile(files, Path(name, "classes"), jars)
            Path(name, "classes").rename(target)
    return target


def _compile(files: list[Path], target: Path, jars: list[Path]) -> None:
    compiler = next((JARS / "compiler").glob("ecj-*.jar"))
    command = [find_java(), "-jar", compiler, "-d", target, "-cp", os.pathsep.join(map(str, jars))]
    command += ["-source", RELEASE, "-target", RELEASE, "-encoding", "UTF-8", "-nowarn", *files]
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise BenchProblem(f"a peer does not compile:\n{done.stderr or done.stdout}")


def main() -> None:
    """Write `jars.lock` anew: `python -m bench.peers.parts`."""
    try:
        lock = registry_digests(_pins(), say)
    except (JarsProblem, JavaProblem) as problem:
        sys.exit(f"peers: {problem}")
    LOCK.write_text(as_toml(lock, HEAD))


if __name__ == "__main__":
    main()
