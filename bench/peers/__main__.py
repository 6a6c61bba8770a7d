"""Our engine beside others, on the same log, in one run: `python -m bench.peers`.

Kafka Streams, Flink and Quix Streams fold the same reports as the kernel, each written as its own
experts would write it, on the same broker, one after the other; the kernel goes first and last. An
output that differs from the kernel's ends the bench.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from bench.command import Measured, parser_of, run
from bench.drain import Size
from bench.live import Load
from bench.peers.drain import drain_all, plain
from bench.peers.engines import BY_NAME, PEERS, Peer, described, peers_of
from bench.peers.live import live_all
from bench.peers.recovery import recover_all
from bench.results import commit, read
from bench.stack import BenchProblem

SIZES = {
    "dense": Size(2_000_000, 100_000),
    "sparse": Size(1_500_000, 1_000_000),
}
QUICK = {"dense": Size(400_000, 20_000)}
# The steady load: reports a second, and for how long: a commit of the job, every 300 s, is in it.
RATE, SECONDS, QUICK_SECONDS = 1000, 330, 10
# Then each engine rests: what it takes with nothing to do is measured for so long.
REST_S = 60
# What is left out at its start: the kernel commits often in its first 15 s (TALLYBOARD_WARM_UP_S).
WARM_UP_S, QUICK_WARM_UP_S = 30, 20
QUICK_LIVES = 2
RECOVERED = 1_000_000


def main() -> None:
    """Compare as the options say."""
    parser = parser_of(__doc__, engines=False)
    parser.add_argument("--peers", metavar="A,B", help=f"of {', '.join(BY_NAME)} (all)")
    parser.add_argument("--quick", action="store_true", help="the main ratios in five minutes")
    parser.add_argument("--reports", type=int, help="one log alone (with --assets)")
    parser.add_argument("--assets", type=int, help="of that log, and of the recovery")
    parser.add_argument("--parts", type=parts_of, help=f"of {', '.join(PARTS)} (all)")
    parser.add_argument("--seconds", type=int, help=f"of the steady load ({SECONDS})")
    parser.add_argument(
        "--add",
        action="store_true",
        help="keep the tables of --results that this run does not make",
    )
    parser.add_argument("--kills", type=int, default=2, help="of each engine (2)")
    parser.add_argument("--keep", action="store_true", help="keep logs and states")
    run("peers", parser, measure)


def measure(options: argparse.Namespace) -> Measured:
    """Take the parts that were asked for. Raises BenchProblem."""
    taken = {"begun": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"), "commit": commit()}
    measured = [run for part in parts_of_options(options) for run in PARTS[part](options)]
    runs = [{**run, **described(run["engine"]), **taken} for run in measured]
    return [], merged(kept(options), runs)


def kept(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Return what is to be kept of an earlier run. Raises BenchProblem."""
    if not options.add:
        return []
    if options.results is None:
        raise BenchProblem("--add goes with --results, where the earlier run is")
    earlier = read("peers", options.results)
    return earlier.runs if earlier else []


def merged(earlier: list[dict[str, Any]], runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return runs, and of the earlier ones whole tables that these do not make anew."""
    anew = {table_key(run) for run in runs}
    every = [*(run for run in earlier if table_key(run) not in anew), *runs]
    return sorted(every, key=lambda run: list(PARTS).index(run["kind"]))


def table_key(run: dict[str, Any]) -> tuple[str, str]:
    """Return which table a run is in: a table is always of one run."""
    return run["kind"], run.get("size", "")


def drains(options: argparse.Namespace) -> Iterable[dict[str, Any]]:
    """Drain each log with every engine that was asked for. Raises BenchProblem."""
    peers = peers_of_options(options)
    for name, size in sizes_of_options(options).items():
        yield from plain(drain_all(name, size, peers, keep=options.keep))


def lives(options: argparse.Namespace) -> Iterable[dict[str, Any]]:
    """Load every engine that was asked for. Raises BenchProblem."""
    seconds = options.seconds or (QUICK_SECONDS if options.quick else SECONDS)
    warm_up = QUICK_WARM_UP_S if options.quick else WARM_UP_S
    peers = [peer for peer in peers_of_options(options) if peer.live or options.peers]
    if options.quick:
        peers = peers[:QUICK_LIVES]
    rest = 0 if options.quick else REST_S
    return live_all(Load(RATE, seconds), warm_up, rest, peers)


def recoveries(options: argparse.Namespace) -> Iterable[dict[str, Any]]:
    """Kill every engine that was asked for. Raises BenchProblem."""
    peers = [peer for peer in peers_of_options(options) if peer.recovers]
    return recover_all(options.assets or RECOVERED, options.kills, peers)


PARTS = {"drain": drains, "live": lives, "recovery": recoveries}
QUICK_PARTS = ["drain", "live"]


def parts_of(text: str) -> list[str]:
    """Read parts with commas between."""
    parts = text.split(",")
    if unknown := [part for part in parts if part not in PARTS]:
        raise argparse.ArgumentTypeError(f"{unknown[0]!r}: expected {', '.join(PARTS)}")
    return parts


def parts_of_options(options: argparse.Namespace) -> list[str]:
    """Return the parts that were asked for."""
    return options.parts or (QUICK_PARTS if options.quick else list(PARTS))


def peers_of_options(options: argparse.Namespace) -> tuple[Peer, ...]:
    """Return the peers that were asked for. Raises BenchProblem."""
    if options.peers:
        return peers_of(options.peers)
    return tuple(peer for peer in PEERS if peer.quick or not options.quick)


def sizes_of_options(options: argparse.Namespace) -> dict[str, Size]:
    """Return the logs that were asked for, by name. Raises BenchProblem."""
    if options.reports is None:
        return QUICK if options.quick else SIZES
    if options.assets is None:
        raise BenchProblem("--reports and --assets go together")
    return {"given": Size(options.reports, options.assets)}


if __name__ == "__main__":
    main()
