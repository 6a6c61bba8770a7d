"""The thread that reads lines of invoices and their points from Kafka into the database."""

from __future__ import annotations

from collections.abc import Callable

from bus.base import Bus
from dashboard.invoices.ingestion import take_in
from dashboard.states.topic_reader import TopicReader
from wire.topics import Topics


class InvoiceReader(TopicReader):
    """Reads both topics."""

    def __init__(self, bus: Bus, topics: Topics, clock: Callable[[], int]) -> None:
        """clock: returns Unix ms."""
        read = [topics.invoice_lines, topics.loyalty]
        super().__init__(bus, "invoices", read, lambda messages: take_in(messages, topics, clock()))
