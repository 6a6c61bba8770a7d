"""What a bucket keeps: checkpoints, the state store, restores, quarantine."""
