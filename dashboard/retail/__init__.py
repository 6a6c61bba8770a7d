"""The seeds' shop: orders, invoices, views of products."""
