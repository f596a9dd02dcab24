"""Did all ranks issue the same collectives in the same order? Compared group by group.

Equal means: name, reduction, shape, type and root. The lines may differ: a rank that sends and one that receives may
well stand in two branches. Point-to-point messages are no collectives, and object collectives have no shape.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Sequence

from dpcheck.verify.judge.defect import Defect, shown
from dpcheck.verify.judge.evidence import Evidence
from dpcheck.verify.recording import Collective, Place, Recording
from dpcheck.verify.result import Collectives

_POINT_TO_POINT = frozenset({"send", "recv", "isend", "irecv", "send_object_list", "recv_object_list"})
_ROOTED = frozenset(
    {"gather", "scatter", "reduce", "broadcast", "gather_object", "scatter_object_list", "broadcast_object_list"}
)
_TRUNCATED = "collectives-truncated"
Group = tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Meeting:
    """Where the ranks of a group part: the first collectives in their sequences that are not the same.

    None stands for a rank whose sequence has ended: it left, or has not come so far.
    """

    group: Group
    position: int
    entered: dict[int, Collective | None]
    later: dict[int, list[Collective]]  # what each rank issued from there on
    before: dict[int, list[Collective]]

    def visits(self, rank: int, place: Place) -> bool:
        """Whether the rank issues, at any time, a collective at this line."""
        return any(each.place == place for each in (*self.before[rank], *self.later[rank]))


@dataclasses.dataclass
class Judgement:
    collectives: Collectives
    meeting: Meeting | None = None  # the first place where two ranks entered different collectives
    defects: list[Defect] = dataclasses.field(default_factory=list)


def judge(evidence: Evidence) -> Judgement:
    """Collectives over all steps that every rank closed, and whatever came after on the way to an early end."""
    result = Judgement(Collectives())
    recordings = evidence.recordings
    if len(recordings) < 2:
        return result
    found = result.collectives
    whole = evidence.world_size == len(recordings) and not any(each.ending == "cut" for each in recordings)
    by_rank = {recording.rank: recording for recording in recordings}
    groups = [group for group in _groups(recordings) if by_rank.keys() >= set(group)]
    found.compared = sum(min(len(_sequence(by_rank[rank], group)) for rank in group) for group in groups)
    meetings = [each for group in groups if (each := part(recordings, group)) is not None]
    clash = next((each for each in meetings if clashes(each)), None)
    cut = any(note.kind == _TRUNCATED for recording in recordings for note in recording.notes)
    if clash is not None:
        found.matched, found.difference = False, describe(clash)
        result.meeting = clash
        result.defects.append(explain(clash))
    elif whole:
        uneven = next((each for each in meetings if _uneven(each, evidence)), None)
        found.matched = uneven is None
        if uneven is not None and not cut:
            found.difference, result.meeting = describe(uneven), uneven
            result.defects.append(explain(uneven))
    _count(found, recordings[0], evidence.steps)
    return result


def _groups(recordings: Sequence[Recording]) -> list[Group]:
    groups = dict.fromkeys(tuple(each.group) for recording in recordings for each in recording.collectives)
    return [group for group in groups if len(group) > 1]


def _sequence(recording: Recording, group: Group) -> list[Collective]:
    return [each for each in recording.collectives if tuple(each.group) == group and each.name not in _POINT_TO_POINT]


def part(recordings: Sequence[Recording], group: Group) -> Meeting | None:
    """The first position at which the ranks' sequences differ; None where they are the same to the end."""
    by_rank = {recording.rank: recording for recording in recordings}
    sequences = {rank: _sequence(by_rank[rank], group) for rank in group if rank in by_rank}
    if len(sequences) < 2:
        return None
    for position in range(max(map(len, sequences.values()))):
        entered = {rank: each[position] if position < len(each) else None for rank, each in sequences.items()}
        present = [each for each in entered.values() if each is not None]
        if len(present) < len(entered) or any(not alike(present[0], each) for each in present[1:]):
            later = {rank: each[position:] for rank, each in sequences.items()}
            before = {rank: each[:position] for rank, each in sequences.items()}
            return Meeting(group, position, entered, later, before)
    return None


def alike(one: Collective, other: Collective) -> bool:
    """Whether two ranks may enter these two together."""
    if (one.name, one.operation) != (other.name, other.operation):
        return False
    if one.name in _ROOTED and None not in (one.root, other.root) and one.root != other.root:
        return False
    if one.name in ("scatter", "all_to_all"):
        return True  # what a rank sends there may be of any shape, or nothing
    shapes = one.shape is None or other.shape is None or one.shape == other.shape
    return shapes and (one.dtype is None or other.dtype is None or one.dtype == other.dtype)


