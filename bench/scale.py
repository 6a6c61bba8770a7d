"""The board at a million assets: `python -m bench.scale`.

- board: a page at the server (`GET`, from the request to its last byte), the first one and one from
  the middle; a text filter answered by a board's socket; how old the counts are that a socket has.
- page: a browser's page of the same board while so many changes a second go through the states
  topic: the longest time between two of its frames, the most processor time that one task of its
  main thread took, and its JavaScript heap.
- sockets: so many open boards at a steady load against the job, each with a text filter that shows
  a hundred of the assets: report -> browser, and the web process's memory at the begin and the end.

A database of SQLite, filled by the materialiser from the states topic. Producers, readers, boards
and the browser run on the same machine. Beside the page everything else is nice (10), because a
browser that people look at has a machine of its own.
"""

from __future__ import annotations

import argparse
import os
import sqlite3
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from threading import Event, Thread
from typing import Any, NamedTuple, Self

import httpx
import msgspec
from playwright.sync_api import Browser, Page, sync_playwright
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Origin

from bench.boards import log_in
from bench.command import Measured, module_command, parser_of, run
from bench.drain import refuse_dead_letters
from bench.figures import percentile
from bench.live import LEAST_RATE, SCENARIOS, Load, start_job, start_web, under_load
from bench.load import AGENTS, SCENARIO, STATES, Keyed, fill
from bench.results import Row
from bench.roles import Role, Samples, send
from bench.stack import ROOM, BenchProblem, Engine, Product, product, say
from domain.records import Cause, StateRecord, Vote
from domain.version import Version
from ops.leftovers import descendants
from ops.prerequisites import find_browser
from wire.partitioner import partition_of
from wire.sink import encode_state

PARTS = ("board", "page", "sockets")
START = 1_790_000_000_000
# The assets' states are as old as this at the most.
SPREAD_MS = 3_600_000
COUNTS_TRIES = 20
FILTER_TRIES = 10
HEAP_EVERY_S = 2.0
NICE = 10
GROUP_PAUSE_S = 0.15
MEGABYTE = 2**20

_GAPS = """() => {
  const gaps = (window.benchGaps = []);
  let last = performance.now();
  const frame = (now) => { gaps.push(now - last); last = now; requestAnimationFrame(frame); };
  requestAnimationFrame((now) => { last = now; requestAnimationFrame(frame); });
}"""


def main() -> None:
    """Measure as the options say."""
    parser = parser_of(__doc__, engines=False)
    parser.add_argument("--parts", type=_parts, default=PARTS, help="board,page,sockets (all)")
    parser.add_argument("--assets", type=int, default=1_000_000, help="on the board (1,000,000)")
    parser.add_argument("--requests", type=int, default=50, help="of each kind (50)")
    parser.add_argument("--changes", type=int, default=10_000, help="a second, for the page")
    parser.add_argument("--sockets", type=_counts, default=(500, 1_000), help="boards (500,1000)")
    parser.add_argument("--rate", type=int, default=1_000, help="reports a second (1,000)")
    parser.add_argument("--seconds", type=int, default=60, help="of changes, of reports (60)")
    parser.add_argument("--warm-up", type=int, default=120, help="seconds left out (120)")
    run("scale", parser, measure)


def _parts(text: str) -> tuple[str, ...]:
    parts = tuple(text.split(","))
    if not set(parts) <= set(PARTS):
        raise argparse.ArgumentTypeError(f"{text!r}: expected some of {','.join(PARTS)}")
    return parts


def _counts(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(",")))


def measure(options: argparse.Namespace) -> Measured:
    """Measure every part that was asked for. Raises BenchProblem."""
    rows: list[Row] = []
    runs: list[dict[str, Any]] = []
    if {"board", "page"} & set(options.parts):
        with filled_board(options.assets) as copy:
            for name, part in (("board", measure_board), ("page", measure_page)):
                if name in options.parts:
                    _add(rows, runs, part(copy, options))
    if "sockets" in options.parts:
        for sockets in options.sockets:
            each = argparse.Namespace(**{**vars(options), "sockets": sockets})
            _add(rows, runs, measure_sockets(each))
    return rows, runs


