"""Kafka behind one module, and a twin of it in memory that keeps the same contract."""
