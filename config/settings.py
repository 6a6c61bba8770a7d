"""Settings of every process, from the environment and `.env`; read only by entry points."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Callable, Collection
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import quote, urlsplit

from pydantic import (
    AfterValidator,
    Field,
    PrivateAttr,
    SecretStr,
    ValidationError,
    ValidationInfo,
    field_validator,
)
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from config.jobs import MAIN, division_problem, job_of, read_division
from config.secret_files import SecretFiles

PREFIX = "TALLYBOARD_"

Port = Annotated[int, Field(ge=1, le=65535)]
SecurityProtocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
LogLevel = Literal["debug", "info", "warning", "error"]

LOOPBACK = "127.0.0.1"
DEMO_MAIL = "Demo mail"
"""Name of the demo's mail channel."""
DEMO_POINTS = "Demo: points"
"""Name of the demo's channel for notices of earned points."""
STORED = ("orders", "attack", "connectivity")
"""Scenarios kept by the stores, as far as they exist, if no setting names any."""


WITH_PASSWORD = re.compile(r"://[^/]*:[^/]*@")
CHECKPOINTS = (
    r"(?!\S*://[^/]*:[^/]*@)(/|file:///|(?!file:)[a-z][a-z0-9+.-]*://[^\s/?#]+/)[^\s?#]*[^\s?#/]/?"
)
"""A path, or a URL with a folder and without a password."""
STATE_PARTITIONS = {"one machine": 2, "cluster": 8}
"""State partitions of a new checkpoint, by where Spark runs."""


def _absolute(path: Path) -> Path:
    return path.expanduser().absolute()


AbsolutePath = Annotated[Path, AfterValidator(_absolute)]


