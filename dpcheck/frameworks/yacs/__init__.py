"""YACS configurations."""
