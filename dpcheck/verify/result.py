"""What a verification hands over: the verdict, the conditions with their evidence, the findings. Plain values.

`--output json` writes exactly this; docs/verify.schema.json is made from it. None stands for what was not seen.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

Verdict: TypeAlias = Literal["equivalent", "different", "mismatch", "hang", "inconclusive", "script-error"]
Equality: TypeAlias = Literal["equal", "different", "unknown"]
Static: TypeAlias = Literal["confirmed", "refuted", "not-exercised"]


class Related(msgspec.Struct, frozen=True, kw_only=True):
    """Another place that one must look at to see the fault."""

    path: str
    line: int
    column: int = 1
    message: str


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """A defect that the run showed. `static` is "confirmed" where `dpcheck check` finds it in the source as well.

    A line may be known without its columns: they then stand at 1. `exact_line` false: it is the nearest line that is
    known. `alternatives` are the codes of other defects that would have looked the same from outside.
    """

    code: str
    name: str
    severity: Literal["error", "warning", "note"]
    confidence: Literal["high", "medium", "low"]
    message: str
    path: str
    line: int
    column: int = 1
    end_line: int
    end_column: int = 1
    exact_line: bool = False
    related: list[Related] = []
    help: str = ""
    evidence: list[str] = []
    alternatives: list[str] = []
    fingerprint: str = ""
    origin: Literal["measured"] = "measured"
    static: Static | None = None


class StaticFinding(msgspec.Struct, frozen=True, kw_only=True):
    """What `dpcheck check` finds in the script, and what became of it in this run: `reason` says why."""

    code: str
    name: str
    path: str
    line: int
    message: str
    status: Static
    reason: str


class Weights(msgspec.Struct, kw_only=True):
    """Do all ranks hold the same model? `tensors` are the first that differ.

    `hidden` says that the ranks built different models and the wrapper then gave all of them rank 0's. BatchNorm's
    running statistics count apart, as `norm_statistics`.
    """

    initial: Equality = "unknown"
    after_wrap: Equality = "unknown"
    after_steps: Equality = "unknown"
    first_difference: int | None = None  # step before which the weights differed
    tensors: list[str] = []
    differing: int = 0
    compared: int = 0
    buffers: Equality = "unknown"
    differing_buffers: list[str] = []
    norm_statistics: Equality = "unknown"
    hidden: bool = False


class Data(msgspec.Struct, kw_only=True):
    """Did the ranks see different samples? `samples` are counted by rank, `overlap` are samples that several saw.

    `by` says what was compared; `epoch_overlap` counts, over a whole pass, the indices that several ranks get. Where
    the samples count as disjoint, `tolerated` are those that several ranks saw all the same, few enough to even the
    shards.
    """

    disjoint: bool | None = None
    overlap: int = 0
    tolerated: int = 0
    samples: list[int] = []
    by: Literal["content", "inputs", "draws", "none"] = "none"
    epoch_overlap: int | None = None
    epoch_samples: int | None = None
    epoch_repeated: bool | None = None
    batches: list[int | None] = []


class WorstTensor(msgspec.Struct, frozen=True, kw_only=True):
    """A tensor's relative error, and the norm of its gradient in the reference."""

    name: str
    relative_error: float | None  # None: beyond all numbers
    norm: float
    failed: bool


class StepError(msgspec.Struct, frozen=True, kw_only=True):
    """How far the gradient of one step was from the reference's."""

    step: int
    optimizer: int
    relative_error: float | None
    k: float | None
    residual: float | None
    norm: float
    targets: list[int]
    explanation: str


class Term(msgspec.Struct, frozen=True, kw_only=True):
    """One call of a loss function: what a target weighs in the update, rank by rank, over what it should weigh."""

    function: str
    reduction: str
    path: str
    line: int
    targets: list[int]
    ratios: list[float]


