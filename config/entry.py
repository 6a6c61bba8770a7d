"""What every entry point does first: read the settings, and make the process's files private.

Libraries and tests that only read settings call `load_settings`, and so does code that creates
archives which other users of the machine may share.
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

# Rights that our files and directories grant nobody: all rights of the group and of others.
PRIVATE = 0o077
# Set in the environment of every process started by `make run`.
SUPERVISED = f"{PREFIX}INSTANCE"
# Environment variables that have the prefix of settings but are none.
INTERNAL = frozenset((SUPERVISED, f"{PREFIX}PARENT"))

# Files that identify a directory as a data directory: one of them is enough.
MARKS = frozenset(
    ("secret-key", "data-key", "spark-secret", "command-keys.json", "demo-logins.json", "run.lock",
     "supervisord.conf", "supervisord.pid", "supervisor.sock", "tallyboard.sqlite3", "push-key.pem",
     "stores-secret")
)  # fmt: skip
# Other entries that a data directory may contain.
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
        "reconcile",
        "snapshots",
        "spark",
        "spool",
        "stores",
    )
)
# Present at the top of a newly created disk.
OF_THE_DISK = "lost+found"


class NotPrivate(Exception):
    """Others can access the data directory, and this cannot be fixed here; says what to do."""


def enter(*, whole: bool = False) -> Settings:
    """Return the settings, and make the data directory and the process's files private to its user.

    whole: check everything in the directory, even if it is private already. Reports unknown
    settings on standard error, unless `make run` has done so. Exits with a message for a wrong
    value, a setting under a former name, or a data directory that cannot be made private.
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
    """Set another umask within the context."""
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


# ---- the data directory -------------------------------------------------------------------


def make_private(data_dir: Path, *, whole: bool = False) -> int:
    """Remove others' rights from the data directory and everything in it; return from how many.

    In a directory that is already private, only its top level is checked, unless `whole` is set.
    Raises NotPrivate if this is not possible, or if the directory is not Tallyboard's alone.
    """
    try:
        if _narrowed(data_dir):
            _ = next(data_dir.iterdir(), None)  # raises PermissionError if it is not ours
            return sum(map(_narrow, _below(data_dir, deep=whole)))
        _check_ours(data_dir)
        data_dir.chmod(stat.S_IMODE(data_dir.stat().st_mode) & ~PRIVATE)
        return 1 + sum(map(_narrow, _below(data_dir)))
    except FileNotFoundError:  # it does not exist yet
        return 0
    except PermissionError:
        raise NotPrivate(_belongs_to_another(data_dir, data_dir)) from None


def _narrowed(path: Path) -> bool:
    return not path.stat().st_mode & PRIVATE


def _check_ours(data_dir: Path) -> None:
    """Raise NotPrivate for a directory that also serves others, like /tmp, or other users."""
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
    """Remove others' rights from a file or directory, and return whether there were any.

    Another user's files stay as they are: in a private directory nobody else can reach them.
    """
    with suppress(FileNotFoundError, PermissionError):  # for example, logs rotated meanwhile
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
    except PermissionError:  # it is in another user's directory
        return "another user"


def _name(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user {number}"


# ---- settings that are none ---------------------------------------------------------------

RENAMED = {"ERRAND_MEMORY": "BATCH_QUERY_MEMORY", "ERRAND_S": "BATCH_QUERY_S"}
"""Current setting names by former ones, without the prefix."""


def renamed_settings(
    environment: Mapping[str, str] | None = None, file: Path = Path(".env")
) -> list[str]:
    """Return a line for each setting given under a former name."""
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
    """Return a line for each name that looks like a setting but is none.

    The line names the most similar setting.
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
