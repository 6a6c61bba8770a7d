"""Setting up: the lock file, the archives' pins, clear messages."""

from __future__ import annotations

import os
import re
import socket
import tomllib
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