class Objective(msgspec.Struct, kw_only=True):
    """Was the averaged gradient that of one process on the whole batch?

    The figures are those of the worst step: `k` is the least-squares factor between the two gradients, `residual` what
    remains after removing it. `target_weights` are the distinct weights that a rank's targets had in the update.
    `fitted` are the factors of the ranks' own gradients that give the reference, to within `fit_error`.
    """

    judged: bool = False
    reason: str = ""  # why it was not judged, or not decided
    equal: bool | None = None
    k: float | None = None
    residual: float | None = None
    relative_error: float | None = None
    tolerance: float = 0.0
    coarse: bool = False
    explanation: str = "not-judged"
    sentence: str = ""
    step: int | None = None
    targets: list[int] = []
    target_weights: list[list[float]] = []
    fitted: list[float] | None = None
    fit_error: float | None = None
    worst: list[WorstTensor] = []
    steps: list[StepError] = []
    terms: list[Term] = []
    unmatched: list[str] = []


class Sync(msgspec.Struct, kw_only=True):
    """Did the ranks end up with the same gradient, and was it the mean of their own?

    `exact`: the mean to the last bit, or, where gradients are added up over several backwards, to within rounding
    (`bitwise` false). `factor` is what the mean was multiplied by besides.
    """

    agree: bool | None = None
    exact: bool | None = None
    bitwise: bool | None = None
    error: float | None = None
    factor: float | None = None
    step: int | None = None
    tensors: list[str] = []
    differing: int = 0
    compared: int = 0


class Collectives(msgspec.Struct, kw_only=True):
    """Did all ranks issue the same collectives in the same order?"""

    matched: bool | None = None
    compared: int = 0
    per_step: int = 0
    bytes_per_step: int = 0
    difference: str = ""


class GlobalBatch(msgspec.Struct, kw_only=True):
    """global batch = micro-batch × accumulation steps × ranks."""

    microbatch: int | None = None
    accumulation: int = 1
    ranks: int = 1
    samples: int | None = None


class SeenLoss(msgspec.Struct, frozen=True, kw_only=True):
    """A loss function of torch's whose targets were counted, and the line that called it."""

    function: str
    path: str
    line: int


class Detection(msgspec.Struct, kw_only=True):
    """What would have been seen: the smallest change of one rank's weight in the update that exceeds the tolerance.

    `per_rank_mean` is the error that a mean over each rank's own targets would have made; 0 where equal counts hide it.
    """

    smallest_weight_error: float | None = None
    per_rank_mean: float | None = None
    hides_per_rank_mean: bool | None = None
    parameters: int = 0
    judged_parameters: int = 0
    steps: list[int] = []
    losses: list[SeenLoss] = []
    unseen: list[str] = []


class Counterfactual(msgspec.Struct, frozen=True, kw_only=True):
    """The ranks run again with a change made in memory that would mend the defect: what was measured, and what came."""

    change: str
    measured: str
    before: float
    after: float
    seconds: float


class RankEnd(msgspec.Struct, frozen=True, kw_only=True):
    """How a rank's process ended, and where it was."""

    rank: int
    how: str
    steps: int
    path: str = ""
    line: int = 0
    inside: str = ""
    message: str = ""
    traceback: str = ""
    last_seen: bool = False  # it went on from there, nobody knows how far


class Remark(msgspec.Struct, frozen=True, kw_only=True):
    """Something that was changed for this run, or that could not be seen."""

    kind: str
    text: str
    path: str = ""
    line: int = 0


class Report(msgspec.Struct, kw_only=True):
    """The whole document."""

    version: Literal[1] = 1
    verdict: Verdict
    reason: str
    script: str = ""
    arguments: list[str] = []
    ranks: int
    steps: int
    dtype: str
    weights: Weights = msgspec.field(default_factory=Weights)
    data: Data = msgspec.field(default_factory=Data)
    objective: Objective = msgspec.field(default_factory=Objective)
    sync: Sync = msgspec.field(default_factory=Sync)
    collectives: Collectives = msgspec.field(default_factory=Collectives)
    global_batch: GlobalBatch = msgspec.field(default_factory=GlobalBatch)
    detection: Detection = msgspec.field(default_factory=Detection)
    findings: list[Measured] = []
    counterfactual: Counterfactual | None = None
    static: list[StaticFinding] = []
    endings: list[RankEnd] = []
    notes: list[Remark] = []
    seconds: float = 0.0


EXIT_STATUS: dict[Verdict, int] = {
    "equivalent": 0,
    "different": 1,
    "mismatch": 1,
    "hang": 1,
    "inconclusive": 2,
    "script-error": 2,
}
