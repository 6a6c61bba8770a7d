"""One command for many assets, end to end: the review, the sending, the last answer.

Runs a copy of the product of its own: broker, job, materialiser, web server and worker.
"""

from __future__ import annotations

import argparse
import re
import sqlite3
import sys
import time
import uuid
from typing import NamedTuple

import httpx

from bench.boards import log_in
from bench.busyness import printed_busyness
from bench.live import start_job, start_web
from bench.load import MAJORITY, SCENARIO
from bench.stack import BenchProblem, Engine, Product, product, say
from domain.records import Report
from wire.source import encode_report

WAIT_S = 600.0
WORKER = ("-m", "celery", "-A", "dashboard", "worker", "--beat", "--concurrency", "1")


class Measured(NamedTuple):
    """What was found, s. answered: from the start to the last answer."""

    review: float
    sent: float
    answered: float


def main() -> None:
    """Measure as the options say, and print it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--assets", type=int, default=100_000, help="how many (100,000)")
    parser.add_argument("--keep", action="store_true", help="keep logs and database")
    options = parser.parse_args()
    try:
        with printed_busyness():
            times = measure(options.assets, keep=options.keep)
    except BenchProblem as problem:
        sys.exit(f"bench bulk: {problem}")
    n = options.assets
    print(f"purge of {n:,} assets: reviewed in {times.review:.1f} s")
    print(f"  all in the log after {times.sent:.1f} s ({n / times.sent:,.0f}/s)")
    print(f"  all answered after {times.answered:.1f} s ({n / times.answered:,.0f}/s)")


def measure(assets: int, *, keep: bool) -> Measured:
    """Fill a board, purge all of it, and tell how long that took. Raises BenchProblem."""
    engine = Engine("kernel")
    with product(MAJORITY.format(lifetime="1h"), engine, keep=keep, DEMO=1) as copy:
        start_web(copy)
        copy.start("worker", *WORKER)
        start_job(copy, engine)
        send(copy, assets)
        shown = f"SELECT count(*) = {assets} FROM states_assetstate"  # noqa: S608 - a number
        copy.wait(lambda: is_true(copy, shown), WAIT_S, "the board to be filled")
        return purge(copy, assets)


def send(copy: Product, assets: int) -> None:
    """Send a report on each asset, while the job sends its ticks."""
    producer, topic = copy.bus.producer(linger_ms=20), copy.topics.reports(SCENARIO)
    value = encode_report(Report("", "waf-1", "clear"))
    for n in range(assets):
        producer.send(topic, f"site-{n:06d}.example".encode(), value)
        if n % 1000 == 0:
            producer.flush(60)
    producer.close(60)


def purge(copy: Product, assets: int) -> Measured:
    """Review a purge of all, start it, and wait for its end. Raises BenchProblem."""
    cookie = log_in(copy.url, copy.folder)
    token = re.search(r"csrf-\d+=(\w+)", cookie)
    headers = {"Cookie": cookie, "X-CSRFToken": token[1] if token else "", "Referer": copy.url}
    with httpx.Client(base_url=copy.url, headers=headers, timeout=WAIT_S) as client:
        begun = time.monotonic()
        form = {"id": str(uuid.uuid4()), "scenario": SCENARIO, "by": "filter", "kind": "purge"}
        reviewed = client.post("/bulk/review/", data=form | {"reason": "a bench"})
        review = time.monotonic() - begun
        page = reviewed.headers.get("Location")
        if not page:
            raise BenchProblem(f"the review was answered with {reviewed.status_code}")
        say(f"  reviewed in {review:.1f} s")
        begun = time.monotonic()
        started = client.post(f"{page}start/", data={"confirm": str(assets)})
        if started.status_code != 302:
            raise BenchProblem(f"the start was answered with {started.status_code}")
    left = "SELECT count(*) = 0 FROM bulk_item WHERE outcome IN ('ready', 'sending')"
    copy.wait(lambda: is_true(copy, left), WAIT_S, "all to be sent")
    sent = time.monotonic() - begun
    ended = "SELECT count(*) = 1 FROM bulk_run WHERE status = 'done'"
    copy.wait(lambda: is_true(copy, ended), WAIT_S, "all to be answered")
    answered = time.monotonic() - begun
    applied = f"SELECT count(*) = {assets} FROM bulk_item WHERE outcome = 'applied'"  # noqa: S608
    if not is_true(copy, applied):
        raise BenchProblem("not every purge was applied")
    return Measured(review, sent, answered)


def is_true(copy: Product, question: str) -> bool:
    """Return what the copy's database answers."""
    database = sqlite3.connect(copy.folder / "tallyboard.sqlite3", timeout=20)
    try:
        return bool(database.execute(question).fetchone()[0])
    finally:
        database.close()


if __name__ == "__main__":
    main()
