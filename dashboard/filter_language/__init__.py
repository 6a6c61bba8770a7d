"""The filter language: its terms, its parser, the addresses of filtered boards."""
