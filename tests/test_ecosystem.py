"""What is recorded of the packages of `python -m tests.ecosystem`, and how it is compared; nothing is fetched."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from dpcheck import registry
from tests.ecosystem import __main__ as ecosystem
from tests.ecosystem.__main__ import Found, Verdict


def test_every_recorded_finding_is_judged() -> None:
    packages = {ecosystem.name(pin) for pin in ecosystem.PACKAGES.read_text("utf-8").split()}
    for found, verdict in ecosystem.recorded().items():
        assert found.package in packages
        assert registry.load().find(found.code)
        assert verdict.verdict in ecosystem.VERDICTS
        assert verdict.reason


def test_packages_are_pinned() -> None:
    assert all("==" in pin for pin in ecosystem.PACKAGES.read_text("utf-8").split())


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package of one file that lies unpacked already, and a record without findings."""
    (tmp_path / "one-1.0").mkdir()
    (tmp_path / "packages.txt").write_text("one==1.0\n")
    monkeypatch.setattr(ecosystem, "PACKAGES", tmp_path / "packages.txt")
    monkeypatch.setattr(ecosystem, "RECORDED", tmp_path / "recorded.toml")
    monkeypatch.setattr("sys.argv", ["ecosystem", "--keep", str(tmp_path)])
    return tmp_path


def test_a_new_finding_fails_until_it_is_recorded_and_judged(
    package: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (package / "one-1.0" / "a.py").write_text("def f(:\n")
    assert ecosystem.main() == 1
    assert "appeared: one a.py:1 DP900" in capsys.readouterr().out
    ecosystem.record({Found("one", "a.py:1", "DP900"): Verdict()})
    assert ecosystem.main() == 1
    assert "without a verdict: one a.py:1 DP900" in capsys.readouterr().out
    judged = {Found("one", "a.py:1", "DP900"): Verdict("right", 'it says "def f(:"')}
    ecosystem.record(judged)
    assert ecosystem.main() == 0
    monkeypatch.setattr("sys.argv", ["ecosystem", "--keep", str(package), "--record"])
    ecosystem.main()
    assert ecosystem.recorded() == judged
    (package / "one-1.0" / "a.py").write_text("")
    assert ecosystem.main() == 1
    assert "vanished: one a.py:1 DP900 (right:" in capsys.readouterr().out


def test_the_python_files_of_a_wheel_lie_where_they_are_installed(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.whl", "w") as wheel:
        for member in ("a/x.py", "a-1.data/purelib/a/y.py", "a/data.json"):
            wheel.writestr(member, "")
    ecosystem.unpack(tmp_path / "a.whl", tmp_path / "a")
    files = {path.relative_to(tmp_path / "a").as_posix() for path in (tmp_path / "a").rglob("*") if path.is_file()}
    assert files == {"a/x.py", "a/y.py"}
