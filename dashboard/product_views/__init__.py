"""Views of products: the mail as their count passes a thousand."""
