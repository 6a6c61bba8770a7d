"""The audit: who did what, when, from where and with what outcome, in entries that stay."""
