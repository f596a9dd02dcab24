"""How the ranks ended. A hang is an answer: who waits where, for whom, and who has left."""

from __future__ import annotations

import collections
import dataclasses
import pathlib
import re
from collections.abc import Sequence
from typing import Literal

from dpcheck.verify.job import INTERNAL
from dpcheck.verify.judge import collectives, loops
from dpcheck.verify.judge.collectives import Meeting
from dpcheck.verify.judge.defect import Defect, line_of, ranks_named, shown, times
from dpcheck.verify.judge.evidence import Evidence, Process
from dpcheck.verify.places import Places
from dpcheck.verify.recording import Collective, Failure, Place, Recording
from dpcheck.verify.result import RankEnd, Verdict

_TRANSPORT = re.compile(
    r"gloo|third_party/|Connection (closed|reset|refused)|Broken pipe|Timed out waiting|Socket|ProcessGroup|NCCL|"
    r"TCPStore|DistNetworkError|DistBackendError|Application timeout",
    re.IGNORECASE,
)
_FRAME = re.compile(r'File "(.+)", line (\d+) in ')
_TORCH = "/torch/"
_TOGETHER = "let all ranks decide together, by a reduced value"
_LASTING = ("DP502", "DP601", "DP210", "DP501")

_CONNECTION = re.compile(r"Connection (closed|reset)|Broken pipe")
_OF_TORCH = ("DistBackendError", "DistNetworkError", "DistStoreError")
_ABORTS = ("SIGABRT", "SIGSEGV", "SIGBUS")

State = Literal["done", "left", "waiting", "failed", "dead", "slow"]


@dataclasses.dataclass
class Judgement:
    """`verdict` is set where the endings alone decide."""

    ends: list[RankEnd]
    verdict: Verdict | None = None
    reason: str = ""
    defects: list[Defect] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True)
class _Rank:
    """One rank at its end. `waiting_in` is the collective that it did not come out of."""

    rank: int
    process: Process
    state: State
    steps: int
    place: Place
    waiting_in: Collective | None
    inside: str
    still: bool = False  # it stands in code of the script's own, and waits for no other rank

    @property
    def recording(self) -> Recording | None:
        return self.process.recording


def judge(evidence: Evidence) -> Judgement:
    """The endings of all ranks; no verdict where every rank came to its last step or to the end of the script."""
    places = Places(pathlib.Path(evidence.settings.script))
    ranks = [_look(rank, process, places) for rank, process in enumerate(evidence.ranks)]
    result = Judgement([_describe(rank) for rank in ranks])
    by_state: dict[State, list[_Rank]] = collections.defaultdict(list)
    for rank in ranks:
        by_state[rank.state].append(rank)
    if by_state["dead"] or by_state["failed"]:
        faulty = next((rank for rank in by_state["dead"] if _failed_in_dpcheck(rank)), None)
        if faulty is not None:
            result.verdict, result.reason = "inconclusive", _fault(faulty)
            return result
        own = [rank for rank in (*by_state["failed"], *by_state["dead"]) if not _because_of_peers(rank)]
        if own:
            result.ends = [_describe(rank, told=rank in own) for rank in ranks]
            result.verdict, result.reason = "script-error", _own_error(own, len(ranks))
            return result
    if by_state["waiting"] or by_state["failed"] or by_state["dead"]:
        result.verdict = "hang" if by_state["waiting"] else "mismatch"
        result.reason = _who_waits(ranks)
        defect = _explain(ranks, evidence)
        if defect is not None:
            result.defects.append(defect)
        return result
    if by_state["slow"]:
        steps = min(rank.steps for rank in ranks)
        seconds = max(rank.process.ending.seconds for rank in ranks)
        result.verdict = "inconclusive"
        made = f"after {seconds:.0f} s the ranks had made {times(steps, 'step')} and were still at work"
        result.reason = f"{made}: --timeout gives them more"
        return result
    if by_state["left"] and by_state["done"] and len({rank.steps for rank in ranks}) > 1:
        result.verdict, result.reason = "mismatch", _who_waits(ranks)
        defect = _explain(ranks, evidence)
        if defect is not None:
            result.defects.append(defect)
    return result


