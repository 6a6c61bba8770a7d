"""Requests to the job without a valid signature: recognised, and set aside."""

from __future__ import annotations

import logging
from collections.abc import Callable

from bus.base import Bus, BusError, Message
from wire.keys import KeyFile
from wire.signature import UNSIGNED, Trust
from wire.sink import DeadRecord, encode_dead_letter
from wire.topics import Topics

log = logging.getLogger("streaming.request_auth")


class RequestAuthenticator:
    """Tells asks that count from others, which become dead letters.

    They are neither answered nor remembered: else somebody could take an ask's id before it comes.
    """

    def __init__(
        self, bus: Bus, topics: Topics, keys: KeyFile, demands: Callable[[], bool]
    ) -> None:
        """demands: whether an ask without a signature is refused too; a wrong one always is."""
        self._bus, self._letters, self._demands = bus, topics.dead_letters, demands
        self._trust = Trust(topics.control, keys.ring)

    def passes(self, message: Message) -> bool:
        """Return whether an ask counts; one that does not is set aside. Raises KeysProblem."""
        fault = self._trust.fault(message.key, message.value or b"", message.timestamp)
        if fault is None or (fault == UNSIGNED and not self._demands()):
            return True
        log.warning("%s at offset %d is refused: %s", message.topic, message.offset, fault)
        self._set_aside(message, fault)
        return False

    def _set_aside(self, message: Message, fault: str) -> None:
        place = (message.topic, message.partition, message.offset, message.timestamp)
        headers = tuple((name, value or b"") for name, value in message.headers)
        dead = DeadRecord(fault, *place, message.key, message.value, headers)
        key, value, letter_headers = encode_dead_letter(dead)
        producer = self._bus.producer(linger_ms=0)
        try:
            producer.send_and_wait(self._letters, key, value, headers=letter_headers)
        except BusError as error:
            log.warning("a refused ask is no dead letter: %s", error)
        finally:
            producer.close()
