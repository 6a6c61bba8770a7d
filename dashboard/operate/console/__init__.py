"""The job, partitions, topics and caught mail, and Kafka's tools on the command line."""
