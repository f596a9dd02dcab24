"""Rows and batches of rows as dictionaries."""

from dpcheck_intrinsics import constant, kind_of, many, map_values, operation


def any_row():
    """A row of any columns: the same on every rank."""
    row = {}
    row[constant("str")] = constant()
    return row


def first_of(values):
    """One value that stands for all of a list."""
    for value in values:
        return value


def batch_of(row, rows=None):
    """Columns: a list of values for each."""
    if rows is not None:
        return map_values(lambda value: [value for _ in rows], row)
    return map_values(many, row)


def tensor_of(value):
    kind = kind_of(value)
    if kind == "sequence" or kind == "number":
        return operation("tensor", [value])
    return value
