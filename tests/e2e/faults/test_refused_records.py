"""What nobody can read, put into every topic of a running product, is seen: on the dead letters'
page, in the counter of its reader, or in a log."""

from __future__ import annotations

import html
import re
import sqlite3
from collections.abc import Iterator
from uuid import uuid4

import confluent_kafka as ck
import httpx
import pytest

from bus.base import Delivered, TopicSpec
from bus.kafka import KafkaBus
from dashboard.operate.dead_letters.diagnosis import ADVICE
from domain.records import SCHEMA_MISMATCH, Report
from domain.scenario_parser import load_scenarios
from streaming.pipelines.registry import declared
from support.kafka.refused_records import Counted, Letter, Logged, all_topics, outcomes, schemas
from support.run.stack import ROOT, Stack, wait_until
from wire.job import Control, encode
from wire.partitioner import partition_of
from wire.source import encode_report
from wire.topics import BOUNDED, REPORTS, Topics

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.extensive(
        guard="tests/unit/operate/test_dead_letters_ingestion.py::"
        "test_what_the_job_refuses_is_kept_as_it_came"
    ),
]

PROCESSES = ("broker", "job", "materialiser", "pipelines", "store-1", "web")
SCENARIOS = load_scenarios(ROOT / "scenarios.toml")
RUBBISH = b"\xff\xfe no JSON at all"
LONG = b"k" * 1_048_300
"""A key that leaves no room, in the largest message, for what a dead letter has besides."""
MISFITS: tuple[tuple[bytes, bytes | None], ...] = (
    (b"store", RUBBISH),
    (b"store", b'{"at": '),
    (b"store", b'"a text"'),
    (b"store", b"[1]"),
    (b"store", b'{"at": "noon", "station": {}}'),
    (b"\xff\xfe", b"{"),
    (b"", b'{"at": "noon"'),
    (LONG, b"{"),
    (b"store", b"{" + b" " * 200_000),
)
"""Keys and values that fit no pipeline's schema."""
INCOMPLETE = (b"", None, b"null", b"{}", b'{"unknown": 1}')
"""Values that lack what is NOT NULL."""


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory, jars_dir: object) -> Iterator[Stack]:
    """The product with every pipeline and a store server, and without agents."""
    stack = Stack(
        tmp_path_factory.mktemp("refused") / "data",
        only=PROCESSES,
        jars_dir=jars_dir,
        pipelines=",".join(declared()),
        stores=1,
    )
    stack.start(wait=False)
    bus, names = KafkaBus(stack.settings.kafka_options()), Topics()
    bus.wait(120)
    made = (names.invoices(), names.views_of_products(), names.price_list())
    bus.ensure_topics(TopicSpec(*spec) for spec in made)  # as the tills and visitors do
    stack.wait_ready(240)
    yield stack
    stack.stop()


@pytest.fixture(scope="module")
def bus(product: Stack) -> KafkaBus:
    """The product's Kafka, for records as large as its topics take."""
    limit = {"message.max.bytes": BOUNDED["max.message.bytes"]}
    return KafkaBus(product.settings.kafka_options() | limit)


@pytest.fixture(scope="module")
def admin(product: Stack) -> Iterator[httpx.Client]:
    """A client that is logged in as an admin."""
    with product.logged_in("admin") as client:
        yield client


@pytest.fixture(scope="module")
def running(product: Stack, admin: httpx.Client) -> None:
    """Every pipeline runs."""

    def states() -> dict[str, str]:
        statuses = re.findall(
            r'tallyboard_pipeline_status\{pipeline="([^"]+)",status="([^"]+)"\} 1',
            admin.get("/metrics").text,
        )
        return dict(statuses)

    wait_until(
        lambda: {n for n, s in states().items() if s == "running"} >= set(declared()),
        300,
        f"not every pipeline runs, see {product.data_dir}/logs",
    )


def metric(admin: httpx.Client, counted: Counted, topic: str) -> float:
    label = re.escape(f'="{counted.label or topic}"')
    pattern = rf"^{counted.metric}\{{[^}}]*{label}[^}}]*\}} (\S+)$"
    samples = re.findall(pattern, admin.get("/metrics").text, re.MULTILINE)
    return sum(float(each) for each in samples)


def letters(product: Stack) -> dict[tuple[str, int, int], tuple[int, str, str]]:
    """Number, reason and status of each letter, by topic, partition and offset."""
    database = sqlite3.connect(product.data_dir / "tallyboard.sqlite3", timeout=30)
    try:
        rows = database.execute(
            'select topic, "partition", "offset", id, reason, status from dead_letters_deadletter'
        ).fetchall()
    finally:
        database.close()
    return {
        (topic, part, at): (number, why, status) for topic, part, at, number, why, status in rows
    }


def forged(value: bytes) -> bytes:
    """A JSON object with a signature of another form."""
    return value[:-1] + b',"signature":"of-my-own"}'


