from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dpcheck.program import cache as module
from dpcheck.program.cache import Cache
from dpcheck.program.intake import take_in

OLD = 1_600_000_000


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "p"
    folder.mkdir()
    for name, text in {"a.py": "import b\nloss.backward()\n", "b.py": "x = 1\n", "c.py": "x = (\n"}.items():
        (folder / name).write_text(text)
        os.utime(folder / name, (OLD, OLD))
    return folder


def filled(project: Path) -> Cache:
    cache = Cache(project.parent / "cache", project)
    for name in ("a.py", "b.py", "c.py"):
        cache.put(project / name, take_in(project / name))
    cache.save()
    return Cache(project.parent / "cache", project)


def file(project: Path) -> Path:
    (found,) = (project.parent / "cache").glob("*.msgpack")
    return found


def test_there_and_back(project: Path) -> None:
    cache = filled(project)
    for name in ("a.py", "b.py", "c.py"):
        assert cache.get(project / name) == take_in(project / name).entry
    assert cache.get(project / "d.py") is None
    assert (project.parent / "cache" / ".gitignore").read_text() == "*\n"
    assert sorted(path.name for path in (project.parent / "cache").iterdir()) == [".gitignore", file(project).name]


def test_content_decides_when_the_time_has_changed(project: Path) -> None:
    os.utime(project / "a.py", (OLD + 1, OLD + 1))
    cache = filled(project)
    (project / "a.py").write_bytes((project / "a.py").read_bytes())
    assert cache.get(project / "a.py") is not None
    (project / "b.py").write_text("x = 2\n")  # of the same length
    assert cache.get(project / "b.py") is None
    (project / "c.py").unlink()
    assert cache.get(project / "c.py") is None


def test_time_and_size_suffice(project: Path) -> None:
    cache = filled(project)
    (project / "b.py").write_text("y = 1\n")
    os.utime(project / "b.py", (OLD, OLD))
    assert cache.get(project / "b.py") is not None


def test_a_file_just_written_is_compared_by_content(project: Path) -> None:
    (project / "b.py").write_text("x = 1\n")
    cache = filled(project)
    status = (project / "b.py").stat()
    (project / "b.py").write_text("y = 1\n")
    os.utime(project / "b.py", ns=(status.st_atime_ns, status.st_mtime_ns))
    assert cache.get(project / "b.py") is None


def test_within_a_run_a_file_stays_what_it_was(project: Path) -> None:
    cache = filled(project)
    entry = cache.get(project / "b.py")
    (project / "b.py").write_text("changed = 1\n")
    assert cache.get(project / "b.py") is entry


def test_files_that_are_gone_are_dropped(project: Path) -> None:
    filled(project)
    (project / "c.py").unlink()
    cache = Cache(project.parent / "cache", project)
    (project / "b.py").write_text("x = 22\n")
    cache.put(project / "b.py", take_in(project / "b.py"))
    cache.save()
    names = {Path(name).name for name in module.read(file(project))}
    assert names == {"a.py", "b.py"}


@pytest.mark.parametrize("cut", [0, 1, 10, 16, 17, 100, -1])
def test_half_a_file(project: Path, cut: int) -> None:
    filled(project)
    path = file(project)
    path.write_bytes(path.read_bytes()[:cut])
    assert Cache(project.parent / "cache", project).get(project / "a.py") is None


