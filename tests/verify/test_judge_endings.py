"""How runs end, the order of collectives, and findings in the source held against the run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from dpcheck import registry
from dpcheck.findings.finding import Finding, Note, Span
from dpcheck.rule import Group, Rule, Severity
from dpcheck.verify.judge.defect import RULES
from dpcheck.verify.judge.evidence import Ending
from dpcheck.verify.judge.merge import merge
from dpcheck.verify.judge.reached import Reached, reached
from dpcheck.verify.judge.verdict import judge
from dpcheck.verify.recording import Collective, Failure, Place, Recording
from dpcheck.verify.result import Measured, Report
from dpcheck.verify.status import Status
from tests.verify.recordings import (
    LOADER,
    LOSS,
    SCRIPT,
    STEP,
    PerRank,
    World,
    fetches,
    loader,
    reduction,
    script_collective,
    wrap,
)


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


def found(report: Report) -> list[tuple[str, int]]:
    return [(finding.code, finding.line) for finding in report.findings]


FINISHED = Ending("finished")


def hung(inside: str = "", line: int = 42) -> Ending:
    return Ending("hung", last=Status(9, "collective", Place(SCRIPT, line), inside, 1))


def ended(
    tmp_path: Path,
    steps: Sequence[int],
    endings: Sequence[str],
    how: Sequence[Ending] = (FINISHED, FINISHED),
    **recorded: Any,
) -> Report:
    """Two ranks that closed so many steps and ended so, with another of the wrapper's collectives where they wait."""
    world = World(tmp_path, counts=((6,), (6,)), steps=max(steps))
    recorded.setdefault(
        "collectives", PerRank(_reductions(own, waits=end == "cut") for own, end in zip(steps, endings, strict=True))
    )
    world.train(world.mean_of_own, ending=PerRank(endings), how=PerRank(how), **recorded)
    for rank, count in zip(world.ranks, steps, strict=True):
        if rank.recording is not None:
            del rank.recording.windows[count:]
    return judge(world.evidence(failure="not run"))


def _reductions(steps: int, *, waits: bool) -> list[Collective]:
    calls = [reduction(step) for step in range(steps)]
    return [*calls, reduction(steps, finished=False)] if waits else calls


# -- hangs


def test_a_collective_that_one_rank_alone_reaches(tmp_path: Path) -> None:
    calls = PerRank(
        [
            [reduction(0), script_collective("barrier", 61, 1, finished=False)],
            [reduction(0), reduction(1, finished=False)],
        ]
    )
    report = ended(
        tmp_path, (1, 1), ("cut", "cut"), (hung("dist.barrier", 61), hung("DDP's all_reduce")), collectives=calls
    )
    assert (report.verdict, found(report)) == ("hang", [("DP501", 61)])
    assert (
        report.reason
        == f"rank 0 waits in barrier at {SCRIPT}:61; rank 1 waits in the wrapper's all_reduce at {SCRIPT}:42"
    )
    assert [(related.line, related.message) for related in report.findings[0].related] == [
        (42, "rank 1 is here meanwhile")
    ]
    assert [(end.rank, end.how, end.steps, end.inside) for end in report.endings] == [
        (0, "waits", 1, "dist.barrier"),
        (1, "waits", 1, "DDP's all_reduce"),
    ]


def test_the_same_without_recordings(tmp_path: Path) -> None:
    report = ended(tmp_path, (1, 1), ("none", "none"), (hung("dist.barrier", 61), hung("DDP's all_reduce")))
    assert (report.verdict, found(report)) == ("hang", [("DP501", 61)])


def test_a_skipped_batch_leaves_the_other_waiting(tmp_path: Path) -> None:
    """Rank 0 has stopped after its last step; rank 1 skipped a batch and needs one more of it."""
    report = ended(tmp_path, (2, 1), ("stopped", "cut"), (FINISHED, hung("DDP's all_reduce")))
    assert (report.verdict, found(report)) == ("hang", [("DP502", 42)])


def test_a_loop_left_on_one_rank(tmp_path: Path) -> None:
    report = ended(tmp_path, (1, 2), ("ended", "cut"), (FINISHED, hung("DDP's all_reduce")))
    assert (report.verdict, found(report)) == ("hang", [("DP502", STEP.line)])
    assert "rank 0 left the training loop after 1 step while rank 1 went on" in report.findings[0].message
    assert report.reason == f"rank 0 has left after 1 step; rank 1 waits in the wrapper's all_reduce at {SCRIPT}:42"


