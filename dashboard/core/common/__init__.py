"""Code that all packages share: pages, tables, forms, times, Kafka, Celery."""
