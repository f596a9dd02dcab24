"""Mutation: right programs, broken in every way that the catalogue knows, to see which defects `dpcheck check` misses.

`python -m tests.mutation` prints the share found, operator by operator.
"""
