"""Which tests a change chooses, in a repository made for it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ops import changed_tests
from ops.changed_tests import affected_tests

FILES = {
    "tests/unit/wire/test_keys.py": "from wire.keys import signed\n",
    "tests/unit/wire/test_sink.py": "from support.records import record\n",
    "tests/support/records.py": "import wire.sink\n",
    "tests/unit/docs/test_rest.py": "PAGE = 'docs/rest.md'\n",
    "tests/web/board/test_board.py": "import json\n",
    "tests/web/core/test_access.py": "import json\n",
    "tests/web/notify/test_rotas.py": "import json\n",
    "tests/integration/spark/test_kernel_replay.py": "import json\n",
}
PAGES = ["tests/web/core/test_access.py"]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository of these tests, all of them committed."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "Begin"]):
        identity = ["-c", "user.name=ada", "-c", "user.email=ada@example.org"]
        subprocess.run(["git", "-C", tmp_path, *identity, *command], check=True)
    monkeypatch.setattr(changed_tests, "EVERY_PAGE", tuple(PAGES))
    return tmp_path


@pytest.mark.parametrize(
    ("changed", "chosen"),
    [
        ("docs/other.md", []),
        ("docs/rest.md", ["tests/unit/docs/test_rest.py"]),
        ("wire/keys.py", ["tests/unit/wire/test_keys.py"]),
        ("wire/sink.py", ["tests/unit/wire/test_sink.py"]),
        ("tests/support/records.py", ["tests/unit/wire/test_sink.py"]),
        ("tests/unit/wire/test_keys.py", ["tests/unit/wire/test_keys.py"]),
        ("templates/board/board.html", ["tests/web/board/test_board.py", *PAGES]),
        ("streaming/kernel/Fold.java", ["tests/integration/spark/test_kernel_replay.py"]),
    ],
)
def test_a_change_chooses_what_it_can_break(root: Path, changed: str, chosen: list[str]) -> None:
    file = root / changed
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{FILES.get(changed, '')}\n")
    assert set(chosen) <= set(found := affected_tests(root))
    if changed.startswith(("docs", "templates", "streaming", "tests/unit")):
        assert found == sorted(chosen)


def test_nothing_changed_chooses_nothing(root: Path) -> None:
    assert affected_tests(root) == []


def test_what_imports_a_changed_module_through_others_is_chosen() -> None:
    affected = changed_tests.affected_modules(["domain/names.py"])
    assert {"domain.names", "domain.fold", "streaming.fold.processor"} <= affected