def _add(rows: list[Row], runs: list[dict[str, Any]], measured: Measured) -> None:
    rows += measured[0]
    runs += measured[1]


def command_of(part: str, options: argparse.Namespace, *names: str) -> str:
    """Return what gives the rows of one part again."""
    sizes = [f"--{name.replace('_', '-')}={getattr(options, name)}" for name in names]
    return module_command("scale", f"--parts={part}", *sizes)


# ---- a board full of assets -----------------------------------------------------------------


def names(assets: int) -> list[str]:
    """Return the assets' names."""
    return [f"site-{number}.example" for number in range(assets)]


def states(assets: Sequence[str]) -> Iterator[StateRecord]:
    """Yield a state record of each asset: one in five is under attack.

    Each is as old as it happens to be.
    """
    chance = Random(1)
    for number, asset in enumerate(assets):
        yield state(
            asset, number % 5 == 0, START + chance.randrange(SPREAD_MS), Version(1, number, 0)
        )


def state(asset: str, attack: bool, since: int, version: Version) -> StateRecord:
    """Return a state record as the job makes one of five agents' votes."""
    name = STATES[not attack]
    return StateRecord(
        asset=asset,
        state=name,
        previous=None,
        since=since,
        unconfirmed=False,
        version=version,
        cause=Cause(
            "report", partition_of(asset.encode(), 4), version.offset, since, agent="waf-0"
        ),
        votes=tuple(Vote(agent, name, since, since, version.offset, None, 1) for agent in AGENTS),
    )


@contextmanager
def filled_board(assets: int) -> Iterator[Product]:
    """Yield a copy whose board is full, with web server and materialiser, without a job."""
    with product(SCENARIOS, Engine("kernel"), DEMO=1) as copy:
        start_web(copy)
        say(f"scale: {assets:,} assets")
        records = ((r.asset.encode(), encode_state(r)) for r in states(names(assets)))
        fill(copy.bus, copy.topics.states(SCENARIO), records, assets)
        wait_for_database(copy)
        yield copy


def wait_for_database(copy: Product, timeout_s: float = 1800) -> None:
    """Return once the database has all of the states topic. Raises BenchProblem."""
    topic = copy.topics.states(SCENARIO)
    ends = sum(end for _, end in copy.bus.offsets([topic]).values())
    query = "SELECT COALESCE(SUM(next_offset), 0) FROM states_sinkoffset WHERE topic = ?"

    def reached() -> int:
        return int(ask(copy.folder, query, topic)[0][0])

    copy.wait(lambda: reached() >= ends, timeout_s, "the materialiser", lambda: f": {reached():,}")


def ask(folder: Path, sql: str, *parameters: object) -> list[tuple[Any, ...]]:
    """Query the copy's database, which is only read, and return the rows."""
    with closing(sqlite3.connect(f"file:{folder}/tallyboard.sqlite3?mode=ro", uri=True)) as base:
        return base.execute(sql, parameters).fetchall()


# ---- board ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Texts:
    """Text filters, and how many assets they are to match: `narrow` few, `broad` very many.

    none: too short for the index of names, and in no name.
    """

    narrow: tuple[str, ...]
    broad: tuple[str, ...]
    none: tuple[str, ...] = ("zq",)

    def every(self) -> tuple[str, ...]:
        """Return all of them."""
        return self.narrow + self.broad + self.none


def texts(assets: int) -> Texts:
    """Return a whole name, its end, a part that some share; the domain, two letters, a digit."""
    last = str(assets - 1)
    return Texts((f"site-{last}.example", f"{last}.EXAMPLE", last[:4]), ("example", "te", "7"))


