"""The spool keeps what it took, in order, through crashes at any byte."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from agents.spool import Spool, SpoolFull, SpoolInUse, decode_line, encode_line
from support.run.selection import examples

ASSETS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)


def crash(spool: Spool, into: Path) -> Path:
    """The directory as a killed process leaves it: a copy, without a word to the spool."""
    return Path(shutil.copytree(spool._directory, into))


def waiting(spool: Spool) -> list[tuple[str, bytes]]:
    return [(e.asset, e.value) for e in spool.read(spool.cursor, 10_000)]


@given(ASSETS, st.integers(0, 7))
def test_line_of_any_asset_reads_back_and_no_damaged_one_does(asset: str, bit: int) -> None:
    line = encode_line(asset, b'{"n":1}')
    assert line.count(b"\n") == 1
    assert decode_line(line) == (asset, b'{"n":1}')
    for at in range(0, len(line), 3):
        broken = line[:at] + bytes([line[at] ^ (1 << bit)]) + line[at + 1 :]
        assert decode_line(broken) is None
    assert decode_line(line[:-1]) is None


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 200)),
        st.tuples(st.just("confirm"), st.integers(1, 5)),
        st.tuples(st.just("restart"), st.just(0)),
        st.tuples(st.just("crash"), st.integers(0, 60)),
    ),
    max_size=40,
)


@settings(max_examples=examples(60), deadline=None)
@given(STEPS)
def test_nothing_is_lost_or_reordered(steps: list[tuple[str, int]]) -> None:
    """Against a list: appended, confirmed, restarted, crashed with a torn line of any length."""
    with tempfile.TemporaryDirectory() as directory:
        places = (Path(directory, str(n)) for n in range(100))
        spool = Spool(next(places), segment_bytes=300)
        written: list[tuple[str, bytes]] = []
        confirmed = 0
        for kind, number in steps:
            event(kind)
            if kind == "append":
                written.append((f"a{len(written)}", b"1" * number))
                spool.append(*written[-1])
            elif kind == "confirm" and (entries := spool.read(spool.cursor, number)):
                spool.advance(entries[-1].position, len(entries))
                confirmed += len(entries)
            elif kind == "restart":
                spool.close()
                spool = Spool(spool._directory, segment_bytes=300)
                assert spool.torn == 0
            elif kind == "crash":
                copy = crash(spool, next(places))
                torn = encode_line("torn", b"2" * 60)[:number]
                with max(copy.glob("*.spool")).open("ab") as file:
                    file.write(torn)
                spool.close()
                spool = Spool(copy, segment_bytes=300)
                assert spool.torn == (number > 0)
                # Confirmed since the cursor was last written down: duplicates, never a loss.
                confirmed = min(confirmed, len(written) - spool.pending)
            assert waiting(spool) == written[confirmed:]
            assert spool.pending == len(written) - confirmed
        spool.close()


def append_often(spool: Spool) -> None:
    for _ in range(10):
        spool.append("asset", b"1" * 40)


def test_full_spool_refuses_and_takes_again(tmp_path: Path) -> None:
    spool = Spool(tmp_path, max_bytes=200)
    with pytest.raises(SpoolFull, match="200 bytes"):
        append_often(spool)
    kept = spool.read(0)
    assert 1 <= len(kept) < 10
    spool.advance(kept[0].position, 1)
    spool.append("asset", b"1" * 40)
    assert len(spool.read(spool.cursor)) == len(kept)
    spool.close()


def test_confirmed_segments_are_deleted(tmp_path: Path) -> None:
    spool = Spool(tmp_path, segment_bytes=100)
    for _ in range(50):
        spool.append("asset", b"1" * 40)
        entries = spool.read(spool.cursor)
        spool.advance(entries[-1].position, len(entries))
    assert len(list(tmp_path.glob("*.spool"))) == 1
    spool.close()


def test_damaged_line_in_the_middle_is_counted_and_left_out(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    for value in (b"1", b"2", b"3"):
        spool.append("asset", value)
    spool.close()
    path = next(tmp_path.glob("*.spool"))
    path.write_bytes(path.read_bytes().replace(b",2]", b",9]"))
    spool = Spool(tmp_path)
    assert [value for _, value in waiting(spool)] == [b"1", b"3"]
    assert (spool.damaged, spool.torn, spool.pending) == (1, 0, 2)
    spool.close()


def test_cursor_beyond_what_the_disk_kept_starts_afresh_there(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    spool.append("asset", b"1")
    spool.close()
    (tmp_path / "cursor").write_text("5000\n")
    spool = Spool(tmp_path)
    assert (spool.cursor, spool.end, waiting(spool)) == (5000, 5000, [])
    spool.append("asset", b"2")
    assert waiting(spool) == [("asset", b"2")]
    spool.close()


def test_unreadable_cursor_means_duplicates_and_no_loss(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    spool.append("asset", b"1")
    spool.advance(spool.end, 1)
    spool.close()
    (tmp_path / "cursor").write_bytes(b"\xff\x00")
    spool = Spool(tmp_path)
    assert waiting(spool) == [("asset", b"1")]
    spool.close()


def test_two_processes_cannot_share_a_directory(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    with pytest.raises(SpoolInUse, match="in use"):
        Spool(tmp_path)
    spool.close()
    Spool(tmp_path).close()
