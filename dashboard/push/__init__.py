"""Web Push: notifications in users' browsers, also while no page of ours is open."""
