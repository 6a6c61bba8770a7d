"""Records as bytes: codec, topic names, partitioner."""
