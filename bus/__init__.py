"""Kafka behind one module, with an in-memory twin that fulfils the same contract."""