def measure_board(copy: Product, options: argparse.Namespace) -> Measured:
    """Measure pages, filters and counts of a board at rest. Raises BenchProblem."""
    cookie, count = log_in(copy.url, copy.folder), options.requests
    queries = texts(options.assets)
    pages = {
        "first": page_ms(copy, cookie, count),
        "middle": page_ms(copy, cookie, count, after=middle(copy.folder, options.assets)),
        "palette": palette_ms(copy, cookie, queries),
    }
    say(f"  page p50 {statistics.median(pages['first']):.0f} ms")
    with board_socket(copy, cookie) as board:
        filters = {
            q: [board.filter_ms(q, q not in queries.none) for _ in range(FILTER_TRIES)]
            for q in queries.every()
        }
        lag = counts_ms(copy, board)
    command = command_of("board", options, "assets", "requests")
    rows = board_rows(options.assets, pages, filters, queries, lag, command)
    figures = {"assets": options.assets, "pages_ms": pages, "filters_ms": filters, "counts_ms": lag}
    return rows, [{"part": "board", **figures}]


def board_rows(
    assets: int,
    pages: dict[str, list[float]],
    filters: dict[str, list[float]],
    queries: Texts,
    counts: list[float],
    command: str,
) -> list[Row]:
    """Return the table's rows."""

    def row(what: str, figure: float, target: float | None) -> Row:
        return Row(f"{assets:,} assets: {what}", "ms", {"": figure}, target, command=command)

    def part(samples: Sequence[float], percent: float) -> float:
        return percentile(sorted(samples), percent)

    narrow = [ms for q in queries.narrow for ms in filters[q]]
    broad = [ms for q in queries.broad for ms in filters[q]]
    none = [ms for q in queries.none for ms in filters[q]]
    return [
        row("the board's first page at the server, p50", part(pages["first"], 50), None),
        row("the board's first page at the server, p95", part(pages["first"], 95), 300),
        row("a page from the middle of the board, p95", part(pages["middle"], 95), 300),
        row("a text that few assets match, answered, p95", part(narrow, 95), 100),
        row("a text that very many match, answered, p95", part(broad, 95), 100),
        row("a text of two letters that none matches, answered, p95", part(none, 95), 100),
        row("the command palette's assets, answered, p95", part(pages["palette"], 95), 100),
        row("a change is in the counts of an open board, most", max(counts), 1_000),
    ]


def page_ms(copy: Product, cookie: str, count: int, after: str = "") -> list[float]:
    """Return how long each of `count` warm requests takes, ms. Raises BenchProblem."""
    headers, parameters = {"Cookie": cookie}, {"scenario": SCENARIO, "after": after}
    times = []
    with httpx.Client(base_url=copy.url, headers=headers, timeout=60) as client:
        for number in range(count + 3):
            begun = time.perf_counter()
            answer = client.get("/", params=parameters)
            if answer.status_code != 200 or b"data-asset" not in answer.content:
                raise BenchProblem(f"a page was answered with {answer.status_code} and no rows")
            if number >= 3:
                times.append((time.perf_counter() - begun) * 1000)
    return times


def palette_ms(copy: Product, cookie: str, queries: Texts) -> list[float]:
    """Return how long the command palette waits for the assets of each text.

    Raises BenchProblem.
    """
    times = []
    with httpx.Client(base_url=copy.url, headers={"Cookie": cookie}, timeout=60) as client:
        for text in queries.every() * FILTER_TRIES:
            begun = time.perf_counter()
            answer = client.get("/palette/", params={"q": text})
            times.append((time.perf_counter() - begun) * 1000)
            offers = text in queries.narrow
            if answer.status_code != 200 or (b'role="option"' in answer.content) < offers:
                raise BenchProblem(f"the palette answered {text!r} with {answer.status_code}")
    return times


