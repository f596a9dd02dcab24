"""Putting the ranks' batches together again."""

from __future__ import annotations

import torch

from dpcheck.verify.feed.union import concatenated, joined, overlaid


def test_rows_stand_one_after_the_other_and_are_padded_on_the_right() -> None:
    union = concatenated([torch.ones(2, 3), torch.full((1, 2), 2.0)])
    assert union.tolist() == [[1, 1, 1], [1, 1, 1], [2, 2, 0]]


def test_a_scalar_stays_the_first_ranks() -> None:
    assert concatenated([torch.tensor(3), torch.tensor(4)]) == 3


def test_collated_batches_are_joined_tensor_by_tensor() -> None:
    union = joined([{"x": torch.zeros(1, 2), "n": 1}, {"x": torch.ones(2, 2), "n": 2}])
    assert union["x"].tolist() == [[0, 0], [1, 1], [1, 1]]
    assert union["n"] == 1


def test_what_ranks_collated_at_random_is_put_over_a_union_padded_on_the_right() -> None:
    new = torch.tensor([[7, 2, 0, 0], [7, 7, 5, 6]])  # 7: masked anew
    parts = [torch.tensor([[1, 2]]), torch.tensor([[3, 4, 5, 6]])]
    assert overlaid(new, parts).tolist() == [[1, 2, 0, 0], [3, 4, 5, 6]]


def test_what_ranks_collated_at_random_is_put_over_a_union_padded_on_the_left() -> None:
    new = torch.tensor([[0, 0, 7, 2], [7, 7, 5, 6]])
    parts = [torch.tensor([[1, 2]]), torch.tensor([[3, 4, 5, 6]])]
    assert overlaid(new, parts).tolist() == [[0, 0, 1, 2], [3, 4, 5, 6]]


def test_a_tensor_that_does_not_fit_its_parts_is_left() -> None:
    assert overlaid(torch.tensor([9, 9, 9]), [torch.tensor([1]), torch.tensor([2])]).tolist() == [9, 9, 9]
