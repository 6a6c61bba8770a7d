"""Setting up: the lock file, the archives' pins, clear messages."""

from __future__ import annotations

import os
import re
import socket
import tomllib
from importlib.metadata import distribution
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from config.settings import Settings
from ops import checks, jars, setup
from ops.ports import PortProblem, free_port, require_free


def test_lock_entry_is_cut_with_its_hashes() -> None:
    others = "a==1 \\\n    --hash=sha256:aa\n    # via x\n", "z==3\n"
    wanted = "uv==2 \\\n    --hash=sha256:bb \\\n    --hash=sha256:cc\n    # via y\n"
    lock = wanted.join(others)
    assert setup.lock_entry(lock, "uv") == (
        "uv==2 \\\n    --hash=sha256:bb \\\n    --hash=sha256:cc\n"
    )


def test_lock_pins_the_installer() -> None:
    assert "--hash=sha256:" in setup.lock_entry(setup.LOCK.read_text(), "uv")


def test_lock_entry_that_is_missing_is_told() -> None:
    with pytest.raises(setup.SetupProblem, match="does not pin uv"):
        setup.lock_entry("a==1\n", "uv")


def test_every_archive_is_pinned_for_this_pyspark() -> None:
    pins = jars.read_pins()
    assert [group.name for group in pins.groups] == ["spark", "broker", "compiler"]
    tree = ET.fromstring(jars.ivy_module(pins))
    asked = {node.get("name"): node.get("rev") for node in tree.iter("dependency")}
    assert asked["spark-token-provider-kafka-0-10_2.13"] == "4.0.0"
    assert asked["kafka_2.13"] == "4.3.1"
    assert {(node.get("org"), node.get("conf")) for node in tree.iter("exclude")} == {
        ("org.apache.hadoop", "spark"),
        ("org.scala-lang", "spark"),
    }


def test_pins_for_another_pyspark_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "jars.toml"
    path.write_text('pyspark = "1.0"\n')
    with pytest.raises(jars.JarsProblem, match=r"pins archives for 1\.0"):
        jars.read_pins(path)


def test_stamp_of_other_pins_means_fetch_anew(tmp_path: Path) -> None:
    pins = jars.read_pins()
    assert not jars.up_to_date(pins, tmp_path)
    (tmp_path / jars.STAMP).write_text("older")
    assert not jars.up_to_date(pins, tmp_path)
    (tmp_path / jars.STAMP).write_text(pins.digest)
    assert jars.up_to_date(pins, tmp_path)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("Host registry not found. url=https://registry/x.pom", "cannot be reached"),
        ("Server access error: java.net.UnknownHostException: x", "cannot be reached"),
        (":: org.apache.kafka#kafka_2.13;99: not found", "does not have org.apache.kafka#kafka"),
        ("", "cannot be reached"),
    ],
)
def test_failed_fetch_is_explained(line: str, message: str) -> None:
    assert message in jars.explain([line])


def test_proxy_of_the_environment_is_passed_on() -> None:
    assert jars.proxy_options({}) == []
    options = jars.proxy_options({"https_proxy": "http://proxy.example:8080"})
    assert "-Dhttps.proxyHost=proxy.example" in options
    assert "-Dhttps.proxyPort=8080" in options


def test_lock_has_all_that_the_project_asks_for() -> None:
    project = tomllib.loads((setup.ROOT / "pyproject.toml").read_text())
    asked = project["project"]["dependencies"] + project["dependency-groups"]["dev"]
    names = {re.split(r"[\[<>=! ]", each)[0].lower() for each in asked}
    assert [name for name in names if not setup.lock_entry(setup.LOCK.read_text(), name)] == []


SOURCES = {"http-ece", "pyspark"}
"""Packages that the registry has as sources alone: their hashes are those of one file."""
WHEELS = {"py-vapid"}
"""Packages that it has as one wheel alone."""


@pytest.mark.parametrize("name", ["requirements.lock", "requirements-dev.lock"])
def test_what_comes_as_sources_is_known(name: str) -> None:
    lock = (setup.ROOT / name).read_text()
    packages = re.findall(r"^([a-z0-9._-]+)(?:\[[^\]]*\])?==", lock, re.MULTILINE)
    single = {each for each in packages if setup.lock_entry(lock, each).count("--hash=") == 1}
    assert single == SOURCES | WHEELS, "does the new one come as sources? what builds it?"