class Settings(BaseSettings):
    """What may differ between two installations on one machine. Times are in ms.

    Each field is read from `TALLYBOARD_<FIELD>`; an empty value means "not set". Relative paths are
    resolved against the directory in which the process starts.
    """

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_file=".env", env_ignore_empty=True, extra="ignore", frozen=True
    )

    data_dir: AbsolutePath = Field(default=Path(".data"), validate_default=True)
    jars_dir: AbsolutePath = Field(default=Path(".jars"), validate_default=True)
    scenarios: AbsolutePath = Field(default=Path("scenarios.toml"), validate_default=True)
    probes: AbsolutePath = Field(default=Path("probes.toml"), validate_default=True)
    views: AbsolutePath | None = None
    demo: bool = True

    http_host: str = "127.0.0.1"
    http_port: Port = 8000
    target_port: Port | None = None
    allowed_hosts: str = "localhost,127.0.0.1,[::1]"
    https: bool = False
    trusted_proxies: int = Field(default=0, ge=0, le=9)
    secret_key: SecretStr | None = None
    data_keys: SecretStr | None = None
    session_s: int = Field(default=43_200, ge=60)
    session_idle_s: int = Field(default=3_600, ge=60)
    command_keys: AbsolutePath | None = None
    push_key: SecretStr | None = None

    http_head_s: float = Field(default=10, ge=0.1, le=600)
    http_body_s: float = Field(default=30, ge=0.1, le=3600)
    http_connections: int = Field(default=1000, ge=1)
    http_connections_per_address: int = Field(default=250, ge=1)
    sockets: int = Field(default=2000, ge=1)
    sockets_per_session: int = Field(default=50, ge=1)
    sockets_per_user: int = Field(default=100, ge=1)

    kafka_port: Port = 19092
    kafka_bootstrap: str | None = None
    kafka_security_protocol: SecurityProtocol = "PLAINTEXT"
    kafka_sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] | None = None
    kafka_username: str | None = None
    kafka_password: SecretStr | None = None
    kafka_ca_file: AbsolutePath | None = None
    topic_prefix: str = ""
    replication: int = Field(default=1, ge=1)

    public_url: str | None = None
    organisation: str = Field(default="", max_length=80)
    smtp_host: str | None = None
    smtp_port: Port = 587
    smtp_user: str | None = None
    smtp_password: SecretStr | None = None
    smtp_tls: Literal["none", "starttls", "tls"] = "starttls"
    smtp_from: str = "tallyboard@localhost"
    private_targets: bool = False
    mail_catcher_port: Port | None = None

    # Passwords come first: the URLs' validators add them to the URLs.
    database_password: SecretStr | None = None
    database_url: str | None = None
    redis_password: SecretStr | None = None
    redis_url: str | None = None

    stores: int = Field(default=0, ge=0, le=16)
    stores_scenarios: str | None = None
    stores_keep: Literal["disk", "memory", "redis"] = "disk"
    stores_port: Port | None = None
    stores_secret: SecretStr | None = None

    checkpoint: str | None = None
    spark_master: str | None = None
    spark_jars: AbsolutePath | None = None
    spark_secret: SecretStr | None = None
    spark_secret_file: AbsolutePath | None = None
    spark_conf: AbsolutePath | None = None
    spark_python: AbsolutePath | None = None
    spark_memory: str = "3g"
    batch_query_memory: str = "768m"
    batch_query_cores: int = Field(default=2, ge=1, le=64)
    pipelines: str = "report-rates"
    pipelines_master: str | None = None
    pipelines_memory: str = "512m"
    guard_clock: Literal["event", "wall"] = "event"
    product_counts: str = "every"
    invoices_url: str | None = None
    points_channel: str | None = None
    views_channel: str | None = None
    loyalty_rate: Decimal = Field(default=Decimal("0.02"), ge=0, le=1, decimal_places=6)
    batch_query_s: int = Field(default=900, ge=10)
    spark_ui_port: int = Field(default=0, ge=0, le=65535)
    engine: Literal["kernel", "python"] = "kernel"
    trigger: Literal["real-time", "micro-batch"] | None = None
    batch_s: int = Field(default=300, ge=5)
    batch_reports: int = Field(default=500_000, ge=1)
    warm_up_s: int = Field(default=15, ge=0)
    state_partitions: int | None = Field(default=None, ge=1, le=256)
    tick_ms: int = Field(default=250, ge=10)
    trigger_ms: int = Field(default=200, ge=0)
    standby: bool = False
    job_scenarios: str = ""

    incident_window_s: int = Field(default=300, ge=0, le=86_400)
    incident_label: str = ""
    ticket_url: str = ""

    log_level: LogLevel = "info"
    app_logs: bool = True

    _job: str = PrivateAttr(default=MAIN)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - of a folder of secrets
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Return the sources of settings, in order of precedence."""
        named = env_settings, dotenv_settings
        return init_settings, *named, SecretFiles(settings_cls, SECRETS, *named)

    @field_validator("topic_prefix")
    @classmethod
    def _topic_prefix(cls, value: str) -> str:
        if not re.fullmatch(r"[A-Za-z0-9._-]{0,100}", value):
            raise ValueError("expected at most 100 of letters, digits, '.', '_' and '-'")
        return value

    @field_validator("spark_memory", "batch_query_memory", "pipelines_memory")
    @classmethod
    def _spark_memory(cls, value: str) -> str:
        if not re.fullmatch(r"[1-9][0-9]*[mg]", value):
            raise ValueError("expected a size such as 1500m or 3g")
        return value

    @field_validator("pipelines")
    @classmethod
    def _pipelines(cls, value: str) -> str:
        if not re.fullmatch(r"[a-z][a-z0-9-]*( *, *[a-z][a-z0-9-]*)*", value):
            raise ValueError("expected all, none, or names with commas between")
        return value

    @field_validator("job_scenarios")
    @classmethod
    def _job_scenarios(cls, value: str) -> str:
        read_division(value)
        return value

    @field_validator("product_counts")
    @classmethod
    def _product_counts(cls, value: str) -> str:
        if not re.fullmatch(r"every|changed|min=[1-9][0-9]{0,17}", value):
            raise ValueError("expected every, changed, or min=N")
        return value

    @field_validator("secret_key", "stores_secret")
    @classmethod
    def _secret_key(cls, value: SecretStr | None) -> SecretStr | None:
        if value and (why := weakness(value.get_secret_value())):
            raise ValueError(why)
        return value

    @field_validator("data_keys")
    @classmethod
    def _data_keys(cls, value: SecretStr | None) -> SecretStr | None:
        for key in _listed(value.get_secret_value()) if value else ():
            if why := weakness(key):
                raise ValueError(why)
        return value

    @field_validator("push_key")
    @classmethod
    def _push_key(cls, value: SecretStr | None) -> SecretStr | None:
        if value and not re.match(r"-----BEGIN (EC )?PRIVATE KEY-----\n", value.get_secret_value()):
            raise ValueError(
                "expected a private key as PEM, as of openssl genpkey -algorithm EC "
                "-pkeyopt ec_paramgen_curve:P-256"
            )
        return value

    @field_validator("kafka_bootstrap")
    @classmethod
    def _kafka_bootstrap(cls, value: str | None) -> str | None:
        for server in (value or "").split(",") if value else ():
            if not re.fullmatch(r"(\[[0-9A-Fa-f:]+\]|[^\s:,/]+):[0-9]{1,5}", server.strip()):
                raise ValueError("expected host:port, or several with commas between")
        return value

    @field_validator("public_url")
    @classmethod
    def _public_url(cls, value: str | None) -> str | None:
        if value and not re.fullmatch(r"https?://[^\s/?#@]+", value):
            raise ValueError("expected https://host[:port], without a path")
        return value

    @field_validator("ticket_url")
    @classmethod
    def _ticket_url(cls, value: str) -> str:
        if value and not re.fullmatch(r"https?://[^\s/@]+/\S*\{ticket\}\S*", value):
            raise ValueError("expected https://host/path with {ticket} in the path")
        return value

    @field_validator("database_url")
    @classmethod
    def _database_url(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value and not re.match(r"(sqlite|postgres|postgresql)://", value):
            raise ValueError("expected sqlite:///<path> or postgres://user:password@host/name")
        return value if not value or value.startswith("sqlite:") else _with_password(value, info)

    @field_validator("invoices_url")
    @classmethod
    def _invoices_url(cls, value: str | None) -> str | None:
        if value and not re.fullmatch(r"/.+|[a-z][a-z0-9+.-]*://[^\s?#@]+", value):
            raise ValueError("expected a path that begins with /, or scheme://place/folder")
        return value

    @field_validator("checkpoint")
    @classmethod
    def _checkpoint(cls, value: str | None) -> str | None:
        if value is None:
            return None
        if not re.fullmatch(CHECKPOINTS, value):
            raise ValueError(
                "expected a URL with a folder, such as hdfs://host:8020/tallyboard or "
                "s3a://bucket/tallyboard, or a path that begins with /; keys and passwords belong "
                "into Hadoop's own configuration"
            )
        url = value.rstrip("/")
        return f"file://{url}" if url.startswith("/") else url

    @field_validator("redis_url")
    @classmethod
    def _redis_url(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value and not re.match(r"(rediss?|unix)://", value):
            raise ValueError("expected redis://host:port/number")
        return _with_password(value, info) if value else value

    @property
    def embedded_broker(self) -> bool:
        """Whether the product starts its own broker, as no external Kafka is configured."""
        return self.kafka_bootstrap is None

    @property
    def bootstrap(self) -> str:
        """Kafka servers as `host:port[,host:port]`."""
        return self.kafka_bootstrap or f"127.0.0.1:{self.kafka_port}"

    @property
    def database(self) -> str:
        """The database as a URL; by default an SQLite file in the data directory."""
        return self.database_url or f"sqlite:///{self.data_dir}/tallyboard.sqlite3"

    @property
    def local_url(self) -> str:
        """The web server's address for a browser on this machine, without a trailing slash.

        It is printed at the start.
        """
        anywhere = self.http_host in ("0.0.0.0", "::", "")  # noqa: S104
        return f"http://{LOOPBACK if anywhere else self.http_host}:{self.http_port}"

    @property
    def own_url(self) -> str:
        """The address at which people reach the product, without a trailing slash."""
        return self.public_url or self.local_url

    @property
    def command_keys_file(self) -> Path:
        """The file of the keys that sign commands; by default in the data directory."""
        return self.command_keys or self.data_dir / "command-keys.json"

    @property
    def target(self) -> int:
        """Port of the demo's supervised target; by default the one after the web server's."""
        return self.target_port or self.http_port + 1

    @property
    def catches_mail(self) -> bool:
        """Whether the demo's mail catcher runs, as no mail server is configured."""
        return self.demo and self.embedded_broker and self.smtp_host is None

    @property
    def mail_port(self) -> int:
        """Port of the mail catcher; by default the second after the web server's."""
        return self.mail_catcher_port or self.http_port + 2

    @property
    def mail_dir(self) -> Path:
        """Where the mail catcher keeps mails."""
        return self.data_dir / "mail"

    @property
    def mail_server(self) -> tuple[str, int] | None:
        """Host and port of the mail server, or None if there is none."""
        if self.smtp_host:
            return self.smtp_host, self.smtp_port
        return (LOOPBACK, self.mail_port) if self.catches_mail else None

    @property
    def invoices_table(self) -> str:
        """Location of the invoice archive: a URL or a path; by default in the data directory."""
        return self.invoices_url or str(self.data_dir / "invoices")

    def runs(self, pipeline: str) -> bool:
        """Return whether a pipeline is enabled."""
        names = [name.strip() for name in self.pipelines.split(",")]
        return "all" in names or pipeline in names

    @property
    def points_target(self) -> str | None:
        """Name of the channel that announces earned points; the demo has its own."""
        demo = DEMO_POINTS if self.catches_mail and self.runs("loyalty") else None
        return self.points_channel or demo

    @property
    def views_target(self) -> str | None:
        """Name of the channel that announces how often products are viewed."""
        demo = DEMO_MAIL if self.catches_mail and self.runs("product-counts") else None
        return self.views_channel or demo

    def stored(self, known: Collection[str]) -> list[str]:
        """Return the scenarios whose states the stores keep, out of the known ones.

        Raises ValueError if an unknown one is configured.
        """
        if self.stores_scenarios is None:
            return [name for name in STORED if name in known]
        if self.stores_scenarios in ("all", "none"):
            return list(known) if self.stores_scenarios == "all" else []
        names = [name.strip() for name in self.stores_scenarios.split(",")]
        for name in names:
            if name not in known:
                raise ValueError(
                    f"Setting {PREFIX}STORES_SCENARIOS names {name!r}: expected all, none, or some "
                    f"of {', '.join(known)} with commas between"
                )
        return list(dict.fromkeys(names))

    @property
    def jobs(self) -> dict[str, tuple[str, ...]]:
        """The scenarios of each named job; the main one carries all others."""
        return read_division(self.job_scenarios)

    @property
    def job(self) -> str:
        """Name of the job that this process belongs to; empty for the main one, and for others."""
        return self._job

    def for_job(self, name: str) -> Settings:
        """Return the settings of a process of a job. Raises ValueError for one that is not named in
        TALLYBOARD_JOB_SCENARIOS."""
        if name and name not in self.jobs:
            known = ", ".join(self.jobs) or "none"
            raise ValueError(
                f"--job {name}: {PREFIX}JOB_SCENARIOS names no such job: expected one of {known}"
            )
        own = self.model_copy()
        own._job = name  # noqa: SLF001
        return own

    def carried(self, known: Collection[str]) -> list[str]:
        """Return the scenarios that this process's job carries, out of the known ones.

        Raises ValueError if the setting and the known scenarios do not fit.
        """
        if why := division_problem(self.jobs, known):
            raise ValueError(f"Setting {PREFIX}JOB_SCENARIOS is {self.job_scenarios!r}: {why}")
        return [name for name in known if job_of(self.jobs, name) == self._job]

    @property
    def checkpoint_dir(self) -> Path:
        """Where the job keeps its checkpoints; a named one has a folder of its own."""
        folder = self.data_dir / "checkpoint"
        return folder / "jobs" / self._job if self._job else folder

    @property
    def checkpoint_place(self) -> str:
        """Where the job keeps its checkpoints, as a path or a URL."""
        if self.checkpoint is None:
            return str(self.checkpoint_dir)
        return f"{self.checkpoint}/jobs/{self._job}" if self._job else self.checkpoint

    def ui_port_of(self, job: str) -> int:
        """Return the port of Spark's page of a job, 0 for none: each named job has the next one."""
        every = [MAIN, *self.jobs]
        return self.spark_ui_port + every.index(job) if self.spark_ui_port and job in every else 0

    @property
    def store_ports(self) -> range:
        """Ports of the supervised store servers; by default from ten after the web server's."""
        first = self.stores_port or self.http_port + 10
        return range(first, first + self.stores)

    @property
    def asks_stores(self) -> bool:
        """Whether there are store servers: supervised ones, or others with the same secret."""
        return self.stores > 0 or self.stores_secret is not None

    @property
    def one_machine(self) -> bool:
        """Whether all of Spark runs in the job's own JVM, so that nobody needs to reach it."""
        return (self.spark_master or "local").partition("[")[0] == "local"

    @property
    def effective_trigger(self) -> Literal["real-time", "micro-batch"]:
        """How queries run: as configured, else in Real-time Mode if no port is open."""
        return self.trigger or ("real-time" if self.one_machine else "micro-batch")

    @property
    def first_state_partitions(self) -> int:
        """State partitions of a checkpoint that begins now."""
        place = "one machine" if self.one_machine else "cluster"
        return self.state_partitions or STATE_PARTITIONS[place]

    def kafka_options(self) -> dict[str, str]:
        """Return the connection options under librdkafka's names."""
        options = {
            "bootstrap.servers": self.bootstrap,
            "security.protocol": self.kafka_security_protocol,
            "sasl.mechanism": self.kafka_sasl_mechanism,
            "sasl.username": self.kafka_username,
            "sasl.password": _reveal(self.kafka_password),
            "ssl.ca.location": self.kafka_ca_file and str(self.kafka_ca_file),
        }
        return {name: value for name, value in options.items() if value}

    def spark_kafka_options(self) -> dict[str, str]:
        """Return the options of Spark's Kafka source and sink (`kafka.` before Java's names)."""
        options = {
            "kafka.bootstrap.servers": self.bootstrap,
            "kafka.security.protocol": self.kafka_security_protocol,
        }
        if self.kafka_ca_file:
            options["kafka.ssl.truststore.type"] = "PEM"
            options["kafka.ssl.truststore.location"] = str(self.kafka_ca_file)
        if self.kafka_sasl_mechanism:
            options["kafka.sasl.mechanism"] = self.kafka_sasl_mechanism
            options["kafka.sasl.jaas.config"] = self._jaas()
        return options

    def _jaas(self) -> str:
        module = (
            "org.apache.kafka.common.security.plain.PlainLoginModule"
            if self.kafka_sasl_mechanism == "PLAIN"
            else "org.apache.kafka.common.security.scram.ScramLoginModule"
        )
        user, password = self.kafka_username or "", _reveal(self.kafka_password) or ""
        return f"{module} required username={_quoted(user)} password={_quoted(password)};"

    def web_secret(self) -> str:
        """Return the key that signs sessions: as configured, else kept in `data_dir/secret-key`.

        The first call writes that file (readable only by its owner). Raises OSError if the data
        directory cannot be written.
        """
        return _reveal(self.secret_key) or kept_secret(self.data_dir / "secret-key")

    def cluster_secret(self) -> str:
        """Return the secret that authenticates Spark's processes on a cluster.

        It is the configured one, else one kept in `data_dir/spark-secret`. Raises OSError.
        """
        return _reveal(self.spark_secret) or kept_secret(self.data_dir / "spark-secret")

    def store_secret(self) -> str:
        """Return the secret for requests to store servers.

        It is the configured one, else one kept in `data_dir/stores-secret`. Raises OSError.
        """
        return _reveal(self.stores_secret) or kept_secret(self.data_dir / "stores-secret")

    def sealing_keys(self) -> list[str]:
        """Return the keys that encrypt the secrets in the database: the first encrypts, all
        decrypt.

        They are the configured ones, else those kept in `data_dir/data-key`, one per line. Raises
        the same as `web_secret`.
        """
        return _listed(_reveal(self.data_keys) or kept_secret(self.data_dir / "data-key"))