def test_a_barrier_after_the_other_has_left(tmp_path: Path) -> None:
    calls = PerRank([[reduction(0)], [reduction(0), script_collective("barrier", 70, 1, finished=False)]])
    report = ended(tmp_path, (1, 1), ("ended", "cut"), (FINISHED, hung("dist.barrier", 70)), collectives=calls)
    assert (report.verdict, found(report)) == ("hang", [("DP501", 70)])


@pytest.mark.parametrize(
    ("shorter", "longer"),
    [
        ({"batches": 1}, {"batches": 2}),
        ({"iterable": True, "batches": None, "length": None, "remaining": None}, {"iterable": True, "batches": None}),
    ],
)
def test_shards_of_different_lengths(tmp_path: Path, shorter: dict[str, Any], longer: dict[str, Any]) -> None:
    loaders = PerRank([[loader(completed=1, **shorter)], [loader(remaining=None, **longer)]])
    taken = PerRank([fetches([[0, 1]]), fetches([[2, 3], [4, 5]])])
    report = ended(
        tmp_path, (1, 1), ("ended", "cut"), (FINISHED, hung("DDP's all_reduce")), loaders=loaders, fetches=taken
    )
    assert (report.verdict, found(report)) == ("hang", [("DP210", LOADER.line)])
    known = "2" if shorter.get("batches") else "at least 2"
    assert f"rank 0 has 1 batch in a pass over its data and rank 1 {known}:" in report.findings[0].message


@pytest.mark.parametrize(("evaluations", "code"), [((2, 2), "DP601"), ((2, 0), "DP502")])
def test_a_decision_of_each_ranks_own(tmp_path: Path, evaluations: tuple[int, int], code: str) -> None:
    """Both evaluated and one of them stopped; one alone evaluated, and left under a test of its rank."""
    loaders = PerRank([[loader(completed=1, batches=1)], [loader(completed=1, passes=2, batches=1, remaining=None)]])
    taken = PerRank([fetches([[0, 1]]), fetches([[2, 3]]) + fetches([[4, 5]], epoch=1)])
    report = ended(
        tmp_path, (1, 1), ("ended", "cut"), (FINISHED, hung("DDP's all_reduce")),
        loaders=loaders, fetches=taken, evaluations=PerRank(evaluations),
    )  # fmt: skip
    assert (report.verdict, [finding.code for finding in report.findings]) == ("hang", [code])


def test_a_batch_left_out_before_the_end_of_the_pass(tmp_path: Path) -> None:
    """Rank 0 is at the sum after the pass, rank 1 still in its last backward: the line of the sum is not to blame."""
    loaders = PerRank([[loader(completed=1)], [loader(remaining=None)]])
    taken = PerRank(fetches([[rank], [2 + rank]]) for rank in range(2))
    calls = PerRank(
        [
            [reduction(0), script_collective("all_reduce", 55, 1, operation="SUM", shape=[2], finished=False)],
            [reduction(0), reduction(1, finished=False)],
        ]
    )
    gloo = Failure("RuntimeError", "gloo::EnforceNotMet", "…", Place(SCRIPT, 42), "all_reduce")
    world = World(tmp_path, counts=((6,), (6,)), steps=1)

    def reading(step: Any, rank: int, number: int) -> None:
        step.changes = {"fetches": [0]}

    world.train(
        world.mean_of_own,
        change=reading,
        ending="raised",
        failure=gloo,
        fetches=taken,
        loaders=loaders,
        collectives=calls,
    )
    report = judge(world.evidence(failure="not run"))
    assert (report.verdict, found(report)) == ("mismatch", [("DP502", 42)])


@pytest.mark.parametrize(("passes", "expected"), [(1, ("DP502", 4)), (2, ("DP501", 5))])
def test_a_collective_behind_the_loop(tmp_path: Path, passes: int, expected: tuple[str, int]) -> None:
    """Rank 0 is behind the loop over the batches: it left too early, or rank 1 went by and is in the next epoch."""
    path = tmp_path / "train.py"
    path.write_text(
        "for epoch in range(2):\n    for x in loader:\n        l = f(x)\n        l.backward()\n    gather(l)\n"
    )
    backward, gather = Place(str(path), 4), Place(str(path), 5)
    calls = PerRank(
        [
            [reduction(0, place=backward), script_collective("gather_object", 5, 1, place=gather, finished=False)],
            [reduction(0, place=backward), reduction(1, place=backward, finished=False)],
        ]
    )
    loaders = PerRank([[loader(remaining=None)], [loader(passes=passes, completed=passes - 1, remaining=None)]])
    hanging = (hung("dist.gather_object", 5), hung("DDP's all_reduce", 4))
    report = ended(tmp_path, (1, 1), ("cut", "cut"), hanging, collectives=calls, loaders=loaders)
    assert found(report) == [expected]