def test_damage(project: Path) -> None:
    filled(project)
    path = file(project)
    data = path.read_bytes()
    for place in range(0, len(data), max(len(data) // 50, 1)):
        path.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        assert Cache(project.parent / "cache", project).get(project / "a.py") is None
    path.write_bytes(data)
    assert Cache(project.parent / "cache", project).get(project / "a.py") is not None


def test_another_version(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(project)
    monkeypatch.setattr(module, "version", lambda: b"another")
    assert Cache(project.parent / "cache", project).get(project / "a.py") is None


def test_what_the_version_is_made_of() -> None:
    root = Path(module.__file__).parent.parent
    assert all((root / source).is_file() for source in module.SOURCES)


def test_one_file_a_project(project: Path) -> None:
    filled(project)
    other = Cache(project.parent / "cache", project.parent)
    assert other.get(project / "a.py") is None
    other.put(project / "a.py", take_in(project / "a.py"))
    other.save()
    assert len(list((project.parent / "cache").glob("*.msgpack"))) == 2


def test_where_nothing_can_be_written(project: Path) -> None:
    (project.parent / "cache").write_text("a file where the folder would be")
    cache = Cache(project.parent / "cache", project)
    cache.put(project / "a.py", take_in(project / "a.py"))
    cache.save()
    assert cache.get(project / "a.py") is not None
    assert sorted(path.name for path in project.parent.iterdir()) == ["cache", "p"]


def test_without_a_folder_nothing_is_written(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project)
    cache = Cache()
    cache.put(project / "a.py", take_in(project / "a.py"))
    cache.save()
    assert not list(project.glob("*cache*"))


@pytest.mark.skipif(os.name != "posix", reason="names of files are text")
def test_names_that_are_not_text(project: Path) -> None:
    odd = Path(os.fsdecode(os.fsencode(project) + b"/caf\xe9.py"))
    try:
        odd.write_text("x = 1\n")
    except OSError:
        pytest.skip("names of files are text")
    cache = Cache(project.parent / "cache", project)
    for path in (odd, project / "a.py"):
        cache.put(path, take_in(path))
    cache.save()
    assert set(module.read(file(project))) == {str(project / "a.py")}
    assert cache.get(odd) is not None


def test_what_lies_in_a_folder_that_has_been_locked_is_dropped(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(project)
    cache = Cache(project.parent / "cache", project)
    cache.put(project / "b.py", take_in(project / "b.py"))

    def locked(path: Path | str, **_: object) -> os.stat_result:
        if str(path).endswith("a.py"):
            raise PermissionError(path)
        return status(path)

    status = os.stat
    monkeypatch.setattr(os, "stat", locked)
    cache.save()
    assert {Path(name).name for name in module.read(file(project))} == {"b.py", "c.py"}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names")
def test_a_pipe_in_the_place_of_a_cache_file(project: Path) -> None:
    filled(project)
    path = file(project)
    path.unlink()
    os.mkfifo(path)
    assert filled(project).get(project / "a.py") is not None
    assert path.is_file()


def test_links_lead_to_no_writing_elsewhere(project: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    try:
        (tmp_path / "cache").symlink_to(other, target_is_directory=True)
    except OSError:
        pytest.skip("no links here")
    assert filled(project).get(project / "a.py") is None
    assert list(other.iterdir()) == []
    (tmp_path / "cache").unlink()
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / ".gitignore").symlink_to(other / "ignored")
    assert filled(project).get(project / "a.py") is not None
    kept = file(project)
    kept.replace(other / "kept")
    kept.symlink_to(other / "kept")
    before = (other / "kept").read_bytes()
    assert Cache(tmp_path / "cache", project).get(project / "a.py") is None
    (project / "b.py").write_text("x = 3\n")
    assert filled(project).get(project / "a.py") is not None
    assert not kept.is_symlink()
    draft = kept.with_name(f"{kept.name}.{os.getpid()}.tmp")
    draft.symlink_to(other / "kept")
    filled(project)
    assert (other / "kept").read_bytes() == before
    assert [path.name for path in other.iterdir()] == ["kept"]


def test_a_file_that_has_grown_without_end_is_not_read(project: Path) -> None:
    cache = filled(project)
    with (project / "a.py").open("ab") as large:
        large.truncate(1 << 40)
    assert cache.get(project / "a.py") is None


def test_a_failure_that_need_not_come_again_is_not_kept(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def short_of_memory(*_: object, **__: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr("dpcheck.program.intake.examine", short_of_memory)
        assert filled(project).get(project / "a.py") is None
    assert filled(project).get(project / "a.py") is not None


def test_spans(project: Path) -> None:
    cache = filled(project)
    path = project / "b.py"
    assert cache.span(path, 0) is None
    cache.keep_span(path, 0, (1, 2, 3, 4))
    cache.save()
    cache = Cache(project.parent / "cache", project)
    assert cache.span(path, 0) == (1, 2, 3, 4)
    assert cache.span(path, 1) is None
    path.write_text("x = 3\n")
    cache = Cache(project.parent / "cache", project)
    assert cache.span(path, 0) is None
    cache.keep_span(path, 0, (1, 1, 1, 1))  # of a file that is not known: passed over
    assert cache.span(project / "d.py", 0) is None


WARM = """
import sys
from pathlib import Path
from dpcheck.program.cache import Cache
from dpcheck.program.link import Program
from dpcheck.source.files import discover
project, cache = map(Path, sys.argv[1:])
program = Program(discover([project]), cache=Cache(cache, project), stub_folder=project / "none")
program.prepare()
print([unit.path.name for unit in program.entries], [error.reason for error in program.unreadable])
print([unit.module and len(unit.module.body) for unit in program.units])
print(program.span(project / "a.py", 3), program.span(project / "a.py", 3), program.span(project / "c.py", 1))
program.save()
print(*(name for name in ("libcst", "multiprocessing", "pathspec", "rich") if name in sys.modules))
"""


def test_a_warm_run_parses_nothing(project: Path) -> None:
    def run() -> list[str]:
        command = [sys.executable, "-c", WARM, str(project), str(project.parent / "cache")]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()

    cold, warm = run(), run()
    assert warm[:3] == cold[:3]
    assert cold[:2] == ["['a.py'] [\"is not valid Python: '(' was never closed\"]", "[2, 1, None]"]
    assert "line=2, column=1, end_line=2, end_column=16" in cold[2]
    assert cold[3] == "libcst"
    assert warm[3] == ""
