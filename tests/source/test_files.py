from __future__ import annotations

import os
from pathlib import Path

import pytest

from dpcheck.source.files import Selection, discover, display


def tree(root: Path, *files: str) -> None:
    for file in files:
        path = root / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def names(selection: Selection, root: Path) -> list[str]:
    return [path.relative_to(root).as_posix() for path in selection.files]


def test_folders_and_files(tmp_path: Path) -> None:
    tree(tmp_path, "b.py", "a.py", "a.txt", "script", "sub/c.py", "sub/d/e.py", "sub.py/f.py")
    assert names(discover([tmp_path]), tmp_path) == ["a.py", "b.py", "sub.py/f.py", "sub/c.py", "sub/d/e.py"]
    assert names(discover([tmp_path / "script", tmp_path / "sub" / "d"]), tmp_path) == ["script", "sub/d/e.py"]


def test_duplicates_and_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree(tmp_path, "b.py", "sub/c.py")
    monkeypatch.chdir(tmp_path)
    found = discover([Path("sub"), Path("sub/../b.py"), Path("sub/c.py"), Path()])
    assert names(found, tmp_path) == ["b.py", "sub/c.py"]
    assert all(path.is_absolute() for path in found.files)
    assert found.roots == (tmp_path / "sub", tmp_path, tmp_path / "sub", tmp_path)


def test_missing_paths_are_told(tmp_path: Path) -> None:
    tree(tmp_path, "a.py")
    found = discover([tmp_path / "a.py", tmp_path / "b.py", tmp_path / "c"])
    assert names(found, tmp_path) == ["a.py"]
    assert found.missing == (tmp_path / "b.py", tmp_path / "c")


@pytest.mark.parametrize(
    "folder",
    [".git", ".hg", ".venv", "venv", "node_modules", "__pycache__", "build", "dist", ".tox", ".nox", ".mypy_cache"],
)
def test_excluded_by_default(tmp_path: Path, folder: str) -> None:
    tree(tmp_path, f"{folder}/a.py", f"{folder}/sub/a.py", f"x/{folder}/a.py", "x/b.py")
    assert names(discover([tmp_path]), tmp_path) == ["x/b.py"]
    assert names(discover([tmp_path / folder]), tmp_path) == [f"{folder}/a.py", f"{folder}/sub/a.py"]
    assert names(discover([tmp_path / folder / "a.py"]), tmp_path) == [f"{folder}/a.py"]


def test_environments_are_excluded(tmp_path: Path) -> None:
    tree(tmp_path, "env/a.py", "envs/mine/pyvenv.cfg", "envs/mine/lib/a.py", "envs/b.py")
    assert names(discover([tmp_path]), tmp_path) == ["env/a.py", "envs/b.py"]
    assert names(discover([tmp_path / "envs" / "mine"]), tmp_path) == ["envs/mine/lib/a.py"]


def test_a_package_may_be_called_dist(tmp_path: Path) -> None:
    tree(tmp_path, "pkg/dist/__init__.py", "pkg/dist/a.py", "dist/pkg/b.py")
    assert names(discover([tmp_path]), tmp_path) == ["pkg/dist/__init__.py", "pkg/dist/a.py"]


def test_exclude_patterns(tmp_path: Path) -> None:
    tree(tmp_path, "a.py", "gen/b.py", "x/gen/c.py", "x/d_pb2.py", "x/e.py")
    found = discover([tmp_path], exclude=["/gen", "*_pb2.py"], root=tmp_path)
    assert names(found, tmp_path) == ["a.py", "x/e.py", "x/gen/c.py"]
    found = discover([tmp_path / "x"], exclude=["x/gen/", "!x/gen/keep"], root=tmp_path)
    assert names(found, tmp_path) == ["x/d_pb2.py", "x/e.py"]
    found = discover([tmp_path / "x" / "e.py"], exclude=["*"], root=tmp_path)
    assert names(found, tmp_path) == ["x/e.py"]