def _look(rank: int, process: Process, places: Places) -> _Rank:
    recording, ending = process.recording, process.ending
    state: State
    if ending.how in ("hung", "timed-out"):
        state = "waiting" if ending.how == "hung" else "slow"
    elif recording is None or ending.how in ("exited", "killed"):
        state = "dead"
    elif recording.ending == "stopped":
        state = "done"
    elif recording.ending == "ended":
        state = "left"
    else:
        state = "failed"
    failure = recording.failure if recording is not None else None
    waiting_in = _unfinished(recording) if state in ("waiting", "failed", "dead") else None
    place, inside = ending.last.place, ending.last.inside
    if failure is not None:
        place, inside = failure.place, failure.collective or ""
    elif recording is not None and state in ("done", "left", "failed"):
        place, inside = recording.left_at, ""
    if state == "waiting" and inside.startswith("Join's"):
        state = "done"  # it answers for a rank that has more data and was stopped after its last step
    if waiting_in is not None and state == "waiting":
        place = waiting_in.place
    if waiting_in is None and state in ("waiting", "dead") and inside:
        waiting_in = _from_status(inside, place)
    still = False
    if state == "waiting" and waiting_in is None:
        place, in_torch = _stack(ending.stacks, places) or (place, True)
        still = not in_torch and not inside
    # The last sign of life of one that left nothing else may be the step itself.
    steps = len(process.windows) if recording is not None else ending.last.step + (ending.last.what == "step")
    return _Rank(rank, process, state, steps, place, waiting_in, inside, still)


def _stack(stacks: str, places: Places) -> tuple[Place, bool] | None:
    """The innermost line of the user's code, in the main thread first, and whether it called into torch."""
    for thread in sorted(stacks.split("\n\n"), key=lambda each: not each.rstrip().endswith(" in <module>")):
        above: list[str] = []
        for path, line in _FRAME.findall(thread):
            if places.is_users(path):
                return Place(path, int(line)), any(_TORCH in other for other in above)
            above.append(path)
    return None


def _unfinished(recording: Recording | None) -> Collective | None:
    """The collective that the process was in: the first of those that it entered last and that never came back."""
    if recording is None:
        return None
    last: Collective | None = None
    for each in reversed(recording.collectives):
        if each.finished:
            break
        last = each
    return last


def _from_status(inside: str, place: Place) -> Collective | None:
    """What a process that left no recording said it was in: "dist.barrier", "DDP's all_reduce"."""
    owner, _, name = inside.replace("wait of ", "").replace("'s ", ".").rpartition(".")
    if not name or not owner:
        return None
    return Collective(name, None, None, None, [], "script" if owner == "dist" else "wrapper", place, 0, finished=False)


def _describe(rank: _Rank, *, told: bool = True) -> RankEnd:
    """`told` False: what it left to be read is not of interest."""
    failure = rank.recording.failure if rank.recording is not None else None
    said = {
        "done": "stopped by dpcheck after its last step",
        "left": "left the script" if rank.place.path else "came to the end of the script",
        "waiting": "stands still" if rank.still else "waits",
        "slow": "was still at work",
        "failed": "raised an exception",
        "dead": _death(rank),
    }[rank.state]
    if rank.state == "failed" and failure is None and rank.recording is not None:
        said = f"exited with status {rank.recording.status}"
    elif failure is not None and _lost_the_connection(failure):
        said, failure, told = "lost the connection to another rank", None, False
    return RankEnd(
        rank=rank.rank,
        how=said,
        steps=rank.steps,
        path=line_of(rank.place)[0],
        line=rank.place.line,
        inside=rank.inside,
        message=_one_line(failure) if failure is not None else "",
        traceback=(failure.traceback if failure is not None else _tail(rank)) if told else "",
        last_seen=rank.state == "dead",
    )


def _death(rank: _Rank) -> str:
    ending = rank.process.ending
    if ending.signal:
        why = ", as the system does when memory runs out" if ending.signal == "SIGKILL" else ""
        return f"was killed by {ending.signal}{why}"
    return f"exited with status {ending.status}" if ending.status is not None else "left nothing behind"


def _failed_in_dpcheck(rank: _Rank) -> bool:
    return rank.recording is None and rank.process.ending.status == INTERNAL


def _fault(rank: _Rank) -> str:
    printed = rank.process.ending.output.rstrip().rpartition("\n")[2]
    return (
        f"dpcheck itself failed on rank {rank.rank}, which says nothing about the script: {printed} "
        "(--keep FOLDER leaves all that it printed, in output.txt)"
    )


