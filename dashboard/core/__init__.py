"""What every package of the web side uses: time, Kafka, files, roles, rate limits."""
