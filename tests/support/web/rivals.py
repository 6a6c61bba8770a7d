"""Two materialisers write the same partitions at once; what the board then has, as JSON.

Run as a program by tests of PostgreSQL: `python tests/support/web/rivals.py`.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import sys
from collections import Counter
from pathlib import Path
from threading import Barrier, Thread
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]
START = 1_790_000_000_000
STATES = ("under-attack", "clear", "suspicious")


def main() -> None:
    """Play a job, let two write what it says, look."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "dashboard.settings"
    import django

    django.setup()
    from support.web.database import migrate

    migrate()
    job = played()
    messages = read_all(job)
    barrier = Barrier(2)
    threads = [Thread(target=rival, args=(n, barrier, messages, job.scenarios)) for n in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(json.dumps(seen()))


def played() -> Any:
    """A job that has told of thirty assets, some purged and back again."""
    import uuid

    from bus.memory import MemoryBus
    from domain.records import Command, Report
    from domain.scenario_parser import load_scenarios
    from support.kafka.sinks import PlayedJob

    clock, source = itertools.count(START, 700), random.Random(5)
    scenarios = load_scenarios(ROOT / "scenarios.toml", demo=True)
    job = PlayedJob(MemoryBus(lambda: next(clock)), scenarios.values())
    for number in range(1_500):
        asset = f"Site {source.randrange(30)}%_'"
        if number % 20:
            agent = f"waf-{source.randrange(3)}"
            job.put("attack", Report(asset, agent, source.choice(STATES)))
        else:
            id_ = str(uuid.UUID(int=source.getrandbits(128)))
            job.put("attack", Command("purge", asset, id_, "olga", "gone"))
    job.run()
    return job


def read_all(job: Any) -> list[Any]:
    """Everything in the states topic."""
    edges = job.bus.offsets([job.topics.states("attack")])
    reader = job.bus.reader({place: begin for place, (begin, _) in edges.items()})
    messages: list[Any] = []
    while polled := reader.poll(0, 1_000):
        messages += polled
    return messages


def rival(number: int, barrier: Barrier, messages: list[Any], scenarios: dict[str, Any]) -> None:
    """Write all of it in portions of one's own."""
    from django.db import connection

    from dashboard.serve.materialiser.worker import sort_out
    from dashboard.serve.materialiser.writer import write
    from wire.topics import Topics

    source, at = random.Random(number), 0
    barrier.wait()
    while at < len(messages):
        many = source.randrange(1, 40)
        write(sort_out(messages[at : at + many], Topics()), scenarios, START)
        at += many
    connection.close()


def seen() -> dict[str, Any]:
    """Counts as kept and as the rows have them; texts that find something else than they should."""
    from dashboard.core.states import queries
    from dashboard.core.states.models import AssetState
    from dashboard.core.states.name_search import candidates

    rows = AssetState.objects.filter(scenario="attack", purged=False)
    wrong = [
        q
        for q in ("site 1", "SITE", "%_", "'", "e 2", "nothing", "1%_'")
        if {r.asset for r in queries.find("attack", q=q).records}
        != set(rows.filter(asset__icontains=q).values_list("asset", flat=True))
    ]
    return {
        "kept": queries.counts("attack"),
        "rows": Counter(rows.values_list("state", flat=True)),
        "wrong": wrong,
        "indexed": candidates("site", 100) is not None,
    }


if __name__ == "__main__":
    main()
