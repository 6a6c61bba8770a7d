"""What every entry point does first: settings are read, and what the process keeps is its user's.

Libraries and tests that only read settings call `load_settings`; so does what makes archives that
other users of the machine may share.
"""

from __future__ import annotations

import os
import pwd
import stat
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from pathlib import Path

from dotenv import dotenv_values

from config.secret_files import SUFFIX
from config.settings import PREFIX, SECRETS, Settings, load_settings

# What a file or directory of ours grants nobody: all rights of its group and of others.
PRIVATE = 0o077
# In the environment of every process that `make run` has started.
SUPERVISED = f"{PREFIX}INSTANCE"
# Names in the environment that begin as settings do and are none.
INTERNAL = frozenset((SUPERVISED, f"{PREFIX}PARENT"))

# Files by one of which a data directory is known as such.
MARKS = frozenset(
    ("secret-key", "data-key", "spark-secret", "command-keys.json", "demo-logins.json", "run.lock",
     "supervisord.conf", "supervisord.pid", "supervisor.sock", "tallyboard.sqlite3", "push-key.pem",
     "stores-secret")
)  # fmt: skip
# What a data directory may hold besides.
FOLDERS = frozenset(
    (
        "broker",
        "celery",
        "checkpoint",
        "batch-query",
        "logs",
        "mail",
        "overlay",
        "pipelines",
        "pulse",
        "snapshots",
        "spark",
        "spool",
        "stores",
    )
)
# What lies at the top of a disk that has just been made.
OF_THE_DISK = "lost+found"


class NotPrivate(Exception):
    """Others may look into the data directory, and that cannot be mended here; says what to do."""


def enter(*, whole: bool = False) -> Settings:
    """Return the settings, for a process whose files, as its data directory, are its user's alone.

    whole: look at all in the directory, if it is private too. Names unknown settings on
    standard error, unless `make run` has done so. Ends the process with one message for a wrong
    value, a setting of a former name, or a data directory that cannot be made private.
    """
    os.umask(PRIVATE)
    settings = load_settings()
    if renamed := renamed_settings():
        raise SystemExit("\n".join(renamed))
    if SUPERVISED not in os.environ:
        for line in unknown_settings():
            print(line, file=sys.stderr)
    try:
        narrowed = make_private(settings.data_dir, whole=whole)
    except NotPrivate as problem:
        raise SystemExit(str(problem)) from None
    if narrowed:
        files = f"{narrowed} file{'' if narrowed == 1 else 's'}"
        print(f"{settings.data_dir}: made {files} private (0600)", file=sys.stderr)
    return settings


@contextmanager
def umask(mask: int) -> Iterator[None]:
    """Set another umask for what is written meanwhile."""
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


# ---- the data directory -------------------------------------------------------------------


def make_private(data_dir: Path, *, whole: bool = False) -> int:
    """Take the rights of others from the data directory and all in it; return from how many.

    In a directory that is private already only its top is looked at, unless `whole`.
    Raises NotPrivate where that cannot be done, or the directory is not Tallyboard's alone.
    """
    try:
        if _narrowed(data_dir):
            _ = next(data_dir.iterdir(), None)  # raises PermissionError where it is not ours
            return sum(map(_narrow, _below(data_dir, deep=whole)))
        _check_ours(data_dir)
        data_dir.chmod(stat.S_IMODE(data_dir.stat().st_mode) & ~PRIVATE)
        return 1 + sum(map(_narrow, _below(data_dir)))
    except FileNotFoundError:  # there is none yet
        return 0
    except PermissionError:
        raise NotPrivate(_belongs_to_another(data_dir, data_dir)) from None


def _narrowed(path: Path) -> bool:
    return not path.stat().st_mode & PRIVATE


