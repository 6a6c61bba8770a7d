"""`manage.py serve`: pages, sockets and the tailer in one process, until SIGTERM."""

from __future__ import annotations

import fcntl
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.staticfiles.finders import get_finders
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError

from config.logs import configure_logs
from dashboard.live.process import live_view
from dashboard.live.tailer import Tailer
from dashboard.scenarios import scenarios, topics


class Command(BaseCommand):
    """Serves the board on the configured address."""

    help = "Serves the board on the configured address, until it is told to stop."

    def handle(self, *_args: Any, **_options: Any) -> None:
        """Serve until SIGTERM or SIGINT. Raises CommandError when the address is not to be had."""
        from bus.kafka import KafkaBus
        from dashboard.live.server import serve  # installs an event loop

        tallyboard = settings.TALLYBOARD
        configure_logs(tallyboard.log_level, "web")
        collect_static()
        from dashboard.asgi import application  # reads the static files' manifest

        bus = KafkaBus(tallyboard.kafka_options())
        tailer = Tailer(bus, topics(), scenarios(), live_view(), replication=tallyboard.replication)
        host, port = tallyboard.http_host, tallyboard.http_port
        failure = serve(application, host, port, tailer.start)
        tailer.stop()
        if failure:
            raise CommandError(
                f"Cannot listen on {host}:{port}: {failure} "
                "Set TALLYBOARD_HTTP_PORT to a free port, or stop what uses this one."
            )


def collect_static() -> None:
    """Gather the static files under their hashed names, where any is newer than the last time.

    Copies that run side by side share the result: one gathers, the others wait for it.
    """
    if _gathered():
        return
    root = Path(settings.STATIC_ROOT)
    root.mkdir(parents=True, exist_ok=True)
    with (root / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not _gathered():
            call_command("collectstatic", interactive=False, verbosity=0)


def _gathered() -> bool:
    manifest = Path(settings.STATIC_ROOT) / "staticfiles.json"
    if not manifest.exists():
        return False
    made = manifest.stat().st_mtime
    files = (
        Path(storage.path(name))
        for finder in get_finders()
        for name, storage in finder.list([])
        if hasattr(storage, "path")
    )
    return all(file.stat().st_mtime <= made for file in files)
