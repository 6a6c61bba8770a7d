"""Tags and filters of the page of invoices."""
