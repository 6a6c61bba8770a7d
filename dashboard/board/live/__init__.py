"""The live board: snapshots and changes over websockets."""
