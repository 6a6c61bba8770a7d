"""The running job: launch, leadership, plans, driver."""
