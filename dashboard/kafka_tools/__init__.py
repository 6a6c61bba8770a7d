"""Kafka's own tools as commands: topics, producing, consuming in a group, a group's offsets."""
