"""What the demo's mail catcher has kept, as pages."""