def test_left_in_the_middle_of_a_pass(tmp_path: Path) -> None:
    loaders = PerRank([[loader(remaining=[8, 9])], [loader(remaining=[11])]])
    taken = PerRank([fetches([[0, 1]]), fetches([[2, 3], [4, 5]])])
    report = ended(
        tmp_path, (1, 1), ("ended", "cut"), (FINISHED, hung("DDP's all_reduce")), loaders=loaders, fetches=taken
    )
    assert [finding.code for finding in report.findings] == ["DP502"]


def test_shapes_that_do_not_fit(tmp_path: Path) -> None:
    calls = PerRank(
        [script_collective("all_gather", 55, shape=[rows, 4], dtype="float64", finished=False)] for rows in (3, 5)
    )
    report = ended(tmp_path, (1, 1), ("cut", "cut"), (hung("dist.all_gather", 55),) * 2, collectives=calls)
    assert (report.verdict, found(report)) == ("hang", [("DP505", 55)])
    assert "rank 0 [3, 4], rank 1 [5, 4]" in report.findings[0].message


def test_gloo_that_breaks_off_is_no_error_of_the_script(tmp_path: Path) -> None:
    failure = Failure(
        "RuntimeError",
        "[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:446] op.preamble.length <= op.nbytes",
        "…",
        Place(SCRIPT, 55),
        "all_gather",
    )
    calls = PerRank([script_collective("all_gather", 55, shape=[rows, 4], finished=False)] for rows in (3, 5))
    report = ended(tmp_path, (1, 1), ("raised", "raised"), failure=failure, collectives=calls)
    assert (report.verdict, found(report)) == ("mismatch", [("DP505", 55)])


def test_a_peer_that_has_left_is_why_the_other_fails(tmp_path: Path) -> None:
    failure = Failure("RuntimeError", "Connection closed by peer [127.0.0.1]:4711", "…", Place(SCRIPT, 42), "backward")
    report = ended(tmp_path, (1, 2), ("ended", "raised"), failure=PerRank([None, failure]))
    assert (report.verdict, [finding.code for finding in report.findings]) == ("mismatch", ["DP502"])


def test_an_abort_inside_a_collective(tmp_path: Path) -> None:
    aborted = Ending("killed", signal="SIGABRT", last=Status(9, "collective", Place(SCRIPT, 55), "dist.all_gather", 0))
    report = ended(tmp_path, (1, 1), ("none", "none"), (aborted, aborted))
    assert report.verdict == "mismatch"


# -- the script's own errors


def test_an_exception_of_the_script(tmp_path: Path) -> None:
    failure = Failure("ValueError", "no such column\nmore", "Traceback …", Place(SCRIPT, 12))
    report = ended(tmp_path, (1, 1), ("raised", "raised"), failure=failure)
    assert (report.verdict, found(report)) == ("script-error", [])
    assert report.reason == f"every rank raised ValueError: no such column at {SCRIPT}:12"
    assert [end.traceback for end in report.endings] == ["Traceback …"] * 2


def test_an_exception_on_one_rank_while_the_other_waits(tmp_path: Path) -> None:
    failure = Failure("ValueError", "no such column", "Traceback …", Place(SCRIPT, 12))
    report = ended(
        tmp_path, (1, 1), ("cut", "raised"), (hung("DDP's all_reduce"), FINISHED), failure=PerRank([None, failure])
    )
    assert (report.verdict, report.reason) == (
        "script-error",
        f"rank 1 raised ValueError: no such column at {SCRIPT}:12",
    )


def test_a_wrong_argument_of_a_collective_is_the_scripts_own(tmp_path: Path) -> None:
    failure = Failure(
        "TypeError", "Invalid function argument, ProcessGroup expected", "…", Place(SCRIPT, 12), "all_reduce"
    )
    assert ended(tmp_path, (1, 1), ("raised", "raised"), failure=failure).verdict == "script-error"


