"""What the job and the pipelines report of themselves, and requests to them."""