def middle(folder: Path, assets: int) -> str:
    """Return the token of the row in the middle of the board."""
    query = (
        "SELECT rank, since, asset FROM states_assetstate WHERE NOT purged "
        "ORDER BY rank, since DESC, asset LIMIT 1 OFFSET ?"
    )
    return "r{}.{}.{}".format(*ask(folder, query, assets // 2)[0])


class BoardSocket:
    """A board's socket, one message at a time."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket

    def say(self, **message: Any) -> None:
        """Send a message."""
        self._socket.send(msgspec.json.encode(message).decode())

    def next(self, kind: str, timeout_s: float = 60) -> dict[str, Any]:
        """Return the next message of this kind; each is acknowledged. Raises BenchProblem."""
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                text = self._socket.recv(timeout=deadline - time.monotonic())
            except TimeoutError:
                raise BenchProblem(f"no {kind} within {timeout_s:g} s") from None
            message: dict[str, Any] = msgspec.json.decode(text)
            if message["type"] == "closing":
                raise BenchProblem(f"the board was closed: {message['reason']}")
            if seq := message.get("seq"):
                self.say(type="ack", seq=seq)
            if message["type"] == kind:
                return message

    def filter_ms(self, q: str, matches: bool = True) -> float:
        """Return how long a filter takes to be answered, on a board that shows something else.

        matches: whether anything is to match. Raises BenchProblem where it is not so.
        """
        self.say(type="filter", rows=False)
        self.next("snapshot")
        self._rest()
        begun = time.perf_counter()
        self.say(type="filter", q=q)
        snapshot = self.next("snapshot")
        if bool(snapshot["rows"]) != matches:
            raise BenchProblem(f"{len(snapshot['rows'])} rows match {q!r}")
        return (time.perf_counter() - begun) * 1000

    def _rest(self) -> None:
        """Wait until the server has nothing more to say: a message is sent at most so often."""
        self.next("beat")


@contextmanager
def board_socket(copy: Product, cookie: str) -> Iterator[BoardSocket]:
    """Yield an open board."""
    address = f"{copy.url.replace('http', 'ws', 1)}/ws/board/{SCENARIO}/"
    headers = {"Cookie": cookie}
    with connect(
        address, origin=Origin(copy.url), additional_headers=headers, max_size=None
    ) as socket:
        yield BoardSocket(socket)


def counts_ms(copy: Product, board: BoardSocket) -> list[float]:
    """Return the times from an asset's first state record to the counts that include it, ms."""
    board.say(type="filter", rows=False)
    counts = board.next("snapshot")["counts"]
    producer, times = copy.bus.producer(linger_ms=0), []
    new = [f"new-{number}.example" for number in range(COUNTS_TRIES)]
    for number, record in enumerate(states(new)):
        begun = time.perf_counter()
        key = record.asset.encode()
        producer.send_and_wait(copy.topics.states(SCENARIO), key, encode_state(record))
        expected = sum(counts.values()) + 1
        while sum(counts.values()) < expected:
            counts = board.next("changes").get("counts", counts)
        times.append((time.perf_counter() - begun) * 1000)
        if number == 0:
            say(f"  counts after {times[0]:.0f} ms")
    producer.close()
    return times


# ---- page -----------------------------------------------------------------------------------


def measure_page(copy: Product, options: argparse.Namespace) -> Measured:
    """Measure a browser's page under changes. Raises BenchProblem."""
    path = find_browser()
    if path is None:
        raise BenchProblem("no Chromium: install the package chromium")
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--enable-precise-memory-info"]
        chromium = playwright.chromium.launch(executable_path=path, args=arguments)
        try:
            watched = watch_page(copy, chromium, options)
        finally:
            chromium.close()
    figures = {"changes": options.changes, "frames": len(watched.gaps), **watched._asdict()}
    del figures["gaps"]
    return page_rows(watched, options), [{"part": "page", **figures}]


class Watched(NamedTuple):
    """A page under changes: times between frames (in order of length, ms), the heap now and then
    (MB), changes sent a second, and the most processor time of a task of its main thread (ms)."""

    gaps: Sequence[float]
    heap_mb: Sequence[float]
    sent_per_s: float
    task_ms: float


def page_rows(watched: Watched, options: argparse.Namespace) -> list[Row]:
    """Return the table's rows."""
    command = command_of("page", options, "assets", "changes", "seconds")
    what, gaps, heap = f"{options.changes:,} changes/s", watched.gaps, watched.heap_mb
    task = f"{what}: longest task of the page's main thread, by its processor time"
    return [
        Row(f"{what}: sent", "/s", {"": watched.sent_per_s}, more=True, command=command),
        Row(f"{what}: longest frame of a page", "ms", {"": gaps[-1]}, 100, command=command),
        Row(f"{what}: frames, p99", "ms", {"": percentile(gaps, 99)}, command=command),
        Row(task, "ms", {"": watched.task_ms}, command=command),
        Row(f"{what}: JavaScript heap, most", "MB", {"": max(heap)}, 300, command=command),
    ]


def watch_page(copy: Product, chromium: Browser, options: argparse.Namespace) -> Watched:
    """Watch a page while changes are sent. Raises BenchProblem."""
    page = open_board(copy, chromium)
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable")
    topic = copy.topics.states(SCENARIO)
    changing = partial(changes, options.assets)
    with Role("changes", send_apart, copy.bootstrap, topic, changing, options.changes) as sender:
        sender.wait_ready()
        for pid in (sender.pid, *map(copy.pid, ("broker", "web", "materialiser"))):
            give_way(pid)
        page.evaluate(_GAPS)
        chromium.start_tracing(page=page, categories=["toplevel"])
        heap, begun = [], time.monotonic()
        while time.monotonic() - begun < options.seconds:
            page.wait_for_timeout(HEAP_EVERY_S * 1000)
            sender.check()
            metrics = session.send("Performance.getMetrics")["metrics"]
            used = {each["name"]: each["value"] for each in metrics}["JSHeapUsedSize"]
            heap.append(used / MEGABYTE)
        gaps: list[float] = page.evaluate("() => window.benchGaps")
        took = time.monotonic() - begun
        sent = len(sender.finish().since(begun)) / took
    task_ms = longest_task_ms(chromium.stop_tracing())
    if sent < LEAST_RATE * options.changes:
        raise BenchProblem(f"sent {sent:,.0f} changes/s, not {options.changes:,}")
    if not gaps:
        raise BenchProblem("the page drew no frame")
    return Watched(sorted(gaps), heap, sent, task_ms)


def longest_task_ms(trace: bytes) -> float:
    """Return the most processor time that one task of a page's main thread took, ms.

    trace: as Chromium writes it. Raises BenchProblem without a task.
    """
    events = msgspec.json.decode(trace)["traceEvents"]
    mains = {
        (event["pid"], event["tid"])
        for event in events
        if event["name"] == "thread_name" and event["args"]["name"] == "CrRendererMain"
    }
    tasks = (event for event in events if event["name"] == "ThreadControllerImpl::RunTask")
    times = [
        task["tdur"] for task in tasks if (task["pid"], task["tid"]) in mains if "tdur" in task
    ]
    if not times:
        raise BenchProblem("the trace has no task of a page's main thread")
    return float(max(times)) / 1000


def send_apart(*arguments: Any) -> Samples:
    """Send as `bench.roles.send` does, in a session of its own, which `give_way` can have."""
    os.setsid()
    return send(*arguments)


def give_way(pid: int, proc: Path = Path("/proc")) -> None:
    """Let the session of a process, and its threads and those of what is below it, go after what is
    not as nice.

    Linux weighs sessions against each other, where it groups them (`sched_autogroup_enabled`), and
    looks at how nice a thread is only within its own. It lets a user set ten a second.
    """
    for each in (pid, *descendants(pid, proc)):
        for thread in (proc / str(each) / "task").iterdir():
            with suppress(ProcessLookupError):
                os.setpriority(os.PRIO_PROCESS, int(thread.name), NICE)
    group = proc / str(pid) / "autogroup"
    if group.exists():
        time.sleep(GROUP_PAUSE_S)
        group.write_text(str(NICE))


def open_board(copy: Product, chromium: Browser) -> Page:
    """Return a logged-in board that follows the log."""
    page = chromium.new_page(viewport={"width": 1440, "height": 900})
    cookies = (pair.partition("=") for pair in log_in(copy.url, copy.folder).split("; "))
    page.context.add_cookies(
        [{"name": name, "value": value, "url": copy.url} for name, _, value in cookies]
    )
    page.goto(f"{copy.url}/?scenario={SCENARIO}")
    page.locator('#live[data-state="live"]').wait_for()
    page.locator("#tbody tr").first.wait_for()
    return page


def changes(assets: int) -> Iterator[Keyed]:
    """Yield state records without end, on assets at random: one in five is under attack."""
    chance, everything = Random(3), names(assets)
    for number in range(2**62):
        asset, version = chance.choice(everything), Version(2, number, 0)
        since = START + SPREAD_MS + number // 10
        yield asset.encode(), encode_state(state(asset, number % 5 == 0, since, version))


# ---- sockets --------------------------------------------------------------------------------


def measure_sockets(options: argparse.Namespace) -> Measured:
    """Open boards under a load, with the job. Raises BenchProblem."""
    engine, load = Engine("kernel"), Load(options.rate, options.seconds)
    say(f"scale: {options.sockets} sockets, {load}")
    with product(SCENARIOS, engine, DEMO=1, **ROOM) as copy:
        start_web(copy)
        start_job(copy, engine)
        with Memory(copy.pid("web")) as memory:
            observed = under_load(copy, load, options.warm_up, options.sockets)
        refuse_dead_letters(copy)
        delays, (begin, end) = observed.browser(), memory.since(observed.since)
    command = command_of("sockets", options, "sockets", "rate", "seconds", "warm_up")
    what, target = f"{options.sockets:,} boards open, {load}", delay_target(options.sockets)
    rows = [
        Row(f"{what}: report → browser, p50", "ms", {"": delays.p50}, command=command),
        Row(f"{what}: report → browser, p99", "ms", {"": delays.p99}, target, command=command),
        Row(f"{what}: the web process's memory, begin", "MB", {"": begin}, command=command),
        Row(f"{what}: the web process's memory, end", "MB", {"": end}, command=command),
    ]
    figures = {"browser": delays.plain(), "memory_mb": [begin, end]}
    return rows, [{"part": "sockets", "sockets": options.sockets, "rate": options.rate, **figures}]


def delay_target(sockets: int) -> float | None:
    """Return the most that the p99 of report to browser may be with so many boards open, ms."""
    return {500: 500, 1_000: 400}.get(sockets)


class Memory:
    """Resident memory of a process and those below it, MB, noted each second."""

    def __init__(self, pid: int, look: Callable[[int], float] | None = None) -> None:
        self._pid, self._look = pid, look or resident_mb
        self._stop = Event()
        self._thread = Thread(target=self._watch, daemon=True)
        self.samples: list[tuple[float, float]] = []

    def _watch(self) -> None:
        while not self._stop.wait(1):
            self.samples.append((time.monotonic(), self._look(self._pid)))

    def __enter__(self) -> Self:
        """Begin to look."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Look no more."""
        self._stop.set()
        self._thread.join()

    def since(self, moment: float) -> tuple[float, float]:
        """Return the median of the first and of the last ten samples from `moment` on, MB.

        Raises BenchProblem without a sample.
        """
        sizes = [mb for at, mb in self.samples if at >= moment]
        if not sizes:
            raise BenchProblem("the web process's memory was not seen")
        return statistics.median(sizes[:10]), statistics.median(sizes[-10:])


def resident_mb(pid: int, proc: Path = Path("/proc")) -> float:
    """Return the resident memory of `pid` and everything below it, MB."""
    pages = 0
    for each in (pid, *descendants(pid, proc)):
        try:
            pages += int((proc / str(each) / "statm").read_text().split()[1])
        except OSError:
            continue
    return pages * 4096 / MEGABYTE


if __name__ == "__main__":
    main()
