"""What tests of every kind share."""

from __future__ import annotations

import atexit
import gc
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import settings
from pytest_django import DjangoDbBlocker

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]


def isolate() -> None:
    """Forget this user's own settings, and keep what Django writes out of the data directory."""
    for name in [name for name in os.environ if name.startswith("TALLYBOARD_")]:
        del os.environ[name]
    scratch = tempfile.mkdtemp(prefix="tallyboard-tests-")
    atexit.register(shutil.rmtree, scratch, ignore_errors=True)
    os.environ["TALLYBOARD_DATA_DIR"] = scratch
    os.environ["DJANGO_SETTINGS_MODULE"] = "dashboard.settings"
    assert settings.INSTALLED_APPS  # pytest-django sets up Django only when settings are loaded


isolate()
gc.set_threshold(50_000, 20, 50)  # modules and tests stay: to look at them less saves a fifth

from bus.memory import MemoryBus  # noqa: E402
from support.run.selection import mark_extensive, register_profiles  # noqa: E402
from support.run.shared_broker import shared_broker  # noqa: E402
from support.run.stack import EmbeddedBroker  # noqa: E402
from support.web.database import migrated_by_copy  # noqa: E402

register_profiles()
MemoryBus.longest_wait_s = 0.01  # what is played is there: to wait for more costs minutes in all


def pytest_collection_finish() -> None:
    """Have the garbage collector pass over modules and tests, which stay to the end."""
    gc.freeze()


@pytest.hookimpl(tryfirst=True)  # pytest deselects by marks in the same hook
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the cases that a plain run leaves out."""
    mark_extensive(items)


@pytest.fixture(scope="session")
def django_db_modify_db_settings(django_db_modify_db_settings: None) -> Iterator[None]:
    """Before the database is set up: migrating it means to copy it."""
    with migrated_by_copy():
        yield


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> None:
    """The tests' database, whose audit may be emptied after a test with transactions of its own."""
    from django.db import connection

    from dashboard.core.audit import hash_chain

    with django_db_blocker.unblock():
        hash_chain.remove(connection)


@pytest.fixture(scope="session")
def session_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that all workers of the session share."""
    own = tmp_path_factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


@pytest.fixture(scope="session")
def jars_dir() -> Path:
    """The Java archives of this checkout, fetched and compiled."""
    from ops.jars import fetch
    from ops.kernel_build import build

    fetch(ROOT / ".jars", print)
    build(ROOT / ".jars")
    return ROOT / ".jars"


@pytest.fixture(scope="session")
def broker(
    session_folder: Path, tmp_path_factory: pytest.TempPathFactory, jars_dir: Path
) -> Iterator[EmbeddedBroker]:
    """A real broker for the whole session; `.bootstrap` is its address, `.settings()` fits it.

    Tests that share it, of all workers, keep apart by topic prefix.
    """
    with shared_broker(session_folder, tmp_path_factory.mktemp("broker"), jars_dir) as broker:
        yield broker
