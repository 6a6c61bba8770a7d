"""`manage.py materialise`: runs the materialiser until SIGTERM."""

from __future__ import annotations

import signal
from threading import Event
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from bus.kafka import KafkaBus
from config.logs import configure_logs
from config.pulse import Pulse
from dashboard.core.scenarios import scenarios, topics
from dashboard.core.times import now_ms
from dashboard.materialiser.worker import Materialiser


class Command(BaseCommand):
    """The command that writes the sink topics into the database, until it is stopped."""

    help = "Writes the sink topics into the database, until it is told to stop."

    def handle(self, *_args: Any, **_options: Any) -> None:
        """Run until SIGTERM or SIGINT."""
        tallyboard = settings.TALLYBOARD
        configure_logs(tallyboard.log_level, "materialiser")
        stop = Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
        bus = KafkaBus(tallyboard.kafka_options())
        worker = Materialiser(
            bus, topics(), scenarios(), now_ms, replication=tallyboard.replication
        )
        worker.run(stop, Pulse(tallyboard.data_dir, "materialiser").beat)
