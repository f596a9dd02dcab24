"""The ranks see disjoint data."""