def of_reports(scenario: str) -> list[tuple[bytes | None, bytes, int | None, str]]:
    """Key, value, partition (None: the key's) and reason of what a topic of reports refuses."""
    partitions = SCENARIOS[scenario].partitions
    wrong = (partition_of(b"shop", partitions) + 1) % partitions
    report = encode_report(Report("shop", "waf-1", SCENARIOS[scenario].states[0].name))
    release = b'{"type":"release","id":"%s","user":"ada"}' % str(uuid4()).encode()
    return [
        (b"shop", RUBBISH, None, "not-utf8"),
        (b"shop", b"{", None, "not-json"),
        (b"shop", b"[]", None, "unknown-type"),
        (b"shop", b'{"type":"rumour"}', None, "unknown-type"),
        (b"", report, None, "bad-asset"),
        (b"shop", b'{"type":"report","state":"x"}', None, "bad-agent"),
        (b"shop", release, wrong, "wrong-partition"),
        (b"shop", b'{"type":"report","agent":"a","state":7}', None, "bad-field"),
        (b"shop", b'{"state":"%s"}' % (b"x" * 70_000), None, "too-large"),
        (b"shop", b'{"type":"release","user":"ada"}', None, "bad-command"),
        (b"shop", release, None, "unsigned"),
        (b"shop", forged(release), None, "bad-signature"),
    ]  # fmt: skip


def misfits(topic: str) -> list[tuple[bytes, bytes | None]]:
    """Keys and values that fit no pipeline that reads a topic."""
    complete = any("not null" in schema.lower() for schema in schemas(topic))
    return [*MISFITS, *((b"store", value) for value in INCOMPLETE if complete)]


def undated(product: Stack, topic: str) -> Delivered:
    """Send rubbish with a time that is none, as a topic takes it whose producers say the time."""
    places: list[Delivered] = []
    producer = ck.Producer(product.settings.kafka_options())
    producer.produce(
        topic, RUBBISH, b"store", timestamp=-5,
        on_delivery=lambda _, at: places.append(
            Delivered(topic, at.partition() or 0, at.offset() or 0, 0)
        ),
    )  # fmt: skip
    assert producer.flush(30) == 0
    return places[0]


def shown(product: Stack, admin: httpx.Client, sent: dict[Delivered, str]) -> None:
    """Each of these records is on the dead letters' page, for its reason."""
    places = {at[:3]: why for at, why in sent.items()}
    wait_until(
        lambda: letters(product).keys() >= places.keys(),
        120,
        f"no letters of {places.keys() - letters(product).keys()}, see {product.data_dir}/logs",
    )
    kept = letters(product)
    assert {at: kept[at][1] for at in places} == places
    for (topic, *_), why in places.items():
        listed = admin.get("/dead-letters/", params={"reason": why, "status": "any"})
        assert listed.status_code == 200
        assert topic in listed.text
    for number, why, _ in (kept[at] for at in places):
        page = admin.get(f"/dead-letters/{number}/")
        assert page.status_code == 200, page.text
        assert ADVICE[why].means in html.unescape(page.text)


REFUSING = sorted(topic for topic in all_topics() if topic.endswith(REPORTS))
FITTING = sorted(t for t in all_topics() if Letter(SCHEMA_MISMATCH) in outcomes(t))
COUNTING = sorted(
    {
        (topic, became)
        for topic in all_topics()
        for became in outcomes(topic)
        if isinstance(became, Counted | Logged)
    },
    key=str,
)


@pytest.mark.parametrize("topic", REFUSING)
def test_what_the_job_refuses_is_on_the_page(
    product: Stack, bus: KafkaBus, admin: httpx.Client, topic: str
) -> None:
    producer, sent = bus.producer(), {}
    for key, value, partition, why in of_reports(topic.removesuffix(REPORTS)):
        sent[producer.send_and_wait(topic, key, value, partition=partition)] = why
    shown(product, admin, sent)


@pytest.mark.parametrize("topic", FITTING)
def test_what_fits_no_schema_is_on_the_page(
    product: Stack, bus: KafkaBus, admin: httpx.Client, running: None, topic: str
) -> None:
    producer = bus.producer()
    sent = {
        producer.send_and_wait(topic, key, value): SCHEMA_MISMATCH for key, value in misfits(topic)
    }
    sent[undated(product, topic)] = SCHEMA_MISMATCH
    shown(product, admin, sent)


def test_a_forged_request_is_on_the_page(
    product: Stack, bus: KafkaBus, admin: httpx.Client
) -> None:
    ask = forged(encode(Control(str(uuid4()), "kernel", "start", "ada", "a drill")))
    sent = bus.producer().send_and_wait(Topics().control, b"kernel", ask)
    shown(product, admin, {sent: "bad-signature"})


@pytest.mark.parametrize(("topic", "became"), COUNTING)
def test_what_a_reader_passes_over_is_counted_or_logged(
    product: Stack,
    bus: KafkaBus,
    admin: httpx.Client,
    running: None,
    topic: str,
    became: Counted | Logged,
) -> None:
    log = product.data_dir / "logs" / f"{getattr(became, 'process', 'web')}.log"

    def seen() -> float:
        if isinstance(became, Counted):
            return metric(admin, became, topic)
        return log.read_text().count(became.words)

    before, key = seen(), b"shop"
    bus.producer().send_and_wait(topic, key, RUBBISH, partition=partition_for(bus, topic, key))
    wait_until(lambda: seen() > before, 180, f"{topic}: {became} is not told")


def partition_for(bus: KafkaBus, topic: str, key: bytes) -> int:
    return partition_of(key, bus.partitions(topic))


def test_a_name_as_long_as_a_message_is_on_the_page(
    product: Stack, bus: KafkaBus, admin: httpx.Client
) -> None:
    report = encode_report(Report("shop", "waf-1", "clear"))
    sent = bus.producer().send_and_wait("orders.reports", LONG, report)
    shown(product, admin, {sent: "bad-asset"})


def test_the_product_goes_on_after_all_of_it(
    product: Stack, admin: httpx.Client, running: None
) -> None:
    answer = admin.get("/readyz")
    assert answer.status_code == 200, answer.text
