"""Did the one process compute on what the ranks computed on? Only then does a difference say anything of the script."""

from __future__ import annotations

import collections
from collections.abc import Sequence

import numpy as np

from dpcheck.verify.recording import Window

_RELATIVE = 1e-6
_ALL = 4096  # rows by digest that a window keeps


def fed_unlike(reference: Window, ranks: Sequence[Window], name: str) -> str | None:
    """What else entered the models of the reference `name`; None where it was the same, or nobody can tell."""
    if name == "window" or not _same_shapes(reference, ranks):
        return None  # a batch that is padded further is another one row by row
    if not _same_rows(reference, ranks):
        return (
            f"in step {reference.index} the one process could not be given the batches of the ranks: what the script "
            "draws or reads for them could not be repeated"
        )
    parts = [ranks[0]] if name == "sequence" else ranks
    # Rows that hold NaN or infinity have no number: they sort behind the others, and are as good as equal.
    expected = np.sort(np.concatenate([np.array(part.first_input, dtype=np.float64) for part in parts]))
    found = np.sort(np.array(reference.first_input, dtype=np.float64))
    scale = float(np.abs(expected[np.isfinite(expected)]).max(initial=0.0))
    alike = len(found) == len(expected) and np.allclose(
        found, expected, rtol=_RELATIVE, atol=_RELATIVE * scale, equal_nan=True
    )
    if alike:
        return None
    return (
        f"in step {reference.index} other numbers entered the model of the one process than those of the ranks: the "
        "script changes its batches in a way that could not be repeated, at random or with regard to the whole batch"
    )


def _same_shapes(reference: Window, ranks: Sequence[Window]) -> bool:
    shapes = {tuple(window.first_shape[1:]) for window in (reference, *ranks)}
    return len(shapes) == 1 and all(window.first_input for window in (reference, *ranks))


def _same_rows(reference: Window, ranks: Sequence[Window]) -> bool:
    """Whether the same rows entered, where no loader brought them."""
    if not reference.inputs or not all(window.inputs for window in ranks) or any(w.fetches for w in ranks):
        return True
    if len(reference.inputs) >= _ALL or sum(len(window.inputs) for window in ranks) >= _ALL:
        return True
    together = collections.Counter(row for window in ranks for row in window.inputs)
    return collections.Counter(reference.inputs) == together
