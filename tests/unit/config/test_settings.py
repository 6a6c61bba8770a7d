"""Settings: defaults, what derives from them, and one clear message for a wrong value."""

from __future__ import annotations

import secrets
from pathlib import Path

import pytest

from config.entry import unknown_settings
from config.settings import SECRETS, Settings, kept_secret, load_settings, weakness


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, and no setting in the environment."""
    import os

    for name in [name for name in os.environ if name.startswith("TALLYBOARD_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_defaults(bare: Path) -> None:
    settings = load_settings()
    assert settings.data_dir == bare / ".data"
    assert settings.database == f"sqlite:///{bare}/.data/tallyboard.sqlite3"
    assert settings.bootstrap == "127.0.0.1:19092"
    assert settings.embedded_broker
    assert settings.demo
    assert (settings.http_port, settings.target) == (8000, 8001)


def test_environment_goes_before_env_file(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (bare / ".env").write_text("TALLYBOARD_HTTP_PORT=8100\nTALLYBOARD_DEMO=0\nOTHER=1\n")
    monkeypatch.setenv("TALLYBOARD_HTTP_PORT", "8200")
    settings = load_settings()
    assert settings.http_port == 8200
    assert not settings.demo


def test_empty_value_means_not_set(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TALLYBOARD_KAFKA_BOOTSTRAP", "")
    assert load_settings().embedded_broker


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("HTTP_PORT", "http", "integer"),
        ("HTTP_PORT", "70000", "65535"),
        ("DEMO", "perhaps", "boolean"),
        ("KAFKA_BOOTSTRAP", "kafka", "host:port"),
        ("TOPIC_PREFIX", "a b", "letters, digits"),
        ("SPARK_MEMORY", "lots", "1500m or 3g"),
        ("DATABASE_URL", "mysql://x", "postgres://"),
        ("REDIS_URL", "localhost", "redis://"),
        ("PRODUCT_COUNTS", "min=0", "every, changed, or min=N"),
        ("LOG_LEVEL", "loud", "'debug'"),
        ("TICK_MS", "1", "greater than or equal to 10"),
    ],
)
def test_wrong_value_names_setting_and_expectation(
    bare: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str, expected: str
) -> None:
    monkeypatch.setenv(f"TALLYBOARD_{name}", value)
    with pytest.raises(SystemExit) as ended:
        load_settings()
    message = str(ended.value)
    assert f"TALLYBOARD_{name} " in message
    assert expected in message
    assert "\n" not in message


def test_message_hides_credentials(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TALLYBOARD_DATABASE_URL", "mysql://root:hunter2@db/x")
    with pytest.raises(SystemExit) as ended:
        load_settings()
    assert "hunter2" not in str(ended.value)


def test_kafka_options_in_both_dialects(bare: Path) -> None:
    settings = Settings(
        kafka_bootstrap="k1:9093,k2:9093",
        kafka_security_protocol="SASL_SSL",
        kafka_sasl_mechanism="SCRAM-SHA-512",
        kafka_username="board",
        kafka_password='se"cret',  # type: ignore[arg-type]
        kafka_ca_file=Path("/etc/ca.pem"),
    )
    assert settings.kafka_options() == {
        "bootstrap.servers": "k1:9093,k2:9093",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "board",
        "sasl.password": 'se"cret',
        "ssl.ca.location": "/etc/ca.pem",
    }
    spark = settings.spark_kafka_options()
    assert spark["kafka.bootstrap.servers"] == "k1:9093,k2:9093"
    assert spark["kafka.ssl.truststore.location"] == "/etc/ca.pem"
    assert r'password="se\"cret";' in spark["kafka.sasl.jaas.config"]
    assert "scram" in spark["kafka.sasl.jaas.config"]


def test_plain_kafka_needs_no_more_than_servers(bare: Path) -> None:
    assert Settings().kafka_options() == {
        "bootstrap.servers": "127.0.0.1:19092",
        "security.protocol": "PLAINTEXT",
    }


def test_web_secret_is_made_once_and_private(bare: Path) -> None:
    settings = load_settings()
    first = settings.web_secret()
    path = bare / ".data" / "secret-key"
    assert settings.web_secret() == first == path.read_text()
    assert len(first) >= 50
    assert path.stat().st_mode & 0o777 == 0o600


def test_configured_secret_wins(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TALLYBOARD_SECRET_KEY", "b9f0c2d1e8a7465f9c3e2d1a0b8f7e6d5c4b3a29")
    assert load_settings().web_secret() == "b9f0c2d1e8a7465f9c3e2d1a0b8f7e6d5c4b3a29"
    assert not (bare / ".data").exists()


@pytest.mark.parametrize("name", ["SECRET_KEY", "DATA_KEYS"])
@pytest.mark.parametrize(
    ("weak", "expected"),
    [
        ("from-outside", "expected at least 32 random characters"),
        ("k" * 50, "expected at least 8 different characters"),
        ("abcdefg" * 7, "expected at least 8 different characters"),
        ("change-me!" * 5, "not a few that are repeated"),
        ("0123456789abcdef" * 4, "not a few that are repeated"),
    ],
)
def test_a_weak_key_is_refused_and_not_shown(
    bare: Path, monkeypatch: pytest.MonkeyPatch, name: str, weak: str, expected: str
) -> None:
    monkeypatch.setenv(f"TALLYBOARD_{name}", weak)
    with pytest.raises(SystemExit) as ended:
        load_settings()
    message = str(ended.value)
    assert f"TALLYBOARD_{name} is (hidden): " in message
    assert expected in message
    assert weak not in message


@pytest.mark.parametrize("bytes_", [16, 24, 32, 64])
def test_random_keys_are_not_weak(bytes_: int) -> None:
    for _ in range(200):
        key = secrets.token_hex(bytes_)
        assert weakness(key) == "", key


@pytest.mark.parametrize("kept", ["", "short", "k" * 50])
def test_a_weak_key_in_a_file_is_refused_too(bare: Path, kept: str) -> None:
    settings = load_settings()
    settings.data_dir.mkdir()
    for name, read in (
        ("secret-key", settings.web_secret), ("data-key", settings.sealing_keys)
    ):  # fmt: skip
        (settings.data_dir / name).write_text(kept)
        with pytest.raises(SystemExit, match=f"/{name}: expected at least"):
            read()


def test_keys_that_seal_are_several_the_first_first(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = load_settings().sealing_keys()
    assert made == load_settings().sealing_keys()
    assert (bare / ".data" / "data-key").stat().st_mode & 0o777 == 0o600
    new, old = secrets.token_hex(32), secrets.token_hex(32)
    (bare / ".data" / "data-key").write_text(f"{new}\n{old}\n")
    assert load_settings().sealing_keys() == [new, old]
    monkeypatch.setenv("TALLYBOARD_DATA_KEYS", f"{old}, {new}")
    assert load_settings().sealing_keys() == [old, new]


def test_loser_of_a_race_reads_the_winners_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "secret"
    path.write_text("winner-" * 3 + "0123456789abc")
    monkeypatch.setattr(Path, "exists", lambda _self: False)
    assert kept_secret(path) == "winner-" * 3 + "0123456789abc"
    assert [entry.name for entry in tmp_path.iterdir()] == ["secret"]


# ---- secrets in files -------------------------------------------------------------------------

KEY = "b9f0c2d1e8a7465f9c3e2d1a0b8f7e6d5c4b3a29"
OTHER = "0f1e2d3c4b5a69788796a5b4c3d2e1f0a1b2c3d4"


@pytest.mark.parametrize("name", SECRETS)
def test_each_secret_can_be_in_a_file(
    bare: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    given = {
        "database_url": "postgres://u:p@db/x",
        "redis_url": "redis://:p@cache/0",
        "push_key": "-----BEGIN PRIVATE KEY-----\nMIGH\n-----END PRIVATE KEY-----",
    }.get(name, KEY)
    (bare / "secret").write_text(f"\n{given}\n")
    monkeypatch.setenv(f"TALLYBOARD_{name.upper()}_FILE", str(bare / "secret"))
    secret = getattr(load_settings(), name)
    assert (secret if isinstance(secret, str) else secret.get_secret_value()) == given
    assert unknown_settings() == []


def test_a_secret_that_is_a_secret_in_the_code_can_be_in_a_file() -> None:
    secret = {name for name, field in Settings.model_fields.items() if "Secret" in str(field)}
    assert secret | {"database_url", "redis_url"} == set(SECRETS)


def test_the_file_of_a_secret_is_named_in_env_file_too(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, key in (("one", KEY), ("two", OTHER)):
        (bare / name).write_text(key)
    (bare / ".env").write_text("TALLYBOARD_SECRET_KEY_FILE=one\n")
    assert load_settings().web_secret() == KEY
    monkeypatch.setenv("TALLYBOARD_SECRET_KEY_FILE", "two")
    assert load_settings().web_secret() == OTHER
    monkeypatch.setenv("TALLYBOARD_SECRET_KEY_FILE", "")
    assert load_settings().web_secret() == KEY


@pytest.mark.parametrize(
    ("kept", "setting", "expected"),
    [
        (None, "SECRET_KEY_FILE", "cannot be read (No such file or directory): expected a file"),
        (b"", "SECRET_KEY_FILE", "the file is empty: expected the secret"),
        (b" \n", "SECRET_KEY_FILE", "the file is empty: expected the secret"),
        (b"\xff\xfe", "SECRET_KEY_FILE", "cannot be read (it is no text): expected a file"),
        (b"hunter2", "SECRET_KEY", "expected at least 32 random characters"),
    ],
)
def test_a_file_without_a_good_secret_stops_the_start_and_is_not_shown(
    bare: Path,
    monkeypatch: pytest.MonkeyPatch,
    kept: bytes | None,
    setting: str,
    expected: str,
) -> None:
    if kept is not None:
        (bare / "secret").write_bytes(kept)
    monkeypatch.setenv("TALLYBOARD_SECRET_KEY_FILE", "secret")
    with pytest.raises(SystemExit) as ended:
        load_settings()
    shown = "(hidden)" if setting == "SECRET_KEY" else "'secret'"
    assert str(ended.value).startswith(f"Setting TALLYBOARD_{setting} is {shown}: {expected}")
    assert "hunter2" not in str(ended.value)


def test_a_secret_is_given_in_one_way(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (bare / "secret").write_text(KEY)
    monkeypatch.setenv("TALLYBOARD_SECRET_KEY", OTHER)
    monkeypatch.setenv("TALLYBOARD_SECRET_KEY_FILE", "secret")
    with pytest.raises(
        SystemExit, match="_FILE is 'secret': expected this or TALLYBOARD_SECRET_KEY"
    ):
        load_settings()


def test_passwords_complete_their_urls(bare: Path) -> None:
    def of(**given: str) -> Settings:
        return Settings(**given)  # type: ignore[arg-type]

    board = of(
        database_url="postgres://board@db:5432/x?sslmode=require", database_password="a/b@ c"
    )
    assert board.database == "postgres://board:a%2Fb%40%20c@db:5432/x?sslmode=require"
    cache = of(redis_url="rediss://cache:6380/1", redis_password="p:%")
    assert cache.redis_url == "rediss://:p%3A%25@cache:6380/1"
    assert of(database_url="postgres://u:p@db/x").database == "postgres://u:p@db/x"
    assert of(database_url="sqlite:////x", database_password="p").database == "sqlite:////x"
    assert of(database_password="p", redis_password="p").redis_url is None


@pytest.mark.parametrize(
    ("name", "url"), [("DATABASE", "postgres://u:hunter2@db/x"), ("REDIS", "redis://:hunter2@r/0")]
)
def test_a_url_with_a_password_beside_another_is_refused(
    bare: Path, monkeypatch: pytest.MonkeyPatch, name: str, url: str
) -> None:
    monkeypatch.setenv(f"TALLYBOARD_{name}_URL", url)
    monkeypatch.setenv(f"TALLYBOARD_{name}_PASSWORD", "hunter3")
    with pytest.raises(SystemExit) as ended:
        load_settings()
    assert str(ended.value) == (
        f"Setting TALLYBOARD_{name}_URL is (hidden): expected no password in it beside "
        f"TALLYBOARD_{name}_PASSWORD"
    )


def test_a_push_key_that_is_none_is_refused(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TALLYBOARD_PUSH_KEY", KEY)
    with pytest.raises(SystemExit, match="PUSH_KEY is \\(hidden\\): expected a private key as PEM"):
        load_settings()


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ("hdfs://names:8020/tallyboard/", "hdfs://names:8020/tallyboard"),
        ("s3a://bucket/soc/board", "s3a://bucket/soc/board"),
        ("abfss://box@account.example/a", "abfss://box@account.example/a"),
        ("file:///srv/shared", "file:///srv/shared"),
        ("/srv/shared/", "file:///srv/shared"),
    ],
)
def test_checkpoints_are_at_a_url(bare: Path, given: str, url: str) -> None:
    assert Settings(checkpoint=given).checkpoint == url


@pytest.mark.parametrize(
    "given",
    ["srv/x", "hdfs://names:8020", "s3a://bucket/", "file://srv/x", "/", "hdfs:///x y"],
)
def test_what_is_no_place_of_checkpoints_is_refused(
    bare: Path, monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    monkeypatch.setenv("TALLYBOARD_CHECKPOINT", given)
    with pytest.raises(SystemExit, match=f"CHECKPOINT is '{given}': expected a URL with a folder"):
        load_settings()


def test_a_place_of_checkpoints_holds_no_password(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TALLYBOARD_CHECKPOINT", "s3a://key:hunter2@bucket/board")
    with pytest.raises(SystemExit, match="Hadoop's own configuration") as ended:
        load_settings()
    assert "hunter2" not in str(ended.value)
