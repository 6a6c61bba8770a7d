"""The demo's agents: worlds, simulator, tills, visitors, and the target that probes watch."""