def test_a_process_that_was_killed(tmp_path: Path) -> None:
    killed = Ending("killed", signal="SIGKILL", last=Status(3, "forward", Place(SCRIPT, 40)), output="loading")
    report = ended(tmp_path, (1, 1), ("none", "cut"), (killed, hung("DDP's all_reduce")))
    reason = "rank 0 was killed by SIGKILL, as the system does when memory runs out, last seen at train.py:40"
    assert (report.verdict, report.reason.replace("/project/", "")) == ("script-error", reason)


def test_an_exit_with_a_status(tmp_path: Path) -> None:
    report = ended(tmp_path, (1, 1), ("exited", "exited"), status=3)
    assert (report.verdict, report.reason) == ("script-error", "every rank exited with status 3")


def test_a_failure_that_the_promotion_may_have_caused(tmp_path: Path) -> None:
    for name, message, hinted in (("types", "expected dtype float32", True), ("other", "no such column", False)):
        failure = Failure("AssertionError", message, "", Place(SCRIPT, 40))
        report = ended(tmp_path / name, (1, 1), ("raised", "raised"), failure=failure)
        assert report.verdict == "script-error"
        assert any("--dtype float32" in note.text for note in report.notes) is hinted


def test_an_exit_with_a_status_shows_what_was_printed(tmp_path: Path) -> None:
    usage = Ending("finished", output="train.py: error: the following arguments are required: data")
    report = ended(tmp_path, (1, 1), ("exited", "exited"), (usage, usage), status=2)
    assert report.endings[0].traceback == usage.output


def test_too_slow_is_inconclusive(tmp_path: Path) -> None:
    slow = Ending("timed-out", seconds=600.0, last=Status(3, "forward", Place(SCRIPT, 40)))
    report = ended(tmp_path, (1, 1), ("cut", "cut"), (slow, slow))
    assert report.verdict == "inconclusive"
    assert report.reason == "after 600 s the ranks had made 1 step and were still at work: --timeout gives them more"


def test_a_script_without_a_step(tmp_path: Path) -> None:
    world = World(tmp_path, steps=0)
    world.train(world.mean_of_own, ending="ended", collectives=[script_collective("barrier", 5)])
    report = judge(world.evidence())
    assert report.verdict == "inconclusive"
    assert report.reason == "the ranks came to the end of the script without a step of an optimizer"


def test_a_rank_that_answers_for_a_longer_one_is_no_hang(tmp_path: Path) -> None:
    world = World(tmp_path, counts=((6,), (6,)))
    held = world.weights[0]
    world.train(
        world.mean_of_own, ending=PerRank(["stopped", "cut"]), how=PerRank([FINISHED, hung("Join's all_reduce")]),
        wraps=[wrap(held, held)],
    ).refer(world.one_process)  # fmt: skip
    assert judge(world.evidence()).verdict == "equivalent"


# -- mismatches that do not hang


def called(name: str, line: int, **changes: Any) -> Collective:
    return script_collective(name, line, **{"shape": [1], **changes})


@pytest.mark.parametrize(
    ("one", "other", "code"),
    [
        (called("all_reduce", 55, operation="SUM"), called("all_reduce", 57, operation="MAX"), "DP501"),
        (called("all_reduce", 55, operation="SUM"), called("broadcast", 57), "DP501"),
        (called("all_gather", 55, shape=[3]), called("all_gather", 55, shape=[4]), "DP505"),
        (called("broadcast", 55, root=0), called("broadcast", 57, root=1), "DP501"),
        (called("all_gather", 55, dtype="float64"), called("all_gather", 55, dtype="int64"), "DP505"),
    ],
)  # fmt: skip
def test_collectives_that_do_not_belong_together(tmp_path: Path, one: Collective, other: Collective, code: str) -> None:
    world = World(tmp_path, counts=((6,), (6,)))
    calls = PerRank([[each, reduction(0), reduction(1)] for each in (one, other)])
    report = judge(world.train(world.mean_of_own, collectives=calls).refer(world.one_process).evidence())
    assert report.verdict == "mismatch"
    assert [finding.code for finding in report.findings] == [code]
    assert report.collectives.matched is False
    assert f"{SCRIPT}:55" in report.collectives.difference


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (script_collective("broadcast", 55, shape=[3], root=0), script_collective("broadcast", 57, shape=[3], root=0)),
        (script_collective("gather_object", 55, root=0), script_collective("gather_object", 55, root=0)),
        (script_collective("scatter", 55, shape=[2, 3]), script_collective("scatter", 55, shape=None)),
        (script_collective("send", 55, shape=[3]), script_collective("recv", 57, shape=[3])),
    ],
)
def test_collectives_that_belong_together(tmp_path: Path, one: Collective, other: Collective) -> None:
    world = World(tmp_path, counts=((6,), (6,)))
    calls = PerRank([[each, reduction(0), reduction(1)] for each in (one, other)])
    report = judge(world.train(world.mean_of_own, collectives=calls).refer(world.one_process).evidence())
    assert (report.verdict, report.collectives.matched) == ("equivalent", True)


