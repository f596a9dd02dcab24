"""The ranks start from the same weights and keep them."""
