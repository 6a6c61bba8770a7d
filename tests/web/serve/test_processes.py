"""Commands of the product as processes of their own: files, settings, and what they print."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def run(*arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """Run Python as a shell would, with these settings of the product."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith("TALLYBOARD_")}
    given = {f"TALLYBOARD_{name}": text for name, text in settings.items()}
    return subprocess.run(
        [sys.executable, *arguments], env=kept | given, cwd=ROOT,
        capture_output=True, text=True, timeout=100, check=False, umask=0o022,
    )  # fmt: skip


def rights_of_others(folder: Path) -> set[int]:
    """Return the rights that group and others have to a folder and to all in it."""
    return {stat.S_IMODE(path.lstat().st_mode) & 0o077 for path in (folder, *folder.rglob("*"))}


def test_what_a_command_makes_is_for_its_user_alone(tmp_path: Path):
    made = tmp_path / "new" / "data"
    done = run("manage.py", "prepare", DATA_DIR=str(made))
    assert done.returncode == 0, done.stderr
    names = {path.name for path in made.rglob("*")}
    assert {"tallyboard.sqlite3", "secret-key", "demo-logins.json"} <= names
    assert rights_of_others(made) == {0}


def test_a_running_copy_is_asked_only_once_its_directory_is_private(tmp_path: Path):
    data = tmp_path / "data"
    (data / "logs").mkdir(parents=True)
    for name in ("tallyboard.sqlite3", "secret-key", "logs/web.log"):
        (data / name).write_text("k")
    for path in (data, *data.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    done = run("-m", "ops.control", "status", DATA_DIR=str(data))
    assert done.stderr.splitlines()[0] == f"{data}: made 5 files private (0600)"
    assert rights_of_others(data) == {0}


@pytest.mark.parametrize(
    ("name", "more"),
    [("SCENARIOS", {}), ("PROBES", {}), ("KAFKA_CA_FILE", {"KAFKA_BOOTSTRAP": "k:1"})],
)
def test_a_file_that_is_missing_is_named_in_one_line(
    tmp_path: Path, name: str, more: dict[str, str]
):
    wrong = {name: str(tmp_path / "nowhere"), "DATA_DIR": str(tmp_path / "data"), **more}
    done = run("-m", "ops.up", **wrong)
    assert done.returncode == 1
    assert done.stderr.startswith(f"tallyboard: TALLYBOARD_{name}: {tmp_path}/nowhere: cannot be ")
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "data").exists()


def test_a_command_logs_to_standard_error(tmp_path: Path):
    """So `TOKEN=$(manage.py token operator)` holds the token, and not what is audited of it."""
    text = "import sys, manage; sys.argv = ['manage.py', 'version']; manage.main(); "
    text += "import structlog; structlog.get_logger('audit').info('token issued')"
    done = run("-c", text, DATA_DIR=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "token issued" in done.stderr
    assert "token issued" not in done.stdout


def test_a_plain_run_takes_neither_trials_nor_what_is_extensive(tmp_path: Path):
    marks = {"a": "long", "b": "extensive", "c": "slow"}
    tests = [f"@pytest.mark.{mark}\ndef test_{name}(): ...\n" for name, mark in marks.items()]
    file = tmp_path / "test_marks.py"
    file.write_text("import pytest\n" + "".join(tests))
    plugins = ("django", "playwright", "schemathesis", "hypothesispytest", "xdist")
    without = [word for name in plugins for word in ("-p", f"no:{name}")]
    here = ["-c", str(ROOT / "pyproject.toml"), "--collect-only", "-q"]
    done = run("-m", "pytest", *here, *without, str(file))
    assert re.findall(r"::(test_\w+)", done.stdout) == ["test_c"]
    assert "1/3 tests collected (2 deselected)" in done.stdout
