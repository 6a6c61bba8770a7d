"""What librdkafka says went wrong, as errors of the bus."""

# librdkafka's own error codes begin with an underscore.
# ruff: noqa: SLF001

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import confluent_kafka as ck

from bus.base import BusError, TooLarge, Unavailable

log = logging.getLogger("bus.kafka")

_COMPLAIN_EVERY_S = 30.0
_PASSING = {
    ck.KafkaError._TRANSPORT,
    ck.KafkaError._ALL_BROKERS_DOWN,
    ck.KafkaError._TIMED_OUT,
    ck.KafkaError._TIMED_OUT_QUEUE,
    ck.KafkaError._MSG_TIMED_OUT,
    ck.KafkaError._RESOLVE,
    ck.KafkaError._PURGE_QUEUE,
    ck.KafkaError._PURGE_INFLIGHT,
    ck.KafkaError._FATAL,
    ck.KafkaError.REQUEST_TIMED_OUT,
    ck.KafkaError.COORDINATOR_NOT_AVAILABLE,
    ck.KafkaError.NOT_CONTROLLER,
    ck.KafkaError.NOT_LEADER_FOR_PARTITION,  # right after a topic was made, or has moved
    ck.KafkaError.LEADER_NOT_AVAILABLE,
    # The client's word of who leads is older or newer than the broker's: one of them learns soon.
    ck.KafkaError.FENCED_LEADER_EPOCH,
    ck.KafkaError.UNKNOWN_LEADER_EPOCH,
    ck.KafkaError.OFFSET_NOT_AVAILABLE,
}


def bus_error(error: ck.KafkaError) -> BusError:
    """Return librdkafka's error as one of ours."""
    code, words = error.code(), f"{error.name()}: {error.str()}"
    if code == ck.KafkaError.MSG_SIZE_TOO_LARGE:
        return TooLarge(words)
    if code in _PASSING or error.retriable() or error.fatal():
        return Unavailable(words)
    return BusError(words)


def raised(error: ck.KafkaException) -> BusError:
    """Return the exception that librdkafka raised, as one of ours."""
    return bus_error(error.args[0])


def complaint() -> Callable[[ck.KafkaError], None]:
    """Return a callback that logs a connection error now and then.

    librdkafka recovers from them by itself.
    """
    quiet_until = 0.0

    def complain(error: ck.KafkaError) -> None:
        nonlocal quiet_until
        if time.monotonic() >= quiet_until:
            quiet_until = time.monotonic() + _COMPLAIN_EVERY_S
            log.warning("kafka: %s; it goes on by itself", error.str())

    return complain


def result(future: Future[Any], timeout_s: float) -> Any:
    """Return what an admin request answered. Raises BusError."""
    try:
        return future.result(timeout_s + 1)
    except ck.KafkaException as error:
        raise raised(error) from error
    except TimeoutError as error:
        raise Unavailable(f"no answer from Kafka within {timeout_s:g} s") from error
