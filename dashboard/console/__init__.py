"""The console's pages of the job."""
