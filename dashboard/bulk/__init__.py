"""One command for many assets: chosen, reviewed, carried out by the worker, answered."""
