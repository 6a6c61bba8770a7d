"""The bench of a standby: its rows."""

from __future__ import annotations

from bench import standby
from bench.recovery import Recovered, Size


def test_a_take_over_counts_by_its_slowest_kill_and_beside_a_start() -> None:
    runs = [
        standby.TakenOver("kernel", 10, 0.2, 0.4, state, cpu, 800)
        for state, cpu in ((1.0, 1.0), (1.6, 1.4), (1.2, 2.0))
    ]
    rows = standby.rows_of(runs, [Recovered("kernel", 10, None, 4.0, 9.0)], Size(10, 2.5))
    assert [row.figures["kernel"] for row in rows] == [1.6, 0.2, 0.4, 1.4, 800, 9.0]
    assert [row.target for row in rows] == [2.5, None, None, None, None, None]
