"""Every process keeps its files to its user, and names settings that are none."""

from __future__ import annotations

import ast
import os
import stat
import tempfile
from pathlib import Path

import pytest

from config import entry
from config.entry import (
    INTERNAL,
    NotPrivate,
    enter,
    make_private,
    renamed_settings,
    unknown_settings,
)
from ops.child import PARENT
from ops.leftovers import MARK

ROOT = Path(__file__).parents[3]
NOBODY = 65_534


def modes(folder: Path) -> dict[str, str]:
    """The rights of a folder and all in it, octal, by name."""
    paths = [folder, *folder.rglob("*")]
    return {path.name: oct(stat.S_IMODE(path.lstat().st_mode)) for path in paths}


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """A data directory as they were before: everybody may look into it."""
    made = tmp_path / "data"
    for folder in ("checkpoint/kernel", "broker/log", "logs", "spool/waf"):
        (made / folder).mkdir(parents=True)
    files = ("tallyboard.sqlite3", "tallyboard.sqlite3-wal", "secret-key", "demo-logins.json",
             "logs/web.log", "broker/log/0.log", "spool/waf/0.spool")  # fmt: skip
    for name in files:
        (made / name).write_text("k")
    for path in (made, *made.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return made


def test_a_data_directory_from_before_is_made_private_with_all_in_it(data_dir: Path):
    (data_dir / "elsewhere").symlink_to("/etc/hostname")
    assert make_private(data_dir) == 15
    assert set(modes(data_dir).values()) == {"0o700", "0o600", "0o777"}, "a link has no rights"
    assert make_private(data_dir, whole=True) == 0


def test_in_a_private_one_the_top_is_looked_at_each_time_and_all_of_it_when_asked(data_dir: Path):
    make_private(data_dir)
    for name in ("tallyboard.sqlite3", "logs/web.log"):
        (data_dir / name).chmod(0o644)
    assert make_private(data_dir) == 1
    assert make_private(data_dir, whole=True) == 1


def test_there_need_be_none(tmp_path: Path):
    assert make_private(tmp_path / "data") == 0


@pytest.mark.parametrize("also", [(), ("checkpoint",)])
def test_a_directory_that_serves_others_too_is_refused_and_left_alone(tmp_path: Path, also):
    for name in ("www", *also):
        (tmp_path / name).mkdir()
    tmp_path.chmod(0o755)
    before = modes(tmp_path)
    with pytest.raises(NotPrivate, match="TALLYBOARD_DATA_DIR to a directory for Tallyboard alone"):
        make_private(tmp_path)
    assert modes(tmp_path) == before


def test_an_empty_disk_is_no_such_directory(tmp_path: Path):
    (tmp_path / "lost+found").mkdir()
    tmp_path.chmod(0o755)
    make_private(tmp_path)
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o700


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_what_belongs_to_another_user_is_named_and_nothing_is_changed(data_dir: Path):
    spool = data_dir / "spool" / "waf"
    os.chown(spool, NOBODY, NOBODY)
    before = modes(data_dir)
    with pytest.raises(NotPrivate, match=f"^{spool}: belongs to nobody: have ") as refused:
        make_private(data_dir)
    assert "\n" not in str(refused.value)
    assert modes(data_dir) == before


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")
@pytest.mark.parametrize("mode", [0o700, 0o755])
def test_anothers_data_directory_is_refused_in_one_line(mode: int):
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "secret-key").touch()
        Path(folder).chmod(mode)
        assert as_nobody(Path(folder)).startswith(f"{folder}: belongs to root: have ")
        assert stat.S_IMODE(Path(folder).stat().st_mode) == mode


def as_nobody(data_dir: Path) -> str:
    """Return what a process of another user is told of a data directory."""
    out, into = os.pipe()
    if os.fork() == 0:
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        try:
            make_private(data_dir)
        except NotPrivate as problem:
            os.write(into, str(problem).encode())
        os._exit(0)
    os.close(into)
    os.wait()
    return os.read(out, 10_000).decode()


