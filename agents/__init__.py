"""Everything that reports: a client library, a probe, demo agents, and a log handler for Kafka."""

from agents.log_handler import KafkaHandler
from agents.reporter import Reporter, ReportRefused
from agents.spool import SpoolFull, SpoolInUse
from bus.kafka_client import KafkaClient

__all__ = [
    "KafkaClient",
    "KafkaHandler",
    "ReportRefused",
    "Reporter",
    "SpoolFull",
    "SpoolInUse",
]
