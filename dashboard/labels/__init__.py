"""Labels of assets: customer, tier, owner, or whatever else people and agents say of them."""
