"""The command line: what it prints, and what it exits with."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

import dpcheck
from dpcheck.cli import cli
from dpcheck.execution.describe import described

COMMAND = [sys.executable, "-m", "dpcheck"]


def call(*args: str, **env: str) -> Result:
    return CliRunner().invoke(cli, args, env={"NO_COLOR": None, "FORCE_COLOR": None, **env})


def test_version() -> None:
    assert call("--version").output == f"dpcheck, version {dpcheck.__version__}\n"


def test_help_names_every_command() -> None:
    output = call("--help").output
    assert all(f"\n  {name} " in output for name in ("check", "describe", "explain", "rules"))


@pytest.mark.parametrize("args", [["--version"], ["--help"], ["check", "--help"]])
def test_help_loads_nothing_heavy(args: list[str]) -> None:
    code = (
        "import sys\nfrom dpcheck.cli import cli\n"
        f"try:\n    cli.main({args!r}, standalone_mode=False)\nfinally:\n"
        "    print(*sys.modules, file=sys.stderr)"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stderr.split()
    heavy = {"libcst", "rich", "torch", "multiprocessing", "msgspec", "pathspec", "importlib.metadata"}
    assert heavy & set(loaded) == set()


def test_check_finds(here: Path, rules) -> None:
    (here / "a.py").write_text("x = 1  # BAD\n")
    result = call("check")
    assert result.exit_code == 1
    assert result.stdout.startswith("error[XX301 bad-word]: this line says BAD\n --> a.py:1:10\n")
    assert "1 error in 1 file (" in result.stdout
    assert result.stderr == ""


def test_check_finds_nothing(here: Path, rules) -> None:
    (here / "a.py").write_text("x = 1\n")
    result = call("check", "a.py")
    assert (result.exit_code, result.stderr) == (0, "")


@pytest.mark.parametrize(
    ("text", "args", "code"),
    [
        ("# BAD\n", [], 1),
        ("# ODD\n", [], 1),
        ("# ODD\n", ["--fail-on", "error"], 0),
        ("# FINE\n", ["--pedantic"], 0),
        ("# FINE\n", ["--extend-select", "XX401", "--fail-on", "note"], 1),
        ("# BAD\n", ["--exit-zero"], 0),
        ("# BAD\n", ["--ignore", "bad-word"], 0),
        ("# BAD\n", ["--select", "XX302,DP9"], 0),
        ("# BAD\n", ["--select", "XX302", "--select", "XX301"], 1),
        ("# BAD GUESS\n", [], 0),
        ("# BAD GUESS\n", ["--confidence", "low"], 1),
        ("(\n", [], 1),
        ("(\n", ["--fail-on", "error"], 1),
        ("# BAD CRASH\n", [], 2),
        ("# BAD CRASH\n", ["--exit-zero"], 2),
        ("# BAD EXPLODE\n", [], 2),
    ],
)
@pytest.mark.parametrize("output", ["full", "concise", "json"])
def test_exit_codes_are_the_same_in_every_format(
    here: Path, rules, text: str, args: list[str], code: int, output: str
) -> None:
    (here / "a.py").write_text(text)
    assert call("check", "--output", output, *args).exit_code == code


def test_configuration_counts_and_the_command_line_wins(here: Path, rules) -> None:
    (here / "a.py").write_text("# BAD\n")
    (here / "dpcheck.toml").write_text('ignore = ["bad-word"]\n')
    assert call("check").exit_code == 0
    assert call("check", "--extend-select", "bad-word").exit_code == 1
    assert call("check", "--select", "XX301").exit_code == 1


@pytest.mark.parametrize(
    ("args", "complaint"),
    [
        (["--select", "bad-wrd"], "command line: there is no rule 'bad-wrd', did you mean 'bad-word'?"),
        (["--output", "xml"], "'xml' is not one of full, concise, json"),
        (["--output", "json="], "'json=' names no file"),
        (["--output", "json", "--output", "full"], "only one can go to standard output"),
        (["--confidence", "sure"], "'sure' is not one of"),
        (["--frobnicate"], "No such option"),
        ([""], "a path is empty"),
        (["a.py", ""], "a path is empty"),
    ],
)
def test_wrong_usage(here: Path, rules, args: list[str], complaint: str) -> None:
    result = call("check", *args)
    assert (result.exit_code, result.stdout) == (2, "")
    assert complaint in result.stderr


def test_wrong_configuration(here: Path, rules) -> None:
    (here / "pyproject.toml").write_text("[tool.dpcheck]\nselct = []\n")
    result = call("check")
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"{here / 'pyproject.toml'}:2: unknown key 'selct', did you mean 'select'?" in result.stderr


def test_a_missing_path(here: Path, rules) -> None:
    (here / "a.py").write_text("# BAD\n")
    result = call("check", "--output", "concise", "a.py", "gone.py")
    assert result.exit_code == 2
    assert "a.py:1:3: error[XX301]" in result.stdout
    assert result.stderr == "error: no such file or folder: gone.py\n"


def test_a_path_that_is_no_file(here: Path, rules) -> None:
    (here / "a.py").write_text("# BAD\n")
    os.mkfifo(here / "pipe.py")
    result = call("check", "--output", "concise", "a.py", "pipe.py", os.devnull)
    assert result.exit_code == 2
    assert "a.py:1:3: error[XX301]" in result.stdout
    assert (
        result.stderr
        == f"error: neither a file nor a folder: pipe.py\nerror: neither a file nor a folder: {os.devnull}\n"
    )


def test_a_file_that_may_not_be_read_does_not_hide_the_others(here: Path, rules, monkeypatch) -> None:
    (here / "a.py").write_text("# BAD\n")
    monkeypatch.setattr(
        os, "access", lambda *args, **kwargs: False
    )  # what the operating system says to others than root
    result = call("check", "--output", "concise", "a.py")
    assert (result.exit_code, result.stderr) == (1, "")
    assert "a.py:1:3: error[XX301]" in result.stdout


def test_names_do_not_steer_the_terminal(here: Path, rules) -> None:
    result = call("check", "gone\x1b[31m.py")
    assert "no such file or folder: gone␛[31m.py" in result.stderr
    (here / "dpcheck.toml").write_text('ignore = ["\\u001b[31m"]')
    assert "\x1b" not in call("check").stderr


@pytest.mark.skipif(sys.platform == "darwin", reason="file names are UTF-8 there")
def test_a_name_that_is_not_utf8(here: Path) -> None:
    (here / os.fsdecode(b"caf\xe9.py")).write_text("(\n")
    result = call(
        "check", "--no-cache", "--output", "full", "--output", "json=report.json", "--output", "concise=out.txt"
    )
    assert result.exit_code == 1
    assert result.stderr == ""
    (finding,) = json.loads((here / "report.json").read_bytes())["findings"]
    assert finding["path"] == "caf�.py"
    assert (here / "out.txt").read_text("utf-8").startswith("caf�.py:1:1: error[DP900] ")


def test_an_internal_error_names_the_file(here: Path, rules) -> None:
    (here / "a.py").write_text("# EXPLODE\n")
    (here / "b.py").write_text("# BAD\n")
    result = call("check", "--output", "concise")
    assert "b.py:1:3: error[XX301]" in result.stdout
    assert result.stderr.startswith("internal error while executing the program from a.py:\nTraceback")
    assert "RecursionError: the interpreter broke" in result.stderr


def test_an_empty_folder(here: Path, rules) -> None:
    result = call("check")
    assert (result.exit_code, result.stderr) == (0, "warning: no Python files found\n")
    assert json.loads(call("check", "--output", "json").stdout)["findings"] == []


def test_several_outputs(here: Path, rules) -> None:
    (here / "a.py").write_text("# BAD\n")
    (here / "kept.json").symlink_to("real.json")
    result = call(
        "check", "--no-cache", "--output", "concise", "--output", "json=kept.json", "--output", "full=full.txt"
    )
    assert result.exit_code == 1
    assert "error[XX301]" in result.stdout
    assert json.loads((here / "real.json").read_text())["findings"][0]["code"] == "XX301"
    assert (here / "full.txt").read_text().startswith("error[XX301 bad-word]")
    assert sorted(path.name for path in here.iterdir()) == ["a.py", "full.txt", "kept.json", "real.json"]


def test_the_cache(here: Path, rules) -> None:
    (here / "a.py").write_text("# BAD\n")
    assert call("check", "--no-cache").exit_code == 1
    assert not (here / ".dpcheck_cache").exists()
    assert call("check").exit_code == 1
    assert (here / ".dpcheck_cache").is_dir()
    assert call("check").exit_code == 1
    (here / "a.py").write_text("")
    assert call("check").exit_code == 0


def test_output_to_a_device_leaves_it_one(here: Path, rules) -> None:
    os.mkfifo(here / "pipe")
    reader = os.open(here / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    assert call("check", "--output", "json=pipe").exit_code == 0
    assert json.loads(os.read(reader, 1 << 16))["version"] == 1
    os.close(reader)
    assert (here / "pipe").is_fifo()


def test_output_to_an_open_descriptor_spoils_nothing(here: Path) -> None:
    (here / "a.py").write_text("(\n")
    command = (
        f"echo before; {shlex.join(COMMAND)} check --output json=/dev/stdout --output concise=/dev/fd/2; echo after"
    )
    with (here / "out").open("w") as out:
        done = subprocess.run(command, shell=True, stdout=out, stderr=subprocess.PIPE, text=True)
    assert done.stderr.startswith("a.py:1:1: error[DP900] ")
    before, _, text = (here / "out").read_text().partition("\n")
    report, _, after = text.rpartition("}")
    assert (before, after) == ("before", "\nafter\n")
    assert json.loads(report + "}")["version"] == 1


def test_a_reader_that_goes_away_costs_no_other_output(here: Path) -> None:
    for number in range(400):
        (here / f"a{number}.py").write_text("(\n")
    command = f"{shlex.join(COMMAND)} check --output full --output json=report.json | true"
    assert subprocess.run(command, shell=True, capture_output=True).stderr == b""
    assert len(json.loads((here / "report.json").read_text())["findings"]) == 400


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is full")
@pytest.mark.parametrize("args", ["check", "describe a.py", "rules", "rules --output json", "explain DP900", "--help"])
def test_standard_output_that_takes_nothing(here: Path, args: str) -> None:
    (here / "a.py").write_text("(\n")
    command = f"{shlex.join(COMMAND)} {args} > /dev/full"
    done = subprocess.run(command, shell=True, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2
    assert "cannot write to standard output: No space left on device" in done.stderr
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


@pytest.mark.parametrize(("closed", "output"), [("<&-", True), ("2>&-", True), (">&-", False), ("<&- >&- 2>&-", False)])
def test_closed_standard_streams(here: Path, closed: str, output: bool) -> None:
    (here / "a.py").write_text("(\n")
    command = f"{shlex.join(COMMAND)} check --output concise --output json=report.json {closed}"
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (1, "")
    assert bool(done.stdout) is output
    assert json.loads((here / "report.json").read_text())["summary"]["unreadable"] == 1
    assert (
        subprocess.run(f"{shlex.join(COMMAND)} check gone.py {closed}", shell=True, capture_output=True).returncode == 2
    )


def test_a_current_directory_that_is_gone(here: Path) -> None:
    command = "mkdir gone && cd gone && rmdir ../gone && "
    for args in ("check", "describe a.py"):
        done = subprocess.run(f"{command}{shlex.join(COMMAND)} {args}", shell=True, capture_output=True, text=True)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == "Error: cannot use the current directory: No such file or directory\n"


def test_output_that_cannot_be_written(here: Path, rules) -> None:
    result = call("check", "--output", "json=no/such/folder.json")
    assert result.exit_code == 2
    assert "error: cannot write no/such/folder.json: No such file or directory" in result.stderr


@pytest.mark.parametrize(
    ("env", "colored"),
    [({}, False), ({"FORCE_COLOR": "1"}, True), ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False)],
)
def test_colour(here: Path, rules, env: dict[str, str], colored: bool) -> None:
    (here / "a.py").write_text("# BAD\n")
    assert ("\x1b[" in call("check", **env).stdout) is colored
    assert "\x1b[" not in call("check", "--output", "json", **env).stdout


def test_explain() -> None:
    by_code, by_name = call("explain", "DP901"), call("explain", "unused-suppression")
    assert by_code.exit_code == 0
    assert by_code.stdout.startswith("# unused-suppression (DP901)\n\n## What it does\n")
    assert by_name.stdout == by_code.stdout


def test_explain_an_unknown_rule() -> None:
    result = call("explain", "unused-supression")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "there is no rule 'unused-supression', did you mean 'unused-suppression'?" in result.stderr


def test_rules() -> None:
    rows = call("rules").stdout.splitlines()
    assert any(row.startswith("DP900  unreadable-file ") and "  error  " in row for row in rows)
    listed = json.loads(call("rules", "--output", "json").stdout)
    assert [row["code"] for row in listed] == [row.split()[0] for row in rows]
    assert listed[-1] == {
        "code": "DP902",
        "name": "unknown-rule",
        "group": "hygiene",
        "severity": "warning",
        "pedantic": False,
        "summary": "an ignore comment names a rule that does not exist",
    }


def test_describe_a_missing_path(here: Path) -> None:
    result = call("describe", "gone.py")
    assert result.exit_code == 2
    assert "no such file or folder: gone.py" in result.stderr


def test_describe_says_what_it_could_not_read(here: Path) -> None:
    (here / "a.py").write_text("import os\nprint 'x'\n")
    os.mkfifo(here / "pipe.py")
    result = call("describe", "a.py")
    assert (result.exit_code, result.stdout) == (1, "no data-parallel training run was found\n")
    assert result.stderr.startswith("error: a.py:2:1: is not valid Python: Missing parentheses in call to 'print'")
    result = call("describe", "pipe.py")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == "error: neither a file nor a folder: pipe.py\n"


def test_describe_goes_on_after_a_failure(here: Path, monkeypatch) -> None:
    script = "import torch.distributed as dist\ndist.init_process_group('gloo')\n"
    (here / "a.py").write_text(script)
    (here / "b.py").write_text(script)

    def broken(run):
        if run.entry.path == "a.py":
            raise ZeroDivisionError
        return described(run)

    monkeypatch.setattr("dpcheck.check.described", broken)
    result = call("describe", ".")
    assert result.exit_code == 2
    assert result.stdout.startswith("b.py\n  group           the process group is started here")
    assert result.stderr.startswith("internal error while describing the run from a.py:\nTraceback")


def test_an_unexpected_failure_exits_with_two(here: Path) -> None:
    code = (
        "import dpcheck.check, dpcheck.cli, sys\n"
        "def broken(*args): raise ZeroDivisionError\n"
        "dpcheck.check.check = broken\n"
        "sys.argv = ['dpcheck', 'check']\n"
        "dpcheck.cli.main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 2
    assert "ZeroDivisionError" in done.stderr


def test_as_a_module(here: Path) -> None:
    (here / "a.py").write_text("print 'x'\n")
    done = subprocess.run([*COMMAND, "check", "--output", "json"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (1, "")
    assert [finding["code"] for finding in json.loads(done.stdout)["findings"]] == ["DP900"]


def test_a_narrow_encoding_does_not_fail(here: Path) -> None:
    (here / "日.py").write_text("(\n")
    env = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    done = subprocess.run([*COMMAND, "check"], capture_output=True, text=True, env=env)
    assert done.returncode == 1
    assert "\\u65e5.py:1:1" in done.stdout


def test_a_closed_pipe_ends_quietly(here: Path) -> None:
    for number in range(400):
        (here / f"a{number}.py").write_text("(\n")
    process = subprocess.Popen([*COMMAND, "check"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait() != 2
    process.stderr.close()


def test_ctrl_c_ends_without_a_traceback(here: Path) -> None:
    os.mkfifo(here / "report")  # nobody reads it, so that the command waits
    # Where the tests themselves run in the background, Ctrl-C is ignored, and what they start inherits that.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        process = subprocess.Popen([*COMMAND, "check", "--output", "json=report"], stderr=subprocess.PIPE)
    finally:
        signal.signal(signal.SIGINT, before)
    try:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(3)
        process.send_signal(signal.SIGINT)
        _, complaint = process.communicate(timeout=30)
    finally:
        process.kill()
    assert (process.returncode, complaint.split()) == (130, [b"interrupted"])


def test_commands_are_click_commands() -> None:
    context = click.Context(cli)
    assert all(cli.get_command(context, name) is not None for name in cli.list_commands(context))
    assert cli.get_command(context, "nothing") is None
