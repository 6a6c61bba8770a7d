"""Fetch the Java archives that pip does not install, using the Ivy in pyspark's own jars."""

from __future__ import annotations

import hashlib
import os
import shutil
import ssl
import subprocess
import sys
import tempfile
import tomllib
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from urllib.parse import urlsplit
from xml.sax.saxutils import quoteattr

from cryptography.hazmat.primitives.serialization import NoEncryption, pkcs12
from cryptography.x509 import Certificate, load_der_x509_certificate

from config.archives import ArchivesProblem, compare, file_name, pyspark_jars, read_lock, verify
from config.java import JavaProblem, find_java, own_java
from config.settings import load_settings

PIN_FILE = Path(__file__).with_name("jars.toml")
STAMP = "stamp"
SETTINGS = """<ivysettings>
  <settings defaultResolver="registry"/>
  <resolvers><ibiblio name="registry" m2compatible="true"/></resolvers>
</ivysettings>
"""


RENEW = "If ops/jars.toml was changed on purpose: make jars-lock."
NETWORK_FAULTS = (
    "not found. url=",
    "UnknownHost",
    "ConnectException",
    "timed out",
    "No route",
    "unreachable",
    "SSL",
)


class JarsProblem(Exception):
    """The archives could not be fetched; the message says what to do."""


@dataclass(frozen=True)
class JarGroup:
    """One directory of archives: modules as `organisation:name:version`, and what is left out of
    what they bring: organisations, or `organisation:name`."""

    name: str
    modules: tuple[str, ...]
    exclude: tuple[str, ...]


@dataclass(frozen=True)
class JarPins:
    """The pin file: the PySpark version it was tested with, the groups, and the file's digest."""

    pyspark: str
    groups: tuple[JarGroup, ...]
    digest: str


def read_pins(path: Path = PIN_FILE) -> JarPins:
    """Return the pins in a file.

    Raises JarsProblem if PySpark has another version than it names.
    """
    raw = path.read_bytes()
    plain = tomllib.loads(raw.decode())
    groups = tuple(
        JarGroup(name, tuple(entry["modules"]), tuple(entry["exclude"]))
        for name, entry in plain.items()
        if isinstance(entry, dict)
    )
    pins = JarPins(plain["pyspark"], groups, hashlib.sha256(raw).hexdigest())
    if version("pyspark") != pins.pyspark:
        raise JarsProblem(
            f"PySpark is {version('pyspark')}, and {path.name} pins archives for {pins.pyspark}: "
            "change the two together."
        )
    return pins


def ivy_module(pins: JarPins) -> str:
    """Return the Ivy description of the archives, with one configuration per group."""
    lines = ['<ivy-module version="2.0">', '<info organisation="tallyboard" module="jars"/>']
    lines += ["<configurations>"]
    lines += [f"<conf name={quoteattr(group.name)}/>" for group in pins.groups]
    lines += ["</configurations>", "<dependencies>"]
    lines += [line for group in pins.groups for line in _dependencies(group)]
    lines += [line for group in pins.groups for line in _exclusions(group)]
    return "\n".join([*lines, "</dependencies>", "</ivy-module>", ""])


def _dependencies(group: JarGroup) -> Iterator[str]:
    for module in group.modules:
        organisation, name, revision = map(quoteattr, module.split(":"))
        coordinates = f"org={organisation} name={name} rev={revision}"
        yield f'<dependency {coordinates} force="true" conf={quoteattr(f"{group.name}->default")}/>'


def _exclusions(group: JarGroup) -> Iterator[str]:
    for excluded in group.exclude:
        organisation, _, name = excluded.partition(":")
        module = f" module={quoteattr(name)}" if name else ""
        yield f"<exclude org={quoteattr(organisation)}{module} conf={quoteattr(group.name)}/>"


def up_to_date(pins: JarPins, target: Path) -> bool:
    """Return whether `target` contains what the pin file asks for."""
    stamp = target / STAMP
    return stamp.exists() and stamp.read_text() == pins.digest


def fetch(target: Path, say: Callable[[str], None], pins: JarPins | None = None) -> None:
    """Fill `target` with one directory of archives per group, unless it is up to date.

    The archives appear together, after all of them have arrived and match the lock: an interrupted
    fetch leaves nothing in the way of the next. PySpark's archives are checked against the lock
    too. Raises JarsProblem or JavaProblem.
    """
    pins = pins or read_pins()
    if not up_to_date(pins, target):
        target.mkdir(parents=True, exist_ok=True)
        say("fetching Spark's Kafka connector and the broker (about 60 MB)")
        with tempfile.TemporaryDirectory(dir=target, prefix="fetch-") as name:
            retrieve(pins, Path(name), say)
            _check_fetched(pins, Path(name))
            _put_in_place(pins, Path(name), target)
    check(target)


def check(target: Path, data_dir: Path | None = None) -> None:
    """Check all archives against the lock. Raises JarsProblem."""
    try:
        for group in read_lock():
            verify(group, target, data_dir)
    except ArchivesProblem as problem:
        raise JarsProblem(str(problem)) from None


