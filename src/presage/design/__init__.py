"""Networks designed for a table of data by a search that watches their training curves."""
