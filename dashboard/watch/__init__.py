"""What people see of assets and do to them."""
