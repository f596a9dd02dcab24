"""What one process of a verified run tells: plain values in `recording.json`, tensors beside it in safetensors files.

A recording is versioned and safe to open: nothing in it is executed. Every tensor is stored flattened, as the share
that the process holds of it (all of it under DDP, a contiguous range under FSDP), and thinned to every `stride`-th
element where it is large: all explanations of a gradient are linear, so the same elements of each suffice.
"""

from __future__ import annotations

import pathlib
from typing import Literal

import msgspec

from dpcheck.verify import wire

VERSION = 1
FILE = "recording.json"


class Place(msgspec.Struct, frozen=True):
    """A line of the user's code. `path` is absolute; ("", 0) where no user's frame was on the stack."""

    path: str = ""
    line: int = 0


class Share(msgspec.Struct):
    """A named tensor and the part of it that this process holds: elements [start, stop) of the flattened tensor.

    The files hold elements start, start + stride, … of it. `digest` and `norm` are those of the whole share, taken
    before thinning: two shares are the same bit for bit when their digests are equal.
    """

    name: str
    shape: list[int]
    start: int
    stop: int
    stride: int
    digest: str
    norm: float | None  # None: not finite


class Loss(msgspec.Struct):
    """A call of one of torch's loss functions under autograd in the window.

    `targets` counts the targets that entered the reduction (an ignored one does not). The weights of the targets in
    the update, d(update)/d(loss of that target), stand in the window's file under `target/<index>`, in the order of
    the unreduced losses, where a backward reached them (`weighed`). `micro` is the number of backwards before it.
    """

    function: str
    reduction: str
    targets: int
    elements: int
    micro: int
    place: Place
    weighed: bool = False


class Draw(msgspec.Struct):
    """Random numbers drawn by the script's own code between the models: shape, and a digest of the values.

    `forwards` counts the training forwards of the window before it.
    """

    function: str
    shape: list[int]
    digest: str
    place: Place
    forwards: int = 0


class Window(msgspec.Struct):
    """All that happened between two optimizer steps, as seen when `optimizer` was about to step.

    `gradients` and `weights` list the parameters of that optimizer (a parameter without a gradient is missing from
    `gradients`). `window-<index>.safetensors` holds, by parameter: `gradient/<name>`, what the optimizer is about to
    use; `unclipped/<name>`, the same before the script clipped it, if it did; `local/<name>`, the sum of this process's
    own gradients before any averaging, where it could be seen; `micro/<i>/<name>`, the part of it from backward i.
    """

    index: int
    optimizer: int
    optimizer_type: str
    place: Place
    gradients: list[Share]
    weights: list[Share]
    buffers: dict[str, str]  # digest by name, BatchNorm's running statistics included
    forwards: int  # training forwards of the outermost modules
    backwards: int
    losses: list[Loss] = []
    draws: list[Draw] = []
    fetches: list[int] = []  # indices into Recording.fetches that these forwards consumed
    inputs: list[str] = []  # digests of the rows that entered the models, where no loader explains them
    clipped: Place | None = None
    local: bool = False  # local gradients were seen
    batch_norm: Place | None = None  # a BatchNorm layer took its statistics from this process's batch alone
    norm_modules: list[str] = []
    forwarded: Place | None = None  # line of the last training forward of an outermost module
    first_input: list[float | None] = []  # by row, a number that tells what entered the first training forward
    first_shape: list[int] = []
    bypassed: int = 0  # training forwards of a wrapped model that did not pass through its wrapper
    rates: list[float | None] = []  # learning rates of the optimizer's groups; None: it has none, or it is not finite


class Loader(msgspec.Struct):
    """A DataLoader that was iterated. `fingerprint` digests a few fixed samples: equal on two ranks, same data set."""

    place: Place
    dataset: str
    sampler: str
    iterable: bool
    length: int | None  # of the data set
    batches: int | None  # of one pass
    batch_size: int | None
    passes: int = 0
    completed: int = 0  # passes that ran to the end of the data
    ended: dict[int, int] = {}  # batches of each pass that ran to its end
    fingerprint: str | None = None
    remaining: list[int] | None = None  # indices that the sampler would still have given in the last pass


class Fetch(msgspec.Struct):
    """A batch taken from a loader, before collation. `samples` are content digests, `indices` what the sampler gave."""

    loader: int
    epoch: int  # number of the pass over this loader, from 0
    ordinal: int  # number of the batch in the pass
    window: int
    indices: list[int | str] | None
    samples: list[str] | None
    place: Place