def test_what_builds_the_sources_is_pinned_by_its_hashes() -> None:
    project = tomllib.loads((setup.ROOT / "pyproject.toml").read_text())
    lock = setup.BUILD_LOCK.read_text()
    pinned = re.findall(r"^([a-z0-9._-]+)==\S+", lock, re.MULTILINE)
    assert set(pinned) >= set(project["dependency-groups"]["build"]) >= {"setuptools"}
    assert all("--hash=sha256:" in setup.lock_entry(lock, each) for each in pinned)


@pytest.mark.parametrize("name", sorted(SOURCES))
def test_the_installed_ones_were_built_by_what_is_pinned(name: str) -> None:
    [pinned] = re.findall(r"^setuptools==(\S+)", setup.BUILD_LOCK.read_text(), re.MULTILINE)
    assert f"Generator: setuptools ({pinned})" in (distribution(name).read_text("WHEEL") or "")


def test_the_set_up_builds_with_nothing_from_the_registry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[list[str]] = []

    def run(command: list[object], _advice: str, _log: Path) -> None:
        ran.append([str(word) for word in command])

    monkeypatch.setattr(setup, "_run_logged", run)
    setup._install(tmp_path / "python", setup.LOCK, setup.BUILD_LOCK)
    [uv, tools, packages] = ran
    assert all("--require-hashes" in command for command in ran)
    assert uv[uv.index("--only-binary") + 1] == ":all:"
    assert {"--no-build", str(setup.BUILD_LOCK)} <= set(tools)
    assert {"--no-build-isolation", str(setup.LOCK)} <= set(packages)


PACKAGES = "".join(f" + package-{number}==1.0\n" for number in range(160))


@pytest.fixture
def installer(tmp_path: Path) -> Path:
    """A Python that says much, as uv does; it fails at `broken`."""
    python = tmp_path / "venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    (tmp_path / "said").write_text(PACKAGES)
    fails = "case $* in *broken*) echo 'no route to the registry'; exit 1;; esac\n"
    python.write_text(f"#!/bin/sh\ncat {tmp_path}/said\n{fails}")
    python.chmod(0o755)
    return python


def test_what_installers_say_is_in_the_log_alone(
    installer: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    setup._install(installer, setup.LOCK, setup.BUILD_LOCK)
    assert capfd.readouterr() == ("", "")
    assert (installer.parents[1] / "setup.log").read_text().count(PACKAGES) == 3


def test_why_an_installer_failed_is_told(installer: Path, tmp_path: Path) -> None:
    with pytest.raises(setup.SetupProblem) as problem:
        setup._install(installer, setup.LOCK, tmp_path / "broken.lock")
    lines = str(problem.value).splitlines()
    assert "no route to the registry" in lines[-2]
    assert lines[-1] == f"All of it: {installer.parents[1] / 'setup.log'}"
    assert len(lines) == setup.SHOWN + 2


def test_the_image_builds_with_nothing_from_the_registry() -> None:
    dockerfile = (setup.ROOT / "Dockerfile").read_text().replace("\\\n", " ")
    [tools, packages] = re.findall(r"pip install [^&\n]*", dockerfile)
    assert "--require-hashes --only-binary :all: -r requirements-build.lock" in tools
    assert "--require-hashes --no-build-isolation" in packages
    assert packages.split()[-2:] == ["-r", "requirements.lock"]
    assert "pip uninstall --yes setuptools wheel pip" in dockerfile


def test_taken_port_names_the_setting() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(PortProblem, match=f"Port {port} is taken.*TALLYBOARD_HTTP_PORT"):
            require_free("127.0.0.1", port, "TALLYBOARD_HTTP_PORT")
    require_free("127.0.0.1", free_port(), "TALLYBOARD_HTTP_PORT")


def test_address_that_is_not_ours_is_told() -> None:
    with pytest.raises(PortProblem, match=r"192\.0\.2\.1:80"):
        require_free("192.0.2.1", 80, "TALLYBOARD_HTTP_PORT")


def test_data_directory_that_is_a_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(checks.UpProblem, match=r"Cannot write to .*TALLYBOARD_DATA_DIR"):
        checks.check_disk(tmp_path / "file" / "data")


def test_second_copy_on_one_data_directory_is_refused(tmp_path: Path) -> None:
    with (
        checks.only_one(tmp_path),
        pytest.raises(checks.UpProblem, match=f"already runs.*process {os.getpid()}"),
        checks.only_one(tmp_path),
    ):
        pass
    with checks.only_one(tmp_path):
        pass


def test_web_port_that_is_taken_stops_the_start() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        settings = Settings(http_port=taken.getsockname()[1], kafka_port=free_port())
        with pytest.raises(PortProblem, match="TALLYBOARD_HTTP_PORT"):
            checks.check_machine(settings)
