"""Our engine beside others, on the same log, in one run: `python -m bench.peers`.

Kafka Streams, Flink and Quix Streams fold the same reports as the kernel, each written as its own
experts would write it, on the same broker, one after the other; the kernel goes first and last. An
output that differs from the kernel's ends the bench.
"""

from __future__ import annotations

import argparse

from bench.command import Measured, parser_of, run
from bench.drain import Size
from bench.peers.drain import drain_all, plain
from bench.peers.engines import BY_NAME, PEERS, Peer, described, peers_of
from bench.stack import BenchProblem

SIZES = {
    "dense": Size(2_000_000, 100_000),
    "sparse": Size(1_500_000, 1_000_000),
}
QUICK = {"dense": Size(600_000, 30_000)}


def main() -> None:
    """Compare as the options say."""
    parser = parser_of(__doc__, engines=False)
    parser.add_argument("--peers", metavar="A,B", help=f"of {', '.join(BY_NAME)} (all)")
    parser.add_argument("--quick", action="store_true", help="the main ratios in five minutes")
    parser.add_argument("--reports", type=int, help="one log alone (with --assets)")
    parser.add_argument("--assets", type=int)
    parser.add_argument("--keep", action="store_true", help="keep logs and states")
    run("peers", parser, measure)


def measure(options: argparse.Namespace) -> Measured:
    """Drain each log with every engine that was asked for. Raises BenchProblem."""
    peers = peers_of_options(options)
    runs = [
        each
        for name, size in sizes_of_options(options).items()
        for each in plain(drain_all(name, size, peers, keep=options.keep))
    ]
    return [], [{**each, **described(each["engine"])} for each in runs]


def peers_of_options(options: argparse.Namespace) -> tuple[Peer, ...]:
    """Return the peers that were asked for. Raises BenchProblem."""
    if options.peers:
        return peers_of(options.peers)
    return tuple(peer for peer in PEERS if peer.quick or not options.quick)


def sizes_of_options(options: argparse.Namespace) -> dict[str, Size]:
    """Return the logs that were asked for, by name. Raises BenchProblem."""
    if options.reports is None and options.assets is None:
        return QUICK if options.quick else SIZES
    if options.reports is None or options.assets is None:
        raise BenchProblem("--reports and --assets go together")
    return {"given": Size(options.reports, options.assets)}


if __name__ == "__main__":
    main()
