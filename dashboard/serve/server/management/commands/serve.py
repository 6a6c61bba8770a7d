"""`manage.py serve`: pages, sockets and the tailer in one process, until SIGTERM."""

from __future__ import annotations

import gc
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from bus.base import Bus
from bus.follower import Follower
from config.logs import configure_logs
from dashboard.board.live import threads
from dashboard.board.live.live_view import live_view
from dashboard.board.live.tailer import Tailer
from dashboard.core.common import kafka
from dashboard.core.common.scenarios import scenarios, topics
from dashboard.core.states import stores
from dashboard.core.states.stores import stored_scenarios
from dashboard.operate.console import topic_copies
from dashboard.operate.console.topics import ViewError
from dashboard.serve.server.request_limits import TooFew, bounds_of, raise_limit

COLLECT_AFTER = (20_000, 20, 20)
"""The garbage collector's thresholds: new objects before a collection, and collections before older
objects are examined. A batch of records is thousands of objects with hardly any cycles, and all
boards wait for a collection.
"""


class Command(BaseCommand):
    """Serve the board on the configured address."""

    help = "Serve the board on the configured address until stopped."

    def handle(self, *_args: Any, **_options: Any) -> None:
        """Serve until SIGTERM or SIGINT.

        Raises CommandError if the address, or enough files for all connections, cannot be had, if
        the file of views declares none, or if the stores are configured for an unknown scenario.
        """
        from bus.kafka import KafkaBus
        from dashboard.serve.server.daphne import serve  # installs an event loop

        tallyboard = settings.TALLYBOARD
        configure_logs(tallyboard.log_level, "web")
        try:
            raise_limit(tallyboard.http_connections + tallyboard.sockets)
            stored_scenarios()
        except (TooFew, ValueError) as error:
            raise CommandError(str(error)) from None
        from dashboard.asgi import application  # lists the static files

        bus = KafkaBus(tallyboard.kafka_options())
        tailer = Follower(
            Tailer(bus, topics(), scenarios(), live_view(), replication=tallyboard.replication)
        )
        views = _views(bus)
        host, port = tallyboard.http_host, tallyboard.http_port
        # Objects loaded at start are never garbage. A collection that walks them all takes 50 ms of
        # processor time while requests wait.
        gc.collect()
        gc.freeze()
        gc.set_threshold(*COLLECT_AFTER)
        followers = (tailer, *views)
        starts = [kafka.start, *(each.start for each in followers), stores.start]
        failure = serve(application, host, port, bounds_of(tallyboard), starts)
        stores.stop()
        for each in reversed(followers):
            each.stop()
        kafka.stop()
        threads.close()
        if failure:
            raise CommandError(
                f"Cannot listen on {host}:{port}: {failure} "
                "Set TALLYBOARD_HTTP_PORT to a free port, or stop what uses this one."
            )


def _views(bus: Bus) -> list[Follower]:
    """Return the followers that keep this process's copies of the views. Raises CommandError."""
    try:
        return topic_copies.followers(bus)
    except ViewError as error:
        raise CommandError(str(error)) from None
