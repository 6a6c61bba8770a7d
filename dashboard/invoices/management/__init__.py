"""The commands of the invoices."""