def _tail(rank: _Rank) -> str:
    if rank.state == "waiting":
        return rank.process.ending.stacks
    return rank.process.ending.output[-4000:] if rank.state in ("dead", "failed") else ""


def _one_line(failure: Failure) -> str:
    first = failure.message.strip().splitlines()
    return f"{failure.type}: {first[0]}" if first else failure.type


def _because_of_peers(rank: _Rank) -> bool:
    """Whether the process died in, or because of, a collective: that is no error of the script's own."""
    failure = rank.recording.failure if rank.recording is not None else None
    if failure is not None:
        transport = _TRANSPORT.search(failure.message) or _TRANSPORT.search(failure.type)
        kind = failure.type.rpartition(".")[2]
        own = kind in ("TypeError", "ValueError", "ImportError", "AttributeError")
        return bool(transport) and not own and (failure.collective is not None or kind in _OF_TORCH)
    return rank.state == "dead" and rank.process.ending.signal in _ABORTS and bool(rank.inside)


def _lost_the_connection(failure: Failure) -> bool:
    return failure.collective is not None and _CONNECTION.search(failure.message) is not None


def _own_error(own: Sequence[_Rank], count: int) -> str:
    """What the first rank died of, and who else did of the same."""
    said = _died_of(own[0])
    alike = [rank.rank for rank in own if _died_of(rank) == said]
    return f"{'every rank' if len(alike) == count else ranks_named(alike)} {said}"


def _died_of(rank: _Rank) -> str:
    failure = rank.recording.failure if rank.recording is not None else None
    said = f"raised {_one_line(failure)}" if failure is not None else _describe(rank).how
    where = " at" if rank.state == "failed" else ", last seen at"
    return f"{said}{where} {shown(rank.place)}" if rank.place.path else said


def _who_waits(ranks: Sequence[_Rank]) -> str:
    """`rank 0 waits in barrier at train.py:12; rank 1 has left after 3 steps`."""
    return "; ".join(_stands(rank) for rank in ranks)


def _stands(rank: _Rank) -> str:
    at = f" at {shown(rank.place)}" if rank.place.path else ""
    if rank.state == "done":
        return f"rank {rank.rank} has made its {times(rank.steps, 'step')}"
    if rank.state == "left":
        return f"rank {rank.rank} has left after {times(rank.steps, 'step')}{at}"
    if rank.state in ("failed", "dead"):
        return f"rank {rank.rank} broke off in step {rank.steps}{at}"
    if rank.still:
        return f"rank {rank.rank} stands still{at}, in no collective"
    if rank.waiting_in is not None:
        return f"rank {rank.rank} waits in {_called(rank)}{at}"
    return f"rank {rank.rank} waits{f' in {rank.inside}' if rank.inside else ''}{at}"


def _called(rank: _Rank) -> str:
    found = rank.waiting_in
    assert found is not None
    if found.by == "wrapper":
        return f"the wrapper's {found.name}"
    return found.name


# -- why


def _explain(ranks: Sequence[_Rank], evidence: Evidence) -> Defect | None:
    if any(rank.still for rank in ranks):
        return None  # what keeps it there is nothing that the ranks do together
    recordings = evidence.recordings
    gone = [rank for rank in ranks if rank.state in ("left", "done")]
    waiting = [rank for rank in ranks if rank.state in ("waiting", "failed", "dead")] or [
        rank for rank in ranks if rank.state == "done"
    ]
    meeting = _meeting(recordings, ranks)
    behind = _behind_by_a_batch(ranks)
    if behind is not None:
        return _skipped(behind, ranks)
    if meeting is not None and (early := _past_the_loop(meeting, recordings)) is not None:
        return _left_the_loop(early, ranks)
    if meeting is not None and collectives.clashes(meeting):
        defect = collectives.explain(meeting)
        if defect.code != "DP502":
            return _with_places(defect, waiting)
    if meeting is not None and (alone := _alone(meeting) or collectives.first_stray(meeting)) is not None:
        rank, each = alone
        return _with_places(
            Defect(
                "DP501",
                f"{each.name} is reached by rank {rank} and never by the others",
                each.place,
                help="let every rank reach it, or none",
                evidence=(_who_waits(ranks),),
                alternatives=("DP502", "DP505"),
            ),
            [other for other in waiting if other.rank != rank],
        )
    left = [rank for rank in gone if rank.state == "left"]
    if left:
        return _left_early(left[0], waiting[0], ranks)
    if gone or meeting is not None:
        return _skipped(waiting[0], ranks)
    return _by_status(waiting, ranks)