def kept_secret(path: Path) -> str:
    """Return the secret in `path`, created at the first call. Safe if two processes race.

    Exits with a message if the secret is weak.
    """
    kept = kept_text(path, lambda: secrets.token_urlsafe(50))
    for key in _listed(kept) or [""]:
        if why := weakness(key):
            raise SystemExit(f"{path}: {why}; delete the file, and a new one is made")
    return kept


def kept_text(path: Path, make: Callable[[], str]) -> str:
    """Return the text in `path`, created with `make` at the first call.

    If two processes race, only one creates it.
    """
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f"{path.name}.{os.getpid()}")
        draft.touch(mode=0o600)
        draft.write_text(make())
        try:
            os.link(draft, path)
        except FileExistsError:
            pass
        finally:
            draft.unlink()
    return path.read_text()


def _listed(keys: str) -> list[str]:
    """Return the keys in a text, separated by commas, spaces or line ends."""
    return keys.replace(",", " ").split()


# Minimum length of a strong key, characters.
LEAST_KEY = 32
# Minimum number of distinct characters in it.
LEAST_DISTINCT = 8
# A key that repeats this many characters or fewer is weak too.
LONGEST_PERIOD = 16


def weakness(key: str) -> str:
    """Return what is expected instead of a weak secret key, empty for a strong one."""
    if len(key) < LEAST_KEY:
        return f"expected at least {LEAST_KEY} random characters, as of openssl rand -hex 32"
    if len(set(key)) < LEAST_DISTINCT:
        return f"expected at least {LEAST_DISTINCT} different characters: this is easily guessed"
    if any(key[period:] == key[:-period] for period in range(1, LONGEST_PERIOD + 1)):
        return "expected random characters, not a few that are repeated"
    return ""