def test_one_more_collective_on_one_rank(tmp_path: Path) -> None:
    world = World(tmp_path, counts=((6,), (6,)))
    calls = PerRank([[reduction(0), reduction(1)], [reduction(0), reduction(1), script_collective("barrier", 66, 1)]])
    report = judge(world.train(world.mean_of_own, collectives=calls).refer(world.one_process).evidence())
    assert (report.verdict, found(report)) == ("mismatch", [("DP501", 66)])


# -- the rules that a run can show


def test_the_rules_are_those_that_are_installed() -> None:
    for entry in registry.load().entries:
        known = RULES.get(entry.rule.code)
        if known is not None:
            rule = entry.rule
            assert (known.name, known.group, known.severity) == (rule.name, rule.group, rule.severity)


# -- held against the source


def static(code: str, line: int, notes: Sequence[int] = (), group: Group | None = None) -> Finding:
    known = RULES.get(code) or Rule(code, "some-rule", group or Group.COUNTING, Severity.ERROR, "")
    spans = tuple(Note(Span(SCRIPT, number, 1, number, 5), "see") for number in notes)
    return Finding(known, f"the source says {code}", Span(SCRIPT, line, 9, line, 30), "here", spans, "mend it")


def per_rank_mean(tmp_path: Path) -> Report:
    world = World(tmp_path)
    return judge(world.train(world.mean_of_own).refer(world.one_process).evidence())


def test_confirmed_on_its_line(tmp_path: Path) -> None:
    report = merge(per_rank_mean(tmp_path), [static("DP301", 99), static("DP301", LOSS.line), static("DP203", 38)])
    [finding] = report.findings
    assert (finding.code, finding.line, finding.column, finding.end_column, finding.static) == (
        "DP301",
        LOSS.line,
        9,
        30,
        "confirmed",
    )
    assert [(each.code, each.line, each.status) for each in report.static] == [
        ("DP301", 99, "not-exercised"),
        ("DP301", LOSS.line, "confirmed"),
        ("DP203", 38, "not-exercised"),
    ]


def test_the_source_tells_like_codes_apart(tmp_path: Path) -> None:
    report = merge(per_rank_mean(tmp_path), [static("DP302", 36, notes=[LOSS.line])])
    [finding] = report.findings
    assert (finding.code, finding.name, finding.line, finding.message) == (
        "DP302",
        "local-count",
        36,
        "the source says DP302",
    )
    assert (finding.static, [related.line for related in finding.related]) == ("confirmed", [LOSS.line])
    assert [each.status for each in report.static] == ["confirmed"]


def test_another_branch_is_not_believed(tmp_path: Path) -> None:
    """The line of the loss is known: of two findings elsewhere, neither needs to have been executed."""
    report = merge(per_rank_mean(tmp_path), [static("DP302", 36), static("DP303", 33)])
    assert [(finding.code, finding.line, finding.static) for finding in report.findings] == [("DP301", LOSS.line, None)]
    report = merge(per_rank_mean(tmp_path), [static("DP301", 30)])
    [finding] = report.findings
    assert (finding.line, finding.static, [related.line for related in finding.related]) == (
        LOSS.line,
        "confirmed",
        [30],
    )


def test_another_condition_is_never_taken(tmp_path: Path) -> None:
    report = merge(per_rank_mean(tmp_path), [static("DP201", 15)])
    assert [(finding.code, finding.static) for finding in report.findings] == [("DP301", None)]


