"""The command line of `dpcheck verify`: what it takes, and what it exits with. Nothing is run here."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from dpcheck.cli import cli
from dpcheck.verify import plan
from dpcheck.verify.launch import LaunchError
from dpcheck.verify.options import Options
from dpcheck.verify.result import EXIT_STATUS, Report


def call(*args: str) -> Result:
    return CliRunner().invoke(cli, ["verify", *args], env={"NO_COLOR": None, "FORCE_COLOR": None})


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Options]:
    """The options that `plan.verify` was called with; it says that all is well."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("")
    calls: list[Options] = []

    def verify(options: Options, progress: Any = None) -> Report:
        calls.append(options)
        return Report(verdict="equivalent", reason="all is well", ranks=2, steps=3, dtype="float64")

    monkeypatch.setattr(plan, "verify", verify)
    return calls


def test_defaults(asked: list[Options]) -> None:
    result = call("train.py")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith("equivalent: all is well\n")
    assert asked == [Options(script="train.py")]


def test_all_options(asked: list[Options]) -> None:
    options = (
        "--ranks 4 --nodes 2 --steps 5 --epochs 2 --window last --dtype float32 --uneven --cap 3,1 --strict "
        "--timeout 60 --device cuda --backend gloo --keep kept"
    )
    assert call(*options.split(), "train.py").exit_code == 0
    assert asked == [
        Options(
            script="train.py", ranks=4, nodes=2, steps=5, epochs=2, window="last", dtype="float32", uneven=True,
            caps=(3, 1), strict=True, timeout=60.0, device="cuda", backend="gloo", keep=Path("kept"),
        )
    ]  # fmt: skip
    assert Path("kept").is_dir()


def test_the_backend_follows_the_device(asked: list[Options]) -> None:
    call("--device", "cuda", "train.py")
    assert asked[0].backend == "nccl"


@pytest.mark.parametrize(
    ("args", "script", "module", "arguments"),
    [
        (["train.py", "--steps", "9", "--lr=1"], "train.py", False, ("--steps", "9", "--lr=1")),
        (["--strict", "--steps=4", "train.py", "-m", "x"], "train.py", False, ("-m", "x")),
        (["-m", "package.train", "--help", "--steps", "9"], "package.train", True, ("--help", "--steps", "9")),
        (["--steps", "4", "-m", "train"], "train", True, ()),
        (["train.py", "--", "a"], "train.py", False, ("--", "a")),
    ],
)
def test_what_follows_is_the_scripts(
    asked: list[Options], args: list[str], script: str, module: bool, arguments: tuple[str, ...]
) -> None:
    assert call(*args).exit_code == 0
    assert (asked[0].script, asked[0].module, asked[0].arguments) == (script, module, arguments)


@pytest.mark.parametrize(
    ("args", "complaint"),
    [
        ([], "name a script to run, or a module with -m"),
        (["gone.py"], "no such file: gone.py"),
        (["."], "the folder . holds no __main__.py"),
        (["-m", "a-b"], "'a-b' is no name of a module"),
        (["-m"], "requires an argument"),
        (["--ranks", "1", "train.py"], "1 is not in the range 2<=x<=64"),
        (["--steps", "0", "train.py"], "0 is not in the range x>=1"),
        (["--epochs", "no", "train.py"], "'no' is not a valid integer"),
        (["--timeout", "0", "train.py"], "0.0 is not in the range x>0"),
        (["--cap", "3,0", "train.py"], "'3,0' is not a number of samples"),
        (["--cap", "", "train.py"], "is not a number of samples"),
        (["--cap", "1,2,3", "train.py"], "--cap names 3 ranks, there are 2"),
        (["--nodes", "3", "train.py"], "--nodes 3 does not divide 2 ranks"),
        (["--backend", "nccl", "train.py"], "--backend nccl needs --device cuda"),
        (["--dtype", "float16", "train.py"], "'float16' is not one of 'float64', 'float32'"),
        (["--output", "xml", "train.py"], "'xml' is not one of full, json"),
        (["--keep", "full", "train.py"], "the folder full is not empty"),
        (["--keep", "train.py", "train.py"], "cannot use the folder train.py: File exists"),
        (["--frobnicate", "train.py"], "No such option"),
    ],
)
def test_wrong_usage(asked: list[Options], args: list[str], complaint: str) -> None:
    Path("full").mkdir()
    Path("full/file").touch()
    result = call(*args)
    assert (result.exit_code, result.stdout, asked) == (2, "", [])
    assert complaint in result.stderr


@pytest.mark.parametrize(
    ("gone", "said"),
    [
        ({"torch"}, "dpcheck verify needs torch: pip install 'dpcheck[verify]'"),
        ({"numpy", "safetensors"}, "dpcheck verify needs numpy and safetensors: pip install 'dpcheck[verify]'"),
    ],
)
def test_packages_that_are_missing(
    asked: list[Options], monkeypatch: pytest.MonkeyPatch, gone: set[str], said: str
) -> None:
    found: Callable[..., Any] = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name in gone else found(name, *rest))
    result = call("train.py")
    assert (result.exit_code, asked) == (2, [])
    assert result.stderr == f"Error: {said}\n"


def test_an_old_torch(asked: list[Options], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.metadata.version", lambda name: "2.0.1+cu118")
    result = call("train.py")
    assert result.exit_code == 2
    assert "needs torch 2.1 or newer, this is 2.0.1+cu118" in result.stderr


@pytest.mark.parametrize("verdict", EXIT_STATUS)
def test_exit_codes(asked: list[Options], monkeypatch: pytest.MonkeyPatch, verdict: Any) -> None:
    report = Report(verdict=verdict, reason="so it is", ranks=2, steps=3, dtype="float64")
    monkeypatch.setattr(plan, "verify", lambda options, progress=None: report)
    for output in ("full", "json"):
        assert call("--output", output, "train.py").exit_code == EXIT_STATUS[verdict]


def test_outputs(asked: list[Options]) -> None:
    result = call("--output", "json=report.json", "--output", "full", "train.py")
    assert result.stdout.startswith("equivalent: all is well\n")
    assert json.loads(Path("report.json").read_text())["verdict"] == "equivalent"
    assert call("--output", "json=no/such/folder.json", "train.py").exit_code == 2


def test_colour(asked: list[Options]) -> None:
    runner = CliRunner()
    env = {"NO_COLOR": None, "FORCE_COLOR": "1"}
    assert "\x1b[1;32m" in runner.invoke(cli, ["verify", "train.py"], env=env).stdout
    assert "\x1b" not in runner.invoke(cli, ["verify", "--no-color", "train.py"], env=env).stdout


def test_processes_that_cannot_be_started(asked: list[Options], monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(options: Options, progress: Any = None) -> Report:
        raise LaunchError("no fork here")

    monkeypatch.setattr(plan, "verify", fail)
    result = call("train.py")
    assert (result.exit_code, result.stderr) == (2, "Error: no fork here\n")


def test_the_conductor_never_imports_torch() -> None:
    code = (
        "import sys\n"
        "import dpcheck.cli.verify, dpcheck.verify.plan, dpcheck.verify.judge.verdict, dpcheck.verify.judge.merge\n"
        "import dpcheck.verify.report.text, dpcheck.verify.report.json\n"
        "print('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys\nfrom dpcheck.cli import cli\n"
        "try:\n    cli.main(['verify', '--help'], standalone_mode=False)\nfinally:\n"
        "    print(*sys.modules, file=sys.stderr)"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stderr.split()
    assert {"torch", "numpy", "msgspec", "libcst", "safetensors"} & set(loaded) == set()
