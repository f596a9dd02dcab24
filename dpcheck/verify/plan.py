"""Which runs a verification makes: the ranks, the reference, and those that tell one explanation from another."""

from __future__ import annotations

import pathlib
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Literal

from dpcheck.findings.finding import Finding
from dpcheck.verify.counterfactual import counterfactual
from dpcheck.verify.job import Feed, Job, Mend
from dpcheck.verify.judge.evidence import Ending, Evidence, Process, Settings
from dpcheck.verify.judge.fairness import fed_unlike
from dpcheck.verify.judge.merge import merge
from dpcheck.verify.judge.objective import wants_perturbation
from dpcheck.verify.judge.reached import reached
from dpcheck.verify.judge.verdict import judge
from dpcheck.verify.launch import Limits, Outcome, Servers, free_port
from dpcheck.verify.options import Options
from dpcheck.verify.recording import Window
from dpcheck.verify.result import Remark, Report
from dpcheck.verify.static import static_findings
from dpcheck.verify.status import Status

_PERTURBATIONS = 2  # runs that tell what rounding changes

Progress = Callable[[str, int, float], None]
Level = Literal["data", "draws", "forward", "none"]


def verify(options: Options, progress: Progress | None = None) -> Report:
    """Run the script as ranks and as one process, and say whether they computed the same update.

    `progress` is called now and then with what is running, the step it has reached, and the seconds since the start.
    Raises `launch.LaunchError` where processes cannot be started.
    """
    # The static rules need no process: they judge the script while the servers import torch.
    with ThreadPoolExecutor(1) as pool, Servers(options.ranks, folder=options.keep) as servers:
        static = pool.submit(static_findings, options)
        return _Verification(options, servers, progress).report(static)


