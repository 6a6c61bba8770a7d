"""Where a secret could be read: arguments of processes, files, and Spark's pages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import urldefrag, urljoin, urlsplit

import httpx

# A page has links to others: so many of one place are looked at.
MOST_PAGES = 120
LINK = re.compile(r"""(?:href|src)=["']([^"'#]+)""")


def in_arguments(words: Iterable[str]) -> list[str]:
    """Return the command lines of this machine's processes that hold one of the words."""
    lines = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            text = file.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        lines += [text for word in words if word in text]
    return lines


def in_files(folders: Iterable[Path], words: Iterable[str]) -> list[Path]:
    """Return the files below the folders that hold one of the words, packed archives left out."""
    sought = [word.encode() for word in words]
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    return [path for path in files if _holds(path, sought)]


def _holds(path: Path, words: list[bytes]) -> bool:
    try:
        content = path.read_bytes()
    except OSError:  # gone meanwhile
        return False
    return any(word in content for word in words)


def pages(*starts: str) -> Iterator[tuple[str, str]]:
    """Yield address and text of these pages and of what they link to on the same machine."""
    waiting, seen = list(starts), set(starts)
    hosts = {urlsplit(start).hostname for start in starts}
    with httpx.Client(timeout=20, follow_redirects=True) as client:
        while waiting and len(seen) < MOST_PAGES * len(starts):
            address = waiting.pop(0)
            text = client.get(address).text
            yield address, text
            for link in map(str, LINK.findall(text)):
                target = urldefrag(urljoin(address, link.replace("&amp;", "&"))).url
                new = urlsplit(target).hostname in hosts and target not in seen
                if new and "/static/" not in target and "kill" not in target:
                    seen.add(target)
                    waiting.append(target)
