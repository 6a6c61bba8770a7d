"""What librdkafka and brokers say, as errors of the bus: what was refused is named, and no more."""

from __future__ import annotations

import confluent_kafka as ck
import pytest

from bus.base import AccessRefused, BusError, LoginRefused, NotPermitted, Unavailable, no_answer
from bus.kafka_errors import Login, ProducerRefusals, bus_error, refused

WORDS = "sasl_ssl://kafka-1:9093/bootstrap: SASL authentication error: no (after 3ms in state AUTH)"


@pytest.mark.parametrize(
    ("code", "place"),
    [
        (ck.KafkaError.TOPIC_AUTHORIZATION_FAILED, "topic orders"),
        (ck.KafkaError.GROUP_AUTHORIZATION_FAILED, "group orders"),
        (ck.KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "transactional id orders"),
    ],
)
def test_a_missing_right_is_named_with_its_place(code, place):
    error = bus_error(ck.KafkaError(code), "orders", "READ")
    assert isinstance(error, NotPermitted)
    assert f"Kafka refuses the {place} (" in str(error)
    assert str(error).endswith(
        f"the user of TALLYBOARD_KAFKA_USERNAME needs the right READ on the {place}"
    )
    assert no_answer(error) == str(error)


def test_who_may_write_nowhere_is_refused_by_the_cluster():
    error = refused(ck.KafkaError.CLUSTER_AUTHORIZATION_FAILED, "orders", "WRITE")
    assert str(error).endswith("needs the right IDEMPOTENT_WRITE on the cluster")


@pytest.mark.parametrize(
    ("code", "words", "setting"),
    [
        (ck.KafkaError._AUTHENTICATION, WORDS, "KAFKA_USERNAME and TALLYBOARD_KAFKA_PASSWORD"),
        (ck.KafkaError.SASL_AUTHENTICATION_FAILED, "no", "TALLYBOARD_KAFKA_PASSWORD"),
        (ck.KafkaError._AUTHENTICATION, "mechanism handshake failed", "KAFKA_SASL_MECHANISM"),
        (ck.KafkaError.UNSUPPORTED_SASL_MECHANISM, "no", "TALLYBOARD_KAFKA_SASL_MECHANISM"),
        (ck.KafkaError.ILLEGAL_SASL_STATE, "no", "TALLYBOARD_KAFKA_SECURITY_PROTOCOL"),
        (ck.KafkaError._SSL, "certificate verify failed", "TALLYBOARD_KAFKA_CA_FILE"),
    ],
)
def test_a_refused_login_names_the_setting_and_no_broker(code, words, setting):
    error = bus_error(ck.KafkaError(code, words))
    assert isinstance(error, LoginRefused)
    assert isinstance(error, Unavailable)  # what was under way may have arrived
    assert str(error).endswith(setting)
    assert "kafka-1" not in str(error)
    assert "ms in state" not in str(error)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (ck.KafkaError._TRANSPORT, "Disconnected"),
        (ck.KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down"),
        (ck.KafkaError._AUTHENTICATION, "SaslAuthenticateRequest failed: Local: Broker transport"),
        (
            ck.KafkaError._SSL,
            "SSL handshake failed: Disconnected: connecting to a PLAINTEXT broker",
        ),
        (ck.KafkaError.UNKNOWN_TOPIC_OR_PART, "no such topic"),
    ],
)
def test_a_broker_that_goes_away_refuses_nobody(code, words):
    error = bus_error(ck.KafkaError(code, words))
    assert not isinstance(error, AccessRefused)
    assert no_answer(error).startswith("Kafka does not answer: ")


def test_a_lost_broker_is_put_down_to_the_refused_login_until_one_answers(caplog):
    login, lost = Login(), Unavailable("timed out")
    assert login.cause(lost) is lost
    for _ in range(3):
        login.on_error(ck.KafkaError(ck.KafkaError._AUTHENTICATION, WORDS))
    login.on_error(ck.KafkaError(ck.KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down"))
    assert isinstance(login.cause(lost), LoginRefused)
    other = BusError("no such topic")
    assert login.cause(other) is other
    assert [line.split(" (")[0] for line in caplog.messages] == ["Kafka refuses the login"]
    login.taken()
    assert login.cause(lost) is lost


def test_what_ends_a_producer_is_its_reason_and_not_that_of_the_next_one():
    refusals, lost = ProducerRefusals(), Unavailable("timed out")
    assert refusals.pause() is None
    refusals.fatal(refused(ck.KafkaError.CLUSTER_AUTHORIZATION_FAILED))
    assert isinstance(refusals.cause(lost), NotPermitted)
    assert isinstance(refusals.pause(), NotPermitted)
    assert refusals.of_next().cause(lost) is lost
    refusals.taken()
    assert refusals.cause(lost) is lost
