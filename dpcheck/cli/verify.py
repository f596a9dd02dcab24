"""`dpcheck verify`."""

from __future__ import annotations

import importlib.util
import pathlib
import re
import sys
import time
from typing import Literal

import click

from dpcheck.cli import Failure
from dpcheck.cli.output import Output, outputs_among, wants_color, write_all

_NEEDED = ("torch", "numpy", "safetensors")
_OLDEST_TORCH = (2, 1)
_FORMATS = ("full", "json")
_REDRAW = 0.1  # seconds


class _Command(click.Command):
    """As Python does it: what follows the script, or the module of -m, is the script's own."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        flags = {name for param in self.params if getattr(param, "is_flag", False) for name in param.opts}
        place = 0
        while place < len(args) and args[place].startswith("-") and args[place] not in ("-", "--"):
            if args[place] == "-m" and place + 1 < len(args):
                args = [*args[: place + 2], "--", *args[place + 2 :]]
                break
            alone = args[place] in flags or "=" in args[place] or args[place] in ctx.help_option_names
            place += 1 if alone else 2
        return super().parse_args(ctx, args)


def _caps(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[int, ...]:
    """`2` or `3,1`: positive numbers."""
    if value is None:
        return ()
    caps = tuple(int(part) if part.strip().isdecimal() else 0 for part in value.split(","))
    if not all(caps):
        raise click.BadParameter(f"{value!r} is not a number of samples, or one for each rank as in 3,1")
    return caps


@click.command("verify", cls=_Command, context_settings={"allow_interspersed_args": False})
@click.option("--ranks", type=click.IntRange(2, 64), default=2, show_default=True, help="How many ranks to run.")
@click.option(
    "--nodes",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Machines they seem to be spread over: local ranks begin anew on each.",
)
@click.option("--steps", type=click.IntRange(1), default=3, show_default=True, help="Optimizer steps to compare.")
@click.option("--epochs", type=click.IntRange(1), default=1, show_default=True, help="Passes over the data to watch.")
@click.option(
    "--window",
    type=click.Choice(["first", "last"]),
    default="first",
    show_default=True,
    help="Compare the first steps, or the last ones of the epochs.",
)
@click.option(
    "--dtype",
    type=click.Choice(["float64", "float32"]),
    default="float64",
    show_default=True,
    help="Precision to compute in. float32 is coarse.",
)
@click.option("--uneven", is_flag=True, help="Shorten the last rank's batches, so that a mean over equal counts shows.")
@click.option("--cap", "caps", callback=_caps, metavar="N[,M...]", help="Samples to keep of each batch, by rank.")
@click.option(
    "--strict", is_flag=True, help="Fail what is told only: BatchNorm's statistics by rank, noise that ranks share."
)
@click.option(
    "--timeout",
    type=click.FloatRange(0, min_open=True),
    default=600.0,
    show_default=True,
    metavar="SECONDS",
    help="How long each run may take.",
)
@click.option(
    "--device", type=click.Choice(["cpu", "cuda"]), default="cpu", show_default=True, help="Where to compute."
)
@click.option(
    "--backend", type=click.Choice(["gloo", "nccl"]), help="For collectives (default: nccl on cuda, else gloo)."
)
@click.option(
    "--output",
    "outputs",
    multiple=True,
    callback=outputs_among(_FORMATS),
    metavar="FORMAT[=FILE]",
    help=f"Write the report as {', '.join(_FORMATS)}, to a file if one is given; repeatable.",
)
@click.option("--keep", metavar="FOLDER", help="Leave all recordings in this folder, which must be empty or new.")
@click.option("--no-color", is_flag=True, help="Print no colours.")
@click.option("-m", "module", metavar="MODULE", help="Run a module as a script.")
@click.argument("command_line", nargs=-1, type=click.UNPROCESSED, metavar="SCRIPT [ARGUMENT]...")
@click.pass_context
def command(
    ctx: click.Context,
    ranks: int,
    nodes: int,
    steps: int,
    epochs: int,
    window: Literal["first", "last"],
    dtype: Literal["float64", "float32"],
    uneven: bool,
    caps: tuple[int, ...],
    strict: bool,
    timeout: float,
    device: Literal["cpu", "cuda"],
    backend: Literal["gloo", "nccl"] | None,
    outputs: list[Output],
    keep: str | None,
    no_color: bool,
    module: str | None,
    command_line: tuple[str, ...],
) -> None:
    """Run SCRIPT on several ranks and as one process, and say whether both computed the same update.

    The script is executed, with its arguments: verify only what you would run yourself. It is stopped after a few
    optimizer steps. What it writes is thrown away as far as the system permits.

    Exits with 0 when the updates are equivalent, with 1 when they differ, the collectives do not match or the ranks
    hang, and with 2 on wrong usage, an error of the script's own, or when the run decides nothing.
    """
    script, arguments = _script(module, command_line)
    if len(caps) > ranks:
        raise click.UsageError(f"--cap names {len(caps)} ranks, there are {ranks}")
    if ranks % nodes:
        raise click.UsageError(f"--nodes {nodes} does not divide {ranks} ranks")
    if backend == "nccl" and device == "cpu":
        raise click.UsageError("--backend nccl needs --device cuda")
    _require_packages()
    folder = _folder_to_keep(keep)

    from dpcheck.report.sources import read_lines
    from dpcheck.verify.launch import LaunchError
    from dpcheck.verify.options import Options
    from dpcheck.verify.plan import verify
    from dpcheck.verify.report import render
    from dpcheck.verify.result import EXIT_STATUS

    options = Options(
        script=script,
        module=module is not None,
        arguments=arguments,
        ranks=ranks,
        nodes=nodes,
        steps=steps,
        epochs=epochs,
        window=window,
        dtype=dtype,
        uneven=uneven,
        caps=caps,
        strict=strict,
        timeout=timeout,
        device=device,
        backend=backend or ("nccl" if device == "cuda" else "gloo"),
        keep=folder,
    )
    line = _ProgressLine()
    try:
        report = verify(options, line.update if sys.stderr.isatty() else None)
    except LaunchError as error:
        said, _, details = str(error).partition("\n")
        if details:
            click.echo(details, err=True)
        raise Failure(said) from error
    finally:
        line.clear()
    color = wants_color() and not no_color
    if not write_all(outputs, lambda name, colored: render(name, report, read_lines, color=colored), color=color):
        ctx.exit(2)
    ctx.exit(EXIT_STATUS[report.verdict])


def _script(module: str | None, command_line: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """The script or module, and its arguments."""
    if module is not None:
        if not re.fullmatch(r"\w+(\.\w+)*", module):
            raise click.UsageError(f"{module!r} is no name of a module")
        return module, command_line
    if not command_line:
        raise click.UsageError("name a script to run, or a module with -m")
    path = pathlib.Path(command_line[0])
    if path.is_dir() and not (path / "__main__.py").is_file():
        raise Failure(f"the folder {path} holds no __main__.py")
    if not path.exists() or command_line[0] == "":
        raise Failure(f"no such file: {command_line[0]}")
    return command_line[0], command_line[1:]


def _require_packages() -> None:
    """Say in one line what is not installed: verify computes, and check needs none of it."""
    from importlib import metadata  # slow to load, and the help of every command loads this file

    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise Failure(f"dpcheck verify needs {' and '.join(missing)}: pip install 'dpcheck[verify]'")
    version = metadata.version("torch")
    if tuple(map(int, re.findall(r"\d+", version)[:2])) < _OLDEST_TORCH:
        raise Failure(f"dpcheck verify needs torch 2.1 or newer, this is {version}: pip install 'dpcheck[verify]'")


def _folder_to_keep(keep: str | None) -> pathlib.Path | None:
    if keep is None:
        return None
    folder = pathlib.Path(keep)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise Failure(f"the folder {folder} is not empty")
    except OSError as error:
        raise Failure(f"cannot use the folder {folder}: {error.strerror}") from error
    return folder


class _ProgressLine:
    """What is running, on one line of standard error that is written over and cleared at the end."""

    def __init__(self) -> None:
        self._drawn = 0
        self._moment = 0.0

    def update(self, running: str, step: int, seconds: float) -> None:
        now = time.monotonic()
        if now - self._moment < _REDRAW:
            return
        self._moment = now
        self._write(f"{running}: step {step}, {seconds:.0f} s")

    def clear(self) -> None:
        if self._drawn:
            self._write("")
            sys.stderr.write("\r")
            sys.stderr.flush()
            self._drawn = 0

    def _write(self, text: str) -> None:
        sys.stderr.write(f"\r{text.ljust(self._drawn)}")
        sys.stderr.flush()
        self._drawn = len(text)