def _check_fetched(pins: JarPins, work: Path) -> None:
    try:
        lock = read_lock()
        for group in pins.groups:
            expected = {file_name(key): digest for key, digest in lock.get(group.name, {}).items()}
            compare(work / "jars" / group.name, expected)
    except ArchivesProblem as problem:
        raise JarsProblem(f"The registry sent another archive. {problem}. {RENEW}") from None


def retrieve(
    pins: JarPins, work: Path, say: Callable[[str], None], name: str = "[artifact]-[revision].[ext]"
) -> None:
    """Fetch into `work/jars`, one directory per group. name: pattern of the archives' file names.

    Raises JarsProblem or JavaProblem.
    """
    java = find_java()
    (work / "settings.xml").write_text(SETTINGS)
    (work / "ivy.xml").write_text(ivy_module(pins))
    options = [*proxy_options(), *trust_options(java, work / "authorities.p12")]
    command = [java, *options, "-jar", ivy_jar(), "-cache", work / "cache"]
    command += ["-settings", work / "settings.xml", "-ivy", work / "ivy.xml"]
    command += ["-confs", *(group.name for group in pins.groups)]
    command += ["-retrieve", f"{work}/jars/[conf]/{name}"]
    output = _follow([str(part) for part in command], say)
    missing = [group.name for group in pins.groups if not (work / "jars" / group.name).is_dir()]
    if output.failed or missing:
        raise JarsProblem(explain(output.lines))


def proxy_options(environ: Mapping[str, str] = os.environ) -> list[str]:
    """Return Java's options for the proxy in the environment, which Java does not read by
    itself."""
    named = environ.get("HTTPS_PROXY") or environ.get("https_proxy")
    proxy = urlsplit(named or "")
    if not proxy.hostname:
        return []
    options = (f"proxyHost={proxy.hostname}", f"proxyPort={proxy.port or 3128}")
    return [f"-D{scheme}.{option}" for scheme in ("http", "https") for option in options]


def trust_options(java: Path, target: Path) -> list[str]:
    """Return options that make the environment's own Java trust this machine's authorities.

    Writes them to `target`. That Java knows only its vendor's authorities; any other Java was
    configured by whoever installed it.
    """
    trusted = list(_authorities()) if java == own_java() else []
    if not trusted:
        return []
    target.write_bytes(pkcs12.serialize_java_truststore(trusted, NoEncryption()))
    return [f"-Djavax.net.ssl.trustStore={target}", "-Djavax.net.ssl.trustStoreType=PKCS12"]


def _authorities() -> Iterator[pkcs12.PKCS12Certificate]:
    """Yield the certificates that this machine trusts, skipping malformed ones."""
    trusted = ssl.create_default_context().get_ca_certs(binary_form=True)
    for number, certificate in enumerate(map(_certificate, trusted)):
        if certificate:
            yield pkcs12.PKCS12Certificate(certificate, b"%d" % number)


def _certificate(der: bytes) -> Certificate | None:
    with warnings.catch_warnings(action="ignore"), suppress(ValueError):
        return load_der_x509_certificate(der)
    return None


@dataclass(frozen=True)
class _Output:
    failed: bool
    lines: list[str]


def _follow(command: list[str], say: Callable[[str], None]) -> _Output:
    lines, fetched = [], 0
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line.strip())
            if "[SUCCESSFUL ]" in line:
                fetched += 1
                if fetched % 10 == 0:
                    say(f"{fetched} archives fetched")
    return _Output(process.returncode != 0, lines)


def explain(lines: list[str]) -> str:
    """Return why Ivy, given its output by line, fetched no archives, in words for the user."""
    unresolved = sorted({line.split("::")[1].strip() for line in lines if ": not found" in line})
    silent = any(word in line for word in NETWORK_FAULTS for line in lines)
    if silent or not unresolved:
        return (
            "The registry of Java archives cannot be reached: check the network (and "
            "HTTPS_PROXY, where a proxy is needed), then start again."
        )
    return f"The registry of Java archives does not have {', '.join(unresolved)} (ops/jars.toml)."


def _put_in_place(pins: JarPins, work: Path, target: Path) -> None:
    (target / STAMP).unlink(missing_ok=True)
    for group in pins.groups:
        shutil.rmtree(target / group.name, ignore_errors=True)
        (work / "jars" / group.name).rename(target / group.name)
    (work / STAMP).write_text(pins.digest)
    (work / STAMP).rename(target / STAMP)


def ivy_jar() -> Path:
    """Return the Ivy archive in PySpark. Raises JarsProblem if there is none."""
    for jar in pyspark_jars().glob("ivy-*.jar"):
        return jar
    raise JarsProblem(
        f"No ivy-*.jar in {pyspark_jars()}: set up the environment anew (make clean)."
    )


def main() -> None:
    """Fetch into the configured directory. Exits with a message on failure."""
    target = load_settings().jars_dir
    try:
        fetch(target, lambda text: print(f"jars: {text}", flush=True))
    except (JarsProblem, JavaProblem) as problem:
        sys.exit(f"jars: {problem}")
    print(f"jars: complete in {target}")


if __name__ == "__main__":
    main()