def _check_ours(data_dir: Path) -> None:
    """Raise NotPrivate for a directory that also serves others, as /tmp does, or other users."""
    names = {path.name for path in data_dir.iterdir() if not path.name.startswith(".")}
    names.discard(OF_THE_DISK)
    if not (names <= MARKS | FOLDERS or names & MARKS):
        raise NotPrivate(
            f"{data_dir}: others may look into it, and it holds more than Tallyboard's data: set "
            f"{PREFIX}DATA_DIR to a directory for Tallyboard alone, such as {data_dir}/tallyboard."
        )
    owners = {data_dir.stat().st_uid, os.geteuid()}
    for entry in _below(data_dir):
        with suppress(FileNotFoundError):
            foreign = entry.stat(follow_symlinks=False).st_uid not in owners
            if foreign and entry.name != OF_THE_DISK:
                raise NotPrivate(_belongs_to_another(Path(entry), data_dir))


def _belongs_to_another(path: Path, data_dir: Path) -> str:
    return (
        f"{path}: belongs to {_owner(path)}: have {data_dir} and all in it belong to "
        f"{_name(os.geteuid())} alone, or set {PREFIX}DATA_DIR to another directory."
    )


def _narrow(entry: os.DirEntry[str]) -> bool:
    """Take the rights of others from one file or directory; whether there were any.

    What belongs to another user stays as it is: nobody else gets to it in a private directory.
    """
    with suppress(FileNotFoundError, PermissionError):  # as logs that are rotated meanwhile
        mode = entry.stat(follow_symlinks=False).st_mode
        if not stat.S_ISLNK(mode) and mode & PRIVATE:
            Path(entry).chmod(stat.S_IMODE(mode) & ~PRIVATE)
            return True
    return False


def _below(folder: str | Path, *, deep: bool = True) -> Iterator[os.DirEntry[str]]:
    with suppress(FileNotFoundError, PermissionError), os.scandir(folder) as entries:
        for entry in entries:
            yield entry
            if deep and entry.is_dir(follow_symlinks=False):
                yield from _below(entry.path)


def _owner(path: Path) -> str:
    try:
        return _name(path.lstat().st_uid)
    except PermissionError:  # it lies in another user's directory
        return "another user"


def _name(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user {number}"


# ---- settings that are none ---------------------------------------------------------------

RENAMED = {"ERRAND_MEMORY": "BATCH_QUERY_MEMORY", "ERRAND_S": "BATCH_QUERY_S"}
"""Names of the present by former ones, without the prefix."""


def renamed_settings(
    environment: Mapping[str, str] | None = None, file: Path = Path(".env")
) -> list[str]:
    """Return a line for each setting that is given under its former name."""
    return [
        f"{name} ({where}) has a new name: {PREFIX}{RENAMED[name.upper().removeprefix(PREFIX)]}"
        for name, where in _given(environment, file)
        if name.upper().removeprefix(PREFIX) in RENAMED
    ]


def _given(environment: Mapping[str, str] | None, file: Path) -> list[tuple[str, str]]:
    """Return the names that look like settings, sorted, each with where it is given."""
    origins = dict.fromkeys(dotenv_values(file), str(file))
    origins |= dict.fromkeys(os.environ if environment is None else environment, "environment")
    return [each for each in sorted(origins.items()) if each[0].upper().startswith(PREFIX)]


def unknown_settings(
    environment: Mapping[str, str] | None = None, file: Path = Path(".env")
) -> list[str]:
    """Return a line for each name that looks like a setting and is none.

    The line names the nearest setting that is one.
    """
    known = {name.upper() for name in Settings.model_fields}
    known |= {f"{name.upper()}{SUFFIX}" for name in SECRETS}
    return [
        _unknown(name, where, known)
        for name, where in _given(environment, file)
        if name not in INTERNAL and name.upper().removeprefix(PREFIX) not in known
    ]


def _unknown(name: str, where: str, known: set[str]) -> str:
    near = get_close_matches(name.upper().removeprefix(PREFIX), known, 1)
    hint = f"did you mean {PREFIX}{near[0]}?" if near else "docs/configuration.md has the list."
    return f"{name} ({where}) is no setting and has no effect: {hint}"
