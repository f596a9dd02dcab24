"""Which of the ranks' calls, and of their random draws, a reference gets."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import save_file

from dpcheck.verify.feed.recorded import RecordedRank
from dpcheck.verify.feed.schedule import counterparts
from dpcheck.verify.job import Order
from dpcheck.verify.recording import Draw, Place, Recording, Window, write

GET_BATCH = Place("/project/train.py", 12)


def schedule(order: Order, calls: int, micro_batches: int, numbers: int) -> list[list[tuple[int, int]]]:
    return [counterparts(order, 2, calls, micro_batches, number) for number in range(numbers)]


def test_the_union_of_the_ranks_stands_for_each_call() -> None:
    assert schedule("union", 2, 2, 2) == [[(0, 0), (1, 0)], [(0, 1), (1, 1)]]


def test_in_sequence_the_ranks_take_turns() -> None:
    assert schedule("sequence", 2, 2, 4) == [[(0, 0)], [(1, 0)], [(0, 1)], [(1, 1)]]


def test_in_sequence_the_calls_of_a_micro_batch_stay_together() -> None:
    assert schedule("sequence", 4, 2, 4) == [[(0, 0)], [(0, 1)], [(1, 0)], [(1, 1)]]


def test_the_whole_window_stands_for_each_micro_batch() -> None:
    everything = [[(0, 0), (0, 2), (1, 0), (1, 2)], [(0, 1), (0, 3), (1, 1), (1, 3)]]
    assert schedule("window", 4, 2, 4) == everything * 2


def rank_that_draws_ahead(folder: Path) -> RecordedRank:
    """Two windows of two forwards; before the first come a batch and one for evaluation, the rest are drawn ahead."""
    before = [[0, 0, 1, 2], [1, 2]]  # training forwards before each draw
    windows = []
    value = 0
    for index, forwards in enumerate(before):
        draws, values = [], {}
        for number, count in enumerate(forwards):
            draws.append(Draw("randint", [1], f"{value}", GET_BATCH, count))
            values[f"{number}"] = torch.tensor([value])
            value += 1
        save_file(values, folder / f"draws-{index}.safetensors")
        window = Window(index, 0, "SGD", Place(), [], [], {}, forwards=2, backwards=2)
        window.draws = draws
        windows.append(window)
    write(Recording("rank", 0, 2, "float64", "stopped", windows=windows), folder)
    return RecordedRank(folder)


def test_a_draw_belongs_to_the_forward_that_comes_next_even_across_a_step(tmp_path: Path) -> None:
    rank = rank_that_draws_ahead(tmp_path)

    def drawn(window: int, forward: int, number: int = 0) -> int | None:
        found = rank.drawn(window, forward, number)
        return None if found is None else int(found[1])

    assert [drawn(0, 0), drawn(0, 0, 1), drawn(0, 1), drawn(1, 0), drawn(1, 1), drawn(2, 0)] == [0, 1, 2, 3, 4, 5]
    assert drawn(0, 0, 2) is None
    assert drawn(3, 0) is None


def test_a_window_with_the_forwards_of_all_ranks_is_as_much_longer(tmp_path: Path) -> None:
    rank = rank_that_draws_ahead(tmp_path)
    assert [rank.moment(0, 3, times=2), rank.moment(0, 4, times=2), rank.moment(0, 2)] == [(0, 3), (1, 0), (1, 0)]
