"""What an admin does to the job, the log and Kafka."""
