"""How long everything is kept: one list of it, applied by the worker, changed on one page."""