def _meeting(recordings: Sequence[Recording], ranks: Sequence[_Rank]) -> Meeting | None:
    """Where the ranks part: in a group in which one of them waits, if there is such a group."""
    if len(recordings) < len(ranks):
        return None
    groups = dict.fromkeys(
        tuple(each.group) for recording in recordings for each in recording.collectives if len(each.group) > 1
    )
    waited = [tuple(rank.waiting_in.group) for rank in ranks if rank.waiting_in is not None and rank.waiting_in.group]
    for group in (*waited, *groups):
        found = collectives.part(recordings, group)
        if found is not None:
            return found
    return None


def _past_the_loop(meeting: Meeting, recordings: Sequence[Recording]) -> int | None:
    """The rank whose collective stands behind the loop that another is still in, making a step as both did before.

    One that has begun a further pass over the data is not still in the loop: it went by.
    """
    passes = {recording.rank: [loader.passes for loader in recording.loaders] for recording in recordings}
    for rank, each in meeting.entered.items():
        for other, inside in meeting.entered.items():
            if each is None or inside is None or other == rank or inside.by != "wrapper":
                continue
            went_by = any(theirs > own for theirs, own in zip(passes[other], passes[rank], strict=False))
            if not went_by and meeting.visits(rank, inside.place) and loops.is_past(each.place, inside.place):
                return rank
    return None


def _left_the_loop(early: int, ranks: Sequence[_Rank]) -> Defect:
    waiting = next(rank for rank in ranks if rank.rank != early)
    left = next(rank for rank in ranks if rank.rank == early)
    return Defect(
        "DP502",
        f"{_left_after(left)} while rank {waiting.rank} went on",
        waiting.place,
        ((left.place, f"rank {early} is here"),) if left.place.path else (),
        _TOGETHER,
        (_who_waits(ranks),),
        _LASTING,
    )


def _behind_by_a_batch(ranks: Sequence[_Rank]) -> _Rank | None:
    """The rank that waits, in its pass, for one that is through with the pass because it left out a batch."""
    for rank in ranks:
        if rank.recording is None or not _at_a_boundary(rank.recording) or not _left_out(rank.recording):
            continue
        for other in ranks:
            behind = other.recording
            if (
                behind is not None
                and behind.loaders
                and not _at_a_boundary(behind)
                and len(behind.fetches) <= len(rank.recording.fetches)
            ):
                return other
    return None


def _left_out(recording: Recording) -> int:
    """How many batches of the loaders that the rank trains on entered no step."""
    used = {fetch for window in recording.windows for fetch in window.fetches}
    trained = {recording.fetches[number].loader for number in used}
    return sum(fetch.loader in trained for fetch in recording.fetches) - len(used)


def _alone(meeting: Meeting) -> tuple[int, Collective] | None:
    found = collectives.first_alone(meeting)
    return found if found is not None and found[1].by != "wrapper" else None


def _left_early(left: _Rank, waiting: _Rank, ranks: Sequence[_Rank]) -> Defect:
    """A rank came to the end of the script while another went on: its data ended, it decided so, or it was told to."""
    place = _end_of(left, waiting)
    evidence = (_who_waits(ranks),)
    one, other = left.recording, waiting.recording
    related = ((waiting.place, f"rank {waiting.rank} waits here"),) if waiting.place.path else ()
    shorter = _shorter_pass(one, other)
    if shorter is not None:
        own, others, where = shorter
        return Defect(
            "DP210",
            f"rank {left.rank} has {times(own, 'batch')} in a pass over its data and rank {waiting.rank} {others}: the "
            "one with more waits in vain for the other",
            where if where.path else place,
            related,
            "even the shards out: drop or repeat samples, agree on the number of steps, or train under Join",
            evidence,
            _LASTING,
        )
    if one is not None and other is not None and _at_a_boundary(one) and one.evaluations == other.evaluations:
        if one.evaluations or _evaluated_by_loader(one, other):
            return Defect(
                "DP601",
                f"rank {left.rank} decided by a value of its own to stop after {times(left.steps, 'step')}, "
                f"rank {waiting.rank} went on",
                place,
                related,
                "reduce the metric over the ranks before deciding",
                evidence,
                _LASTING,
            )
    return Defect(
        "DP502",
        f"{_left_after(left)} while rank {waiting.rank} went on",
        place,
        related,
        _TOGETHER,
        evidence,
        _LASTING,
    )