def test_gitignore(tmp_path: Path) -> None:
    tree(tmp_path, ".git/config", "a.py", "b.py", "out/c.py", "x/a.py", "x/b.py", "x/out/d.py", "x/y/e.py")
    (tmp_path / ".gitignore").write_text("# comment\n\n/b.py\nout/\n[\n")
    (tmp_path / "x" / ".gitignore").write_text("a.py\n!out/\n/y/*\n")
    assert names(discover([tmp_path]), tmp_path) == ["a.py", "x/b.py", "x/out/d.py"]
    assert names(discover([tmp_path / "x"]), tmp_path) == ["x/b.py", "x/out/d.py"]
    assert names(discover([tmp_path / "out"]), tmp_path) == ["out/c.py"]
    assert names(discover([tmp_path / "x" / "a.py"]), tmp_path) == ["x/a.py"]


def test_gitignore_above_the_repository_does_not_count(tmp_path: Path) -> None:
    tree(tmp_path, "repo/.git/config", "repo/a.py")
    (tmp_path / ".gitignore").write_text("a.py\n")
    assert names(discover([tmp_path / "repo"]), tmp_path) == ["repo/a.py"]
    assert names(discover([tmp_path]), tmp_path) == []


def test_links(tmp_path: Path) -> None:
    tree(tmp_path, "b/x.py", "other/y.py", "outside/z.py")
    (tmp_path / "b" / "loop").symlink_to(tmp_path / "b")
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b" / "far").symlink_to(tmp_path / "outside")
    (tmp_path / "b" / "gone.py").symlink_to(tmp_path / "nothing.py")
    (tmp_path / "b" / "round.py").symlink_to(tmp_path / "b" / "round.py")
    (tmp_path / "b" / "again.py").symlink_to(tmp_path / "b" / "x.py")
    (tmp_path / "b" / "y.py").symlink_to(tmp_path / "other" / "y.py")
    assert names(discover([tmp_path / "b"]), tmp_path) == ["b/far/z.py", "b/x.py", "b/y.py"]
    assert names(discover([tmp_path]), tmp_path) == ["b/x.py", "other/y.py", "outside/z.py"]


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="needs a folder that cannot be read")
def test_folders_that_cannot_be_read(tmp_path: Path) -> None:
    tree(tmp_path, "a.py", "locked/b.py")
    (tmp_path / "locked").chmod(0)
    try:
        found = discover([tmp_path])
    finally:
        (tmp_path / "locked").chmod(0o700)
    assert names(found, tmp_path) == ["a.py"]
    assert found.unlisted == (tmp_path / "locked",)


def test_what_is_no_file(tmp_path: Path) -> None:
    tree(tmp_path, "a.py")
    os.mkfifo(tmp_path / "pipe.py")
    assert names(discover([tmp_path]), tmp_path) == ["a.py"]
    found = discover([tmp_path / "pipe.py", tmp_path / "a.py", Path(os.devnull)])
    assert names(found, tmp_path) == ["a.py"]
    assert found.irregular == (tmp_path / "pipe.py", Path(os.devnull))


def test_a_pipe_is_no_gitignore(tmp_path: Path) -> None:
    tree(tmp_path, "a.py")
    os.mkfifo(tmp_path / ".gitignore")
    assert names(discover([tmp_path]), tmp_path) == ["a.py"]


def test_a_path_that_cannot_be_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree(tmp_path, "locked/a.py", "b.py")
    look = Path.stat

    def stat(self: Path, **kwargs: bool) -> os.stat_result:
        if self.parent.name == "locked":
            raise PermissionError
        return look(self, **kwargs)

    monkeypatch.setattr(Path, "stat", stat)
    found = discover(
        [tmp_path / "locked" / "a.py", tmp_path / "b.py", tmp_path / ("a" * 5000), tmp_path / "b.py" / "c"]
    )
    assert names(found, tmp_path) == ["b.py", "locked/a.py"]  # that it cannot be read is then said of the file
    assert [path.name for path in found.missing] == ["a" * 5000, "c"]


def test_display(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert display(Path("a/b.py")) == "a/b.py"
    assert display(tmp_path / "a" / ".." / "b.py") == "b.py"
    assert display(tmp_path.parent / "b.py") == (tmp_path.parent / "b.py").as_posix()
    assert display(Path(f"{tmp_path}x/b.py")) == f"{tmp_path.as_posix()}x/b.py"