def right(tmp_path: Path, counts: Any = ((9,), (3,)), **settings: Any) -> Report:
    world = World(tmp_path, counts=counts)
    taken = PerRank(fetches([[rank], [rank + 2]]) for rank in range(2))

    def reading(step: Any, rank: int, number: int) -> None:
        step.changes = {"fetches": [number]}

    world.train(world.global_mean, change=reading, fetches=taken, loaders=[loader(batch_size=1)])
    return judge(world.refer(world.one_process).evidence(**settings))


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("DP101", "refuted"),
        ("DP104", "refuted"),
        ("DP201", "refuted"),
        ("DP203", "not-exercised"),
        ("DP204", "not-exercised"),
        ("DP210", "refuted"),
        ("DP301", "refuted"),
        ("DP304", "refuted"),
        ("DP305", "not-exercised"),
        ("DP401", "refuted"),
        ("DP501", "not-exercised"),
        ("DP602", "not-exercised"),
    ],
)
def test_what_a_right_run_says(tmp_path: Path, code: str, status: str) -> None:
    report = merge(right(tmp_path), [static(code, LOSS.line)])
    assert (report.verdict, [each.status for each in report.static]) == ("equivalent", [status])


def test_ranks_on_several_machines_refute_a_local_rank(tmp_path: Path) -> None:
    report = right(tmp_path, nodes=2)
    assert [note.kind for note in report.notes] == ["nodes"]
    assert [each.status for each in merge(report, [static("DP204", LOSS.line)]).static] == ["refuted"]


def test_a_loss_in_another_branch_is_not_exercised(tmp_path: Path) -> None:
    told = merge(right(tmp_path), [static("DP301", 12), static("DP301", 12, notes=[LOSS.line])]).static
    assert [each.status for each in told] == ["not-exercised", "refuted"]


def test_equal_counts_refute_no_per_rank_mean(tmp_path: Path) -> None:
    [told] = merge(right(tmp_path, ((6,), (6,))), [static("DP301", LOSS.line)]).static
    assert told.status == "not-exercised"
    assert "--uneven" in told.reason


def test_a_collective_that_every_rank_reached(tmp_path: Path) -> None:
    reached = Reached(frozenset({(SCRIPT, 42)}), frozenset())
    told = merge(right(tmp_path), [static("DP501", 42), static("DP501", 43, notes=[42])], reached).static
    assert [each.status for each in told] == ["refuted", "not-exercised"]


def test_lines_that_the_run_came_to() -> None:
    barrier, own = script_collective("barrier", 5), script_collective("barrier", 6)
    made = [Recording("rank", rank, 2, "float64", "ended", collectives=[barrier]) for rank in range(2)]
    made[0].collectives.append(own)
    made[1].loaders.append(loader())
    found = reached(made)
    assert (found.issued, found.seen) == ({(SCRIPT, 5)}, {(SCRIPT, 5), (SCRIPT, 6), (SCRIPT, LOADER.line)})


@pytest.mark.parametrize(("code", "line"), [("DP101", 7), ("DP201", 7), ("DP401", 7)])
def test_what_the_run_did_not_come_to_is_not_refuted(tmp_path: Path, code: str, line: int) -> None:
    seen = Reached(frozenset(), frozenset({(SCRIPT, 44)}))
    told = merge(right(tmp_path), [static(code, line), static(code, line, notes=[44])], seen).static
    assert [each.status for each in told] == ["not-exercised", "refuted"]


def test_a_pedantic_finding_is_told_where_it_is_confirmed(tmp_path: Path) -> None:
    assert merge(right(tmp_path), [static("DP307", LOSS.line)]).static == []
    report = judge(World(tmp_path / "off").train(lambda rank, micro: rank + 1.0).evidence())
    found = Measured(
        code="DP307", name="local-batch-loss", severity="note", confidence="high", message="", path=SCRIPT, line=41,
        end_line=41,
    )  # fmt: skip
    report.findings = [found]
    report = merge(report, [static("DP307", LOSS.line)])
    assert ([each.static for each in report.findings], [each.status for each in report.static]) == (
        ["confirmed"],
        ["confirmed"],
    )


def test_the_source_decides_what_figures_cannot(tmp_path: Path) -> None:
    world = World(tmp_path, counts=((6,), (6,)))
    undecided = judge(world.train(lambda r, i: 1 / 6, reduction="sum").refer(lambda micro: 1 / 6).evidence())
    assert undecided.verdict == "inconclusive"
    report = merge(undecided, [static("DP303", LOSS.line)])
    assert (report.verdict, [(each.code, each.static) for each in report.findings]) == (
        "different",
        [("DP303", "confirmed")],
    )
    assert merge(undecided, [static("DP301", LOSS.line)]).verdict == "inconclusive"
    assert merge(undecided, [static("DP303", 99)]).verdict == "inconclusive"
