"""The kernel: the fold in Java, as a StatefulProcessor. Compiled at set-up, called through py4j.

`python -m streaming.kernel` compiles it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
import zipfile
from pathlib import Path

from config.archives import ArchivesProblem, pyspark_jars, verify
from config.java import JavaProblem, find_java

JAVA = Path(__file__).resolve().parent / "src" / "main" / "java"
# The oldest Java that runs the kernel.
RELEASE = "17"


class KernelProblem(Exception):
    """The kernel could not be compiled; the message says why."""


def sources() -> list[Path]:
    """List the kernel's Java files, in order."""
    return sorted(JAVA.rglob("*.java"))


def archive(jars_dir: Path) -> Path:
    """Return the path of the kernel's archive: it bears a digest of the sources and the library."""
    digest = hashlib.sha256(RELEASE.encode())
    for path in sources():
        digest.update(path.read_bytes())
    for path in sorted(library(jars_dir)):
        digest.update(path.name.encode())
    return jars_dir / "kernel" / f"kernel-{digest.hexdigest()[:16]}.jar"


def own_archives(jars_dir: Path) -> list[Path]:
    """List what the job adds to PySpark's archives: the Kafka connector's, and the kernel."""
    return [*sorted((jars_dir / "spark").glob("*.jar")), archive(jars_dir)]


def library(jars_dir: Path) -> list[Path]:
    """List what the kernel is compiled against: PySpark's archives and the Kafka connector's."""
    return [*pyspark_jars().glob("*.jar"), *(jars_dir / "spark").glob("*.jar")]


def build(jars_dir: Path) -> Path:
    """Compile the kernel, unless its archive is there; returns the archive.

    Raises KernelProblem with the compiler's message, or where the compiler is not the locked one.
    """
    target = archive(jars_dir)
    if target.exists():
        return target
    try:
        verify("compiler", jars_dir)
    except ArchivesProblem as problem:
        raise KernelProblem(str(problem)) from None
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="build-") as name:
        work = Path(name)
        compile_java(sources(), work / "classes", jars_dir)
        _pack(work / "classes", work / "kernel.jar")
        _write_module_options(work / "kernel.jar", jars_dir, work / "options")
        (work / "options").rename(_module_options(target))
        (work / "kernel.jar").rename(target)
    return target


def module_options(jars_dir: Path) -> list[str]:
    """Return the options that open Java's modules to Spark, as Spark's launcher gives them.

    Raises KernelProblem where the kernel has not been compiled.
    """
    try:
        options = _module_options(archive(jars_dir)).read_text().split()
    except FileNotFoundError:
        raise KernelProblem(f"{jars_dir}/kernel: no options there: run make setup") from None
    # A module that not every Java has, for what Spark does to vectors.
    return [option for option in options if not option.startswith("--add-modules=")]


def _module_options(kernel: Path) -> Path:
    return kernel.with_suffix(".options")


def _write_module_options(kernel: Path, jars_dir: Path, target: Path) -> None:
    """Have Spark print the options into `target`. Raises KernelProblem."""
    path = os.pathsep.join(map(str, [kernel, *library(jars_dir)]))
    command = [str(find_java()), "-cp", path, "tallyboard.kernel.Gateway", "--module-options"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise KernelProblem(f"Spark does not say which modules it needs:\n{done.stderr}")
    target.write_text(done.stdout)


def compile_java(files: list[Path], target: Path, jars_dir: Path, *also: Path) -> None:
    """Compile Java files into `target`, against the library and `also`. Raises KernelProblem."""
    compiler = next((jars_dir / "compiler").glob("ecj-*.jar"), None)
    if compiler is None:
        raise KernelProblem(f"{jars_dir}/compiler: no compiler there: run make setup")
    try:
        java = find_java()
    except JavaProblem as problem:
        raise KernelProblem(str(problem)) from None
    against = os.pathsep.join(str(path) for path in [*library(jars_dir), *also])
    command = [str(java), "-jar", str(compiler), "-d", str(target), "-cp", against]
    # Not --release: a runtime has no record of what older ones had.
    command += ["-source", RELEASE, "-target", RELEASE, "-encoding", "UTF-8", "-nowarn"]
    command += map(str, files)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        shutil.rmtree(target, ignore_errors=True)
        raise KernelProblem(f"the kernel does not compile:\n{done.stderr or done.stdout}")


def _pack(classes: Path, target: Path) -> None:
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as jar:
        for path in sorted(classes.rglob("*.class")):
            jar.write(path, path.relative_to(classes))