def load_settings() -> Settings:
    """Return the settings. Exits with a message that names each wrong value."""
    try:
        return Settings()
    except ValidationError as error:
        raise SystemExit(explain(error)) from None


def _with_password(url: str, info: ValidationInfo) -> str:
    """Return a URL with the password from its separate setting.

    Raises ValueError if the URL contains one too.
    """
    name = (info.field_name or "").replace("url", "password")
    password = _reveal(info.data.get(name))
    if not password:
        return url
    parts = urlsplit(url)
    if parts.password:
        raise ValueError(f"expected no password in it beside {PREFIX}{name.upper()}")
    user, _, host = parts.netloc.rpartition("@")
    return parts._replace(netloc=f"{user}:{quote(password, safe='')}@{host}").geturl()


def explain(error: ValidationError) -> str:
    """Return a validation error for users: the setting, its value, and what was expected."""
    return "\n".join(_explain_one(dict(item)) for item in error.errors())


SECRETS = (
    "secret_key",
    "data_keys",
    "push_key",
    "spark_secret",
    "stores_secret",
    "kafka_password",
    "smtp_password",
    "database_password",
    "database_url",
    "redis_password",
    "redis_url",
)
"""Settings whose value is never shown. Each may be in a file named by `<name>_FILE`."""


def _explain_one(item: dict[str, object]) -> str:
    location = item["loc"]
    name = str(location[0]) if isinstance(location, tuple) and location else "?"
    secret = name in SECRETS or WITH_PASSWORD.search(str(item["input"]))
    value = "(hidden)" if secret else repr(item["input"])
    expected = str(item["msg"]).removeprefix("Value error, ")
    setting = name if name.startswith(PREFIX) else f"{PREFIX}{name.upper()}"
    return f"Setting {setting} is {value}: {expected[:1].lower()}{expected[1:]}"


def _reveal(secret: SecretStr | None) -> str | None:
    return secret.get_secret_value() if secret else None


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