def _left_after(left: _Rank) -> str:
    if not left.steps:
        return f"rank {left.rank} left before its first step"
    return f"rank {left.rank} left the training loop after {times(left.steps, 'step')}"


def _end_of(left: _Rank, waiting: _Rank) -> Place:
    """The line nearest to where the rank left: its last step, and else where the other one waits."""
    windows = left.process.windows
    return windows[-1].place if windows else waiting.place


def _shorter_pass(one: Recording | None, other: Recording | None) -> tuple[int, str, Place] | None:
    """How many batches each rank has in the last pass of the one that left, if its data ended first."""
    if one is None or other is None or not one.fetches:
        return None
    last = one.fetches[-1]
    for number, loader in enumerate(one.loaders):
        if number >= len(other.loaders) or not loader.passes:
            continue
        epoch = loader.passes - 1
        counts = [
            sum(1 for fetch in recording.fetches if (fetch.loader, fetch.epoch) == (number, epoch))
            for recording in (one, other)
        ]
        ended = loader.completed == loader.passes or loader.remaining == []
        announced = loader.batches is not None and loader.batches != other.loaders[number].batches
        if ended and last.loader == number and (counts[0] < counts[1] or (announced and counts[0] <= counts[1])):
            more = other.loaders[number].batches if announced else None
            own = loader.batches if announced else None
            return own or counts[0], f"{more}" if more else f"at least {counts[1]}", loader.place
    return None


def _at_a_boundary(recording: Recording) -> bool:
    """Whether the rank left between two passes over its data, or has no loader."""
    return all(loader.completed == loader.passes for loader in recording.loaders)


def _evaluated_by_loader(one: Recording, other: Recording) -> bool:
    """Whether both ranks read a loader that they did not train on, and equally often."""
    trained = {
        recording.fetches[fetch].loader
        for recording in (one, other)
        for window in recording.windows
        for fetch in window.fetches
    }
    aside = [number for number in range(len(one.loaders)) if number not in trained]
    return any(
        number < len(other.loaders) and one.loaders[number].passes == other.loaders[number].passes for number in aside
    )


def _skipped(waiting: _Rank, ranks: Sequence[_Rank]) -> Defect:
    return Defect(
        "DP502",
        "the ranks no longer go in step: one of them skipped a batch or left a loop, and the other waits for it",
        waiting.place,
        tuple(
            (rank.place, f"rank {rank.rank} is here")
            for rank in ranks
            if rank.place.path and rank.place != waiting.place
        ),
        _TOGETHER,
        (_who_waits(ranks),),
        _LASTING,
    )


def _by_status(waiting: Sequence[_Rank], ranks: Sequence[_Rank]) -> Defect | None:
    """From the last signs of life alone: a rank in a collective of the script's own that no other is in."""
    inside = [rank for rank in waiting if rank.waiting_in is not None]
    places = {rank.place for rank in inside}
    if len(inside) == len(ranks) and len(places) == 1:
        first = inside[0]
        return Defect(
            "DP505",
            f"all ranks are in {_called(first)} and none comes out of it: what they bring does not fit together",
            first.place,
            help="bring tensors of the same shape and type",
            evidence=(_who_waits(ranks),),
            alternatives=("DP501", "DP502"),
        )
    own = [rank for rank in inside if rank.waiting_in is not None and rank.waiting_in.by != "wrapper"]
    if own:
        first = own[0]
        return Defect(
            "DP501",
            f"{_called(first)} is reached by rank {first.rank} while the others are elsewhere",
            first.place,
            tuple((rank.place, f"rank {rank.rank} is here") for rank in ranks if rank is not first and rank.place.path),
            "let every rank reach it, or none",
            (_who_waits(ranks),),
            ("DP502", "DP505"),
        )
    return _skipped(waiting[0], ranks) if inside else None


def _with_places(defect: Defect, others: Sequence[_Rank]) -> Defect:
    """Add where the other ranks are."""
    known = {place for place, _ in defect.related} | {defect.place}
    more = tuple(
        (rank.place, f"rank {rank.rank} is here") for rank in others if rank.place.path and rank.place not in known
    )
    return dataclasses.replace(defect, related=defect.related + more)
