"""What pages of errands share: asked of the job, followed, cancelled, taken in."""