def clashes(meeting: Meeting) -> bool:
    """Whether two ranks entered collectives that do not belong together, rather than one having stopped."""
    present = [each for each in meeting.entered.values() if each is not None]
    return any(not alike(present[0], each) for each in present[1:])


def _uneven(meeting: Meeting, evidence: Evidence) -> bool:
    """Whether a rank issued more collectives than another within the steps that both closed."""
    last = evidence.steps[-1] if evidence.steps else -1
    return any(each is not None and each.window <= last for each in meeting.entered.values())


def describe(meeting: Meeting) -> str:
    """`rank 0: all_reduce(SUM) [3] at train.py:12; rank 1: barrier at train.py:20`."""
    return "; ".join(
        f"rank {rank}: {called(each) if each is not None else 'no more collectives'}"
        for rank, each in meeting.entered.items()
    )


def called(each: Collective, *, place: bool = True) -> str:
    """A collective in words, with the line that called it."""
    inside = f"({each.operation})" if each.operation else ""
    shape = f" of {each.dtype or 'shape'} {each.shape}" if each.shape is not None else ""
    owner = " of the wrapper" if each.by == "wrapper" else ""
    where = f" at {shown(each.place)}" if place and each.place.path else ""
    return f"{each.name}{inside}{shape}{owner}{where}"


def explain(meeting: Meeting) -> Defect:
    """Which of the collectives some ranks never reach, or in which the ranks bring tensors of different shapes."""
    present = {rank: each for rank, each in meeting.entered.items() if each is not None}
    said = (describe(meeting),)
    same = {(each.name, each.operation, each.place) for each in present.values()}
    if len(present) == len(meeting.entered) and len(same) == 1:
        any_ = next(iter(present.values()))
        shapes = ", ".join(f"rank {rank} {each.shape}" for rank, each in present.items())
        return Defect(
            "DP505",
            f"the ranks bring tensors of different shapes to {any_.name}: {shapes}",
            any_.place,
            help="pad to the largest shape, or gather the lengths first",
            evidence=said,
            alternatives=("DP501",),
            exact=True,
        )
    alone = first_alone(meeting)
    if alone is not None:
        rank, each = alone
        others = [other for other in meeting.entered if other != rank]
        related = tuple(
            (found.place, f"rank {other} is here meanwhile")
            for other in others
            if (found := meeting.entered[other]) is not None and found.place.path and found.place != each.place
        )
        return Defect(
            "DP501",
            f"{called(each, place=False)} is reached by rank {rank} and never by "
            f"{', '.join(f'rank {other}' for other in others)}",
            each.place,
            related,
            "let every rank reach it, or none",
            said,
            ("DP502", "DP505"),
            exact=True,
        )
    first = next(each for each in present.values())
    return Defect(
        "DP502",
        "the ranks issue the same collectives a different number of times: one of them skipped a batch or left a loop",
        first.place,
        tuple((each.place, f"rank {rank} is here") for rank, each in present.items() if each.place != first.place),
        "let all ranks decide together, by a reduced value",
        said,
        ("DP501", "DP601", "DP210"),
    )


def first_alone(meeting: Meeting) -> tuple[int, Collective] | None:
    """A rank whose collective stands on a line at which some other rank issues none, ever: the script's own first."""
    present = [(rank, each) for rank, each in meeting.entered.items() if each is not None and each.place.path]
    for rank, each in sorted(present, key=lambda pair: pair[1].by == "wrapper"):
        others = [other for other in meeting.entered if other != rank]
        if not any(meeting.visits(other, each.place) for other in others):
            if each.by != "wrapper" or _only_there(meeting, rank, each):
                return rank, each
    return None


def first_stray(meeting: Meeting) -> tuple[int, Collective] | None:
    """A collective on a line of one rank alone that met another one by chance, before the ranks parted."""
    for position in range(meeting.position):
        together = {rank: each[position] for rank, each in meeting.before.items()}
        if len({each.place for each in together.values()}) < 2:
            continue
        for rank, each in together.items():
            others = [other for other in together if other != rank]
            if each.place.path and not any(meeting.visits(other, each.place) for other in others):
                return rank, each
    return None


def _only_there(meeting: Meeting, rank: int, each: Collective) -> bool:
    """Whether a wrapper's collective stands where this rank makes no backward or forward of the training."""
    places = collections.Counter(other.place for other in meeting.before[rank] if other.by == "wrapper")
    return each.place not in places and bool(meeting.before[rank])


def _count(found: Collectives, recording: Recording, steps: Sequence[int]) -> None:
    """Per step: those of the last step, the first one being special (DDP builds its buckets)."""
    if not steps:
        return
    own = [each for each in recording.collectives if each.window == steps[-1] and each.name not in _POINT_TO_POINT]
    found.per_step, found.bytes_per_step = len(own), sum(each.bytes for each in own)
