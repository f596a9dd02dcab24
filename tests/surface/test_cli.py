"""The command line: what it prints, and what it exits with."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

import dpcheck
from dpcheck.cli import cli

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


def test_ctrl_c_ends_quietly(here: Path) -> None:
    os.mkfifo(here / "report")  # nobody reads it, so that the command waits
    process = subprocess.Popen([*COMMAND, "check", "--output", "json=report"], stderr=subprocess.PIPE)
    assert process.stderr is not None
    try:
        process.wait(3)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
    assert process.wait(30) == 130
    assert process.stderr.read().strip() == b""
    process.stderr.close()


def test_commands_are_click_commands() -> None:
    context = click.Context(cli)
    assert all(cli.get_command(context, name) is not None for name in cli.list_commands(context))
    assert cli.get_command(context, "nothing") is None
