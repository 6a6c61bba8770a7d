"""Records as bytes: codecs, topic names, the partitioner."""
