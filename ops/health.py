"""`python -m ops.health NAME`: whether a process of this data directory is alive; for
containers."""

from __future__ import annotations

import sys
import urllib.error
import urllib.request

from config.pulse import age_s
from config.settings import Settings, load_settings

# Largest age of a process's last heartbeat, s; a minute for processes not listed here.
PATIENCE_S = {
    "job": 15.0,
    "materialiser": 60.0,
    "worker": 30.0,
    "notifier": 30.0,
    "beat": 30.0,
    "simulator": 60.0,
}
# Processes that answer on a port.
ASKED = ("web", "target")
TIMEOUT_S = 4.0


def process_problem(settings: Settings, name: str) -> str:
    """Return what is wrong with the process, in one line; empty if it is alive."""
    return _silence(settings, name) if name in ASKED else _stillness(settings, name)


def _stillness(settings: Settings, name: str) -> str:
    kind = "job" if name.removeprefix("job-") in settings.jobs else name
    age, most = age_s(settings.data_dir, name), PATIENCE_S.get(kind, 60.0)
    if age is None:
        return f"{name} has given no sign of life yet"
    return "" if age <= most else f"{name} gave its last sign of life {age:.0f} s ago"


def _silence(settings: Settings, name: str) -> str:
    base = settings.local_url
    url = f"{base}/healthz"
    if name == "target":
        url = f"{base.rpartition(':')[0]}:{settings.target}/"
    request = urllib.request.Request(url, headers={"Host": _host(settings)})  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S):  # noqa: S310
            return ""
    except OSError as error:
        return f"{name} does not answer on {url}: {error}"


def _host(settings: Settings) -> str:
    """Return a host name that the web server accepts."""
    first = settings.allowed_hosts.split(",")[0].strip()
    return "localhost" if first in ("", "*") else first.removeprefix(".")


def main() -> None:
    """Exit with 0 if the process is alive, else with 1 and the reason on standard error."""
    if len(sys.argv) != 2:
        sys.exit("usage: python -m ops.health NAME")
    if problem := process_problem(load_settings(), sys.argv[1]):
        sys.exit(f"health: {problem}")


if __name__ == "__main__":
    main()
