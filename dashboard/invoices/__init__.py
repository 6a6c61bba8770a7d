"""Today's invoices: lines and points read from Kafka, their sums, the page."""
