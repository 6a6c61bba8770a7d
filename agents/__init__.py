"""What reports: a client library, a probe, a simulator, a target; the tills; logs into Kafka."""

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