class _Verification:
    """One verification under way."""

    def __init__(self, options: Options, servers: Servers, progress: Progress | None) -> None:
        self._options = options
        self._servers = servers
        self._progress = progress
        self._started = time.monotonic()
        self._references: dict[str, Process] = {}
        self._ranks: list[Process] = []
        self._main: str | None = None
        self._failure = ""

    def report(self, static: Future[list[Finding]]) -> Report:
        self._ranks = self._run("the ranks", [self._rank_job(rank) for rank in range(self._options.ranks)])
        if self._comparable():
            self._refer()
        report = judge(self._evidence())
        if self._wants_frozen_statistics(report):
            self._run_reference("frozen-statistics", self._feed(frozen_statistics=True))
            report = judge(self._evidence())
        if self._main is not None and wants_perturbation(report.objective):
            for number in range(1, _PERTURBATIONS + 1):
                self._run_reference(f"perturbed-{number}", self._feed(perturbed=number))
            report = judge(self._evidence())
        report = self._merged(report, static)
        if report.verdict == "different":
            report.counterfactual = counterfactual(report, self._rerun)
        return report

    def _merged(self, report: Report, static: Future[list[Finding]]) -> Report:
        try:
            recordings = [process.recording for process in self._ranks if process.recording is not None]
            return merge(report, static.result(), reached(recordings))
        except Exception as error:  # a fault of the static side costs nothing that was measured
            text = f"dpcheck check could not judge the script: {type(error).__name__}: {error}"
            report.notes.append(Remark(kind="static-failed", text=text))
            return report

    def _rerun(self, mend: Mend, repeated: bool) -> Report | None:
        """Judge the ranks with a mend; `repeated`, on the batches and weights that they had."""
        if repeated and self._main is None:
            return None
        folders = [str(process.folder) for process in self._ranks]
        jobs = []
        for rank in range(self._options.ranks):
            feed = Feed(folders, self._level, "union", rank=rank) if repeated else None
            job = self._job("rank", rank, f"mended-{mend}", feed)
            job.mend = mend
            jobs.append(job)
        mended = self._run(f"the ranks with a mend ({mend})", jobs)
        if not all(process.ending.how == "finished" and process.windows for process in mended):
            return None
        # Micro-batches that count their targets together are those of one big batch.
        whole = mend == "global-count" and "window" in self._references
        return judge(self._evidence(mended, "window" if whole else self._main))

    def _evidence(self, ranks: list[Process] | None = None, main: str | None = None) -> Evidence:
        options = self._options
        return Evidence(
            ranks or self._ranks,
            self._references,
            main=main or self._main,
            failure=self._failure,
            settings=Settings(
                dtype=options.dtype,
                strict=options.strict,
                steps=options.steps,
                epochs=options.epochs,
                nodes=options.nodes,
                uneven=options.uneven,
                capped=bool(options.caps),
                script=options.script if options.module else str((options.directory / options.script).absolute()),
                arguments=list(options.arguments),
            ),
            seconds=time.monotonic() - self._started,
        )

    # -- the runs

    def _comparable(self) -> bool:
        return all(process.ending.how == "finished" and process.windows for process in self._ranks)

    def _refer(self) -> None:
        """Run the reference, in the order in which the script at world size 1 takes its micro-batches."""
        for level in self._levels():
            self._level: Level = level
            self._references.clear()
            self._main = None
            reference = self._run_reference("union", self._feed())
            if not reference.windows:
                self._failure = _failure_of(reference)
                continue
            self._main = "union"
            if _takes_in_sequence(reference, self._ranks):
                if self._run_reference("sequence", self._feed(order="sequence")).windows:
                    self._main = "sequence"
            if not self._fed_unlike():
                break
        if self._main is not None and self._accumulates_unevenly():
            self._run_reference("window", self._feed(order="window"))

    def _fed_unlike(self) -> bool:
        """Whether something else entered the reference's models than the ranks'."""
        assert self._main is not None
        together = zip(self._references[self._main].windows, *(rank.windows for rank in self._ranks), strict=False)
        return any(fed_unlike(own, ranks, self._main) is not None for own, *ranks in together)

    def _levels(self) -> list[Level]:
        """Where the batches of this script can be exchanged: what is tried, best first."""
        windows = self._ranks[0].windows
        if any(window.fetches for window in windows):
            return ["data"]
        drawn = {draw.place for window in windows[1:] for draw in window.draws if draw.shape}
        return ["draws", "forward"] if drawn else ["forward"]

    def _accumulates_unevenly(self) -> bool:
        """Whether the window has several backwards over different, or unknown, numbers of targets."""
        windows = [window for rank in self._ranks for window in rank.windows if window.backwards > 1]
        return any(len(set(_targets(window))) != 1 for window in windows)

    def _wants_frozen_statistics(self, report: Report) -> bool:
        normalized = any(window.batch_norm is not None for rank in self._ranks for window in rank.windows)
        return normalized and self._main is not None and report.objective.equal is False

    def _feed(
        self,
        order: Literal["union", "sequence", "window"] | None = None,
        *,
        frozen_statistics: bool = False,
        perturbed: int = 0,
    ) -> Feed:
        if order is None:
            order = "sequence" if self._main == "sequence" else "union"
        folders = [str(process.folder) for process in self._ranks]
        return Feed(folders, self._level, order, frozen_statistics=frozen_statistics, perturbed=perturbed)

    def _run_reference(self, name: str, feed: Feed) -> Process:
        job = self._job("reference", 0, f"reference-{feed.level}-{name}", feed)
        [process] = self._run(f"the reference ({name})", [job])
        if process.windows:
            self._references[name] = process
        return process

    def _rank_job(self, rank: int) -> Job:
        return self._job("rank", rank, "ranks", None)

    def _job(self, role: Literal["rank", "reference"], rank: int, run: str, feed: Feed | None) -> Job:
        options = self._options
        shared = self._servers.folder / run
        folder = shared / f"rank-{rank}" if role == "rank" else shared / "process"
        folder.mkdir(parents=True)
        return Job(
            role=role,
            rank=rank,
            world_size=options.ranks if role == "rank" else 1,
            nodes=options.nodes,
            folder=str(folder),
            shared=str(shared),
            script=options.script if options.module else str((options.directory / options.script).absolute()),
            module=options.module,
            arguments=list(options.arguments),
            directory=str(options.directory.absolute()),
            port=0,
            steps=options.steps,
            epochs=options.epochs,
            window=options.window,
            dtype=options.dtype,
            device=options.device,
            backend=options.backend,
            caps=list(options.caps),
            uneven=options.uneven,
            feed=feed,
        )

    def _run(self, what: str, jobs: list[Job]) -> list[Process]:
        port = free_port()
        for job in jobs:
            job.port = port

        def tell(_: Sequence[Job], statuses: Sequence[Status]) -> None:
            if self._progress is not None:
                step = min(status.step for status in statuses)
                self._progress(what, step, time.monotonic() - self._started)

        outcomes = self._servers.run(jobs, Limits(total=self._options.timeout), tell)
        return [_process(outcome) for outcome in outcomes]


def _process(outcome: Outcome) -> Process:
    ending = Ending(
        how="timed-out" if outcome.end == "timed out" else outcome.end,
        status=outcome.exit_status,
        signal=outcome.signal or "",
        last=outcome.status,
        stacks=outcome.stacks,
        output=outcome.output,
        seconds=outcome.seconds,
    )
    return Process(outcome.recording, pathlib.Path(outcome.job.folder), ending)


def _takes_in_sequence(reference: Process, ranks: Sequence[Process]) -> bool:
    """Whether the one process makes in its first window all forwards and backwards that the ranks make together."""
    own, rank = reference.windows[0], ranks[0].windows[0]
    together = (len(ranks) * rank.forwards, len(ranks) * rank.backwards)
    return (own.forwards, own.backwards) == together and any(together)


def _targets(window: Window) -> list[int]:
    """Targets of each backward; [-1] where no loss function told."""
    counts: dict[int, int] = {}
    for loss in window.losses:
        counts[loss.micro] = counts.get(loss.micro, 0) + loss.targets
    return list(counts.values()) or [-1, -2]


def _failure_of(reference: Process) -> str:
    recording, ending = reference.recording, reference.ending
    if recording is not None and recording.failure is not None:
        failure = recording.failure
        said = failure.message.strip().splitlines() or [""]
        return f"as one process the script fails: {failure.type}: {said[0]}"
    if recording is not None:
        return "as one process the script ends before its first optimizer step"
    how = {"hung": "hangs", "timed-out": "takes too long", "killed": "is killed"}.get(ending.how, "exits")
    return f"as one process the script {how} before its first optimizer step"
