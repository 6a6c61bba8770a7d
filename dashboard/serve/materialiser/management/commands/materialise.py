"""`manage.py materialise`: run the materialiser until SIGTERM."""

from __future__ import annotations

import signal
from threading import Event
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.utils.module_loading import import_string

from bus.follower import Follower
from bus.kafka import KafkaBus
from config.logs import configure_logs
from config.pulse import Pulse
from dashboard.core.common.scenarios import scenarios, topics
from dashboard.core.common.sql import register_adapters
from dashboard.core.common.times import now_ms
from dashboard.core.states.stores import CacheKeeper, configured
from dashboard.serve.materialiser.worker import Materialiser, enlarge_memory, relax_collector

READERS = ("dashboard.retail.ingestion.InvoiceReader", "dashboard.retail.ingestion.MilestoneReader")
"""Readers from the packages; each follows its own topics."""


class Command(BaseCommand):
    """Write the sink topics into the database until stopped."""

    help = "Write the sink topics into the database until stopped."

    def handle(self, *_args: Any, **_options: Any) -> None:
        """Run until SIGTERM or SIGINT.

        Raises CommandError if the stores are configured for an unknown scenario.
        """
        tallyboard = settings.TALLYBOARD
        configure_logs(tallyboard.log_level, "materialiser")
        enlarge_memory()
        stop = Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
        bus = KafkaBus(tallyboard.kafka_options())
        worker = Materialiser(
            bus,
            topics(),
            scenarios(),
            now_ms,
            replication=tallyboard.replication,
            beat=Pulse(tallyboard.data_dir, "materialiser").beat,
        )
        keeper = _cache_keeper(bus)
        if keeper is not None:
            keeper.start()
        kinds = map(import_string, READERS)
        readers = [Follower(kind(bus, topics(), now_ms), stop) for kind in kinds]
        for reader in readers:
            reader.start()
        register_adapters()
        relax_collector()
        Follower(worker, stop).run()
        for reader in readers:
            reader.stop()
        if keeper is not None:
            keeper.stop()


def _cache_keeper(bus: KafkaBus) -> CacheKeeper | None:
    """Return the cache keeper if a cache is configured. Raises CommandError."""
    try:
        return CacheKeeper(bus) if configured() else None
    except ValueError as error:
        raise CommandError(str(error)) from None
