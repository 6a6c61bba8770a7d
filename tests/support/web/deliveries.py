"""Deliveries in the test's own thread, which sees what its transaction has written."""

from __future__ import annotations

from dashboard.core.common.times import Clock, now_ms
from dashboard.notify.notifications.deferral import carry_deferred
from dashboard.notify.notifications.delivery import deliver_to, receivers_to_try


def deliver(clock: Clock = now_ms) -> bool:
    """Deliver what is due to each receiver, one after the other, as the worker does. Return False:
    that was all."""
    while carry_deferred(clock):
        pass
    for receiver in receivers_to_try(clock()):
        while deliver_to(receiver, clock):
            pass
    return False
