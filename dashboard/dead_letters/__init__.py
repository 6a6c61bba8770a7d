"""Refused records: kept, shown with their fault, mended, sent again or discarded."""