class Collective(msgspec.Struct):
    """A collective that this process entered, in order. `by` is "script", "wrapper" (DDP, FSDP) or "library"."""

    name: str
    operation: str | None  # SUM, AVG, MAX …
    shape: list[int] | None
    dtype: str | None
    group: list[int]
    by: str
    place: Place
    window: int
    bytes: int = 0
    carries_gradient: bool = False  # its tensor requires grad, and autograd does not see the collective
    finished: bool = True
    root: int | None = None  # the global rank that it comes from or goes to


class Wrap(msgspec.Struct):
    """A model given to DDP, FSDP or fully_shard. Digests by name, before and after the wrap.

    `held` are the digests of the parts that this process holds after a wrap that shards: as in `Window.weights`, if
    nothing writes them anew.
    """

    kind: Literal["ddp", "fsdp", "fully_shard"]
    model: int
    place: Place
    before: dict[str, str]
    after: dict[str, str]
    buffers_before: dict[str, str] = {}
    buffers_after: dict[str, str] = {}
    group: list[int] = []
    options: dict[str, str] = {}
    held: dict[str, str] = {}


class Seed(msgspec.Struct):
    """A random state that the script seeded itself; `models` counts the outermost modules that existed by then."""

    function: str
    value: int
    place: Place
    models: int = 0


class Model(msgspec.Struct):
    """An outermost module, numbered in the order of construction, wrappers looked through."""

    type: str
    wrapped: bool
    parameters: int


class Note(msgspec.Struct):
    """Something that was changed or could not be seen, and where: `kind` is a stable word, `text` a sentence."""

    kind: str
    text: str
    place: Place = Place()


class Failure(msgspec.Struct):
    """An exception that left the script: where, in the user's own code and at all, and inside which collective."""

    type: str
    message: str
    traceback: str
    place: Place
    collective: str | None = None


class Recording(msgspec.Struct):
    """How the process went, from the first line of the script to its end or to the K-th step.

    `ending`: "stopped" by dpcheck after the last window; "ended", the script returned or exited with 0 before;
    "raised" an exception; "exited" with another status; "cut", told in the middle, before dpcheck killed the process.
    """

    role: Literal["rank", "reference"]
    rank: int
    world_size: int
    dtype: str
    ending: Literal["stopped", "ended", "raised", "exited", "cut"]
    status: int = 0
    left_at: Place = Place()  # line of the script's own that ended the process
    failure: Failure | None = None
    windows: list[Window] = []
    models: list[Model] = []
    wraps: list[Wrap] = []
    loaders: list[Loader] = []
    fetches: list[Fetch] = []
    collectives: list[Collective] = []
    seeds: list[Seed] = []
    group: int = 1  # ranks of the default process group, as it was at a step
    evaluations: int = 0  # forwards of outermost modules without gradient
    notes: list[Note] = []
    written: list[str] = []  # files that the script wrote or removed
    connected: list[str] = []  # network addresses it asked for
    started: list[str] = []  # programs it started
    seconds: dict[str, float] = {}
    version: int = VERSION


def tensors_file(folder: pathlib.Path, window: int) -> pathlib.Path:
    """The file that holds the tensors of a window."""
    return folder / f"window-{window}.safetensors"


def state_file(folder: pathlib.Path, window: int) -> pathlib.Path:
    """The file that holds parameters and buffers as they were at the first forward of a window."""
    return folder / f"state-{window}.safetensors"


def write(recording: Recording, folder: pathlib.Path) -> None:
    """Write `recording.json` whole or not at all."""
    partial = folder / (FILE + ".part")
    partial.write_bytes(wire.encode(recording))
    partial.replace(folder / FILE)


def read(folder: pathlib.Path) -> Recording | None:
    """The recording in `folder`, or None where its process left none. Raises `ValueError` for another version."""
    try:
        data = (folder / FILE).read_bytes()
    except FileNotFoundError:
        return None
    version = wire.decode(data, _Versioned).version
    if version != VERSION:
        raise ValueError(f"{folder / FILE} has version {version} of the format, this dpcheck reads {VERSION}")
    return wire.decode(data, Recording)


class _Versioned(msgspec.Struct):
    version: int