# ---- every entry point ----------------------------------------------------------------------

MAKE_WHAT_OTHERS_SHARE = {"ops/jars.py", "ops/class_archive.py", "ops/jars_lock.py", "ops/setup.py",
                          "ops/prerequisites.py", "ops/agents_wheel.py", "ops/release.py",
                          "streaming/spark/gateway.py", "streaming/job/cds_training.py",
                          "streaming/kernel/__main__.py"}  # fmt: skip
"""Archives, which hold no secret, and which other users of the machine may run."""
KEEP_NOTHING = {
    "ops/vulnerability_audit.py",
    "ops/child.py",
    "ops/executor.py",
    "ops/health.py",
    "ops/pictures.py",
    "ops/sbom.py",
    "ops/test.py",
}


def entry_points() -> list[Path]:
    """Modules that are run."""
    folders = ("agents", "dashboard", "ops", "streaming")
    paths = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    return [path for path in paths if 'if __name__ == "__main__"' in path.read_text()]


def called(path: Path) -> set[str]:
    tree = ast.parse(path.read_text())
    names = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call))
    return {name.id for name in names if isinstance(name, ast.Name)}


def test_every_entry_point_begins_alike():
    entry_calls = {str(path.relative_to(ROOT)): called(path) for path in entry_points()}
    others = MAKE_WHAT_OTHERS_SHARE | KEEP_NOTHING
    assert set(entry_calls) >= others
    assert {name for name, calls in entry_calls.items() if "enter" not in calls} == others
    assert "enter" in called(ROOT / "dashboard" / "settings.py"), "manage.py, the worker, the web"


# ---- settings that are none -----------------------------------------------------------------


def test_a_misspelt_setting_is_named_with_the_one_that_was_meant(tmp_path: Path):
    (tmp_path / ".env").write_text("TALLYBOARD_HTPPS=1\nTALLYBOARD_DEMO=0\nOTHER=1\n")
    given = {"TALLYBOARD_HTTP_PROT": "1", "tallyboard_http_port": "1", "TALLYBOARD_QUUX": "1"}
    lines = [line.partition(" is no setting and has no effect: ")
            for line in unknown_settings(given, tmp_path / ".env")]  # fmt: skip
    assert [(name, hint) for name, _, hint in lines] == [
        (f"TALLYBOARD_HTPPS ({tmp_path}/.env)", "did you mean TALLYBOARD_HTTPS?"),
        ("TALLYBOARD_HTTP_PROT (environment)", "did you mean TALLYBOARD_HTTP_PORT?"),
        ("TALLYBOARD_QUUX (environment)", "docs/configuration.md has the list."),
    ]


def test_what_the_product_itself_puts_into_the_environment_is_known():
    assert {MARK, PARENT} == INTERNAL
    assert unknown_settings(dict.fromkeys(INTERNAL, "1"), Path("none")) == []


def test_it_is_told_once_by_what_make_run_starts(tmp_path: Path, monkeypatch, capsys):
    monkeypatch.setenv("TALLYBOARD_HTPP_PORT", "8100")
    monkeypatch.setattr(os, "umask", lambda _mask: 0)
    enter()
    assert "did you mean TALLYBOARD_HTTP_PORT?" in capsys.readouterr().err
    monkeypatch.setenv(entry.SUPERVISED, "here")
    enter()
    assert capsys.readouterr().err == ""


def test_a_former_name_is_refused_with_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert renamed_settings({"TALLYBOARD_ERRAND_S": "60"}, tmp_path / ".env") == [
        "TALLYBOARD_ERRAND_S (environment) has a new name: TALLYBOARD_BATCH_QUERY_S"
    ]
    monkeypatch.setenv("TALLYBOARD_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("TALLYBOARD_ERRAND_MEMORY", "1g")
    with pytest.raises(SystemExit, match="TALLYBOARD_BATCH_QUERY_MEMORY"):
        enter()
