"""The seed shop: orders, invoices, and views of products."""
