"""Which of the ranks' micro-batches stand for one of the reference's."""

from __future__ import annotations

from dpcheck.verify.job import Order


def counterparts(order: Order, ranks: int, calls: int, micro_batches: int, number: int) -> list[tuple[int, int]]:
    """Ranks, and numbers of their calls, for the call `number` of a window of the reference.

    A rank makes `calls` of them in the window, as many for each of its micro-batches.
    """
    each = calls // micro_batches if micro_batches and calls % micro_batches == 0 else 1
    micro, place = divmod(number, max(each, 1))
    if order == "sequence":
        turn, rank = divmod(micro, ranks)
        return [(rank, turn * each + place)]
    if order == "window":
        return [(rank, turn * each + place) for rank in range(ranks) for turn in range(max(micro_batches, 1))]
    return [(rank, number) for rank in range(ranks)]
