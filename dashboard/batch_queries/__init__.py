"""What the pages of batch queries share: requested of the job, followed, cancelled, taken in."""
