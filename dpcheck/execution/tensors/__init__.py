"""Arithmetic over facts: what is known of the result of an operation from what is known of its operands.

Operations of tensors, arrays and plain numbers are the same here. Each module answers for one kind of them; those that
are called by name are listed at its end. What the rest of the interpreter asks for is below.
"""

from dpcheck.execution.tensors.arithmetic import binary, unary
from dpcheck.execution.tensors.attributes import attribute, set_attribute
from dpcheck.execution.tensors.autograd import in_place, recorded
from dpcheck.execution.tensors.combining import elementwise, of_unread_object, test_facts, unknown_result
from dpcheck.execution.tensors.comparison import compare, rank_comparison
from dpcheck.execution.tensors.creation import filled
from dpcheck.execution.tensors.indexing import get_item, own_slot, set_item
from dpcheck.execution.tensors.means import added, averaged
from dpcheck.execution.tensors.operations import call
from dpcheck.execution.tensors.reduction import reduced
from dpcheck.execution.tensors.rows import row
from dpcheck.execution.tensors.sizes import count_facts, filtered_length, length_even

__all__ = [
    "added",
    "attribute",
    "averaged",
    "binary",
    "call",
    "compare",
    "count_facts",
    "elementwise",
    "filled",
    "filtered_length",
    "get_item",
    "in_place",
    "length_even",
    "of_unread_object",
    "own_slot",
    "rank_comparison",
    "recorded",
    "reduced",
    "row",
    "set_attribute",
    "set_item",
    "test_facts",
    "unary",
    "unknown_result",
]
