"""Pages of the job, of its queries and of partitions."""
