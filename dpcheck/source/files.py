"""From the paths that a user names to the files that are checked."""

from __future__ import annotations

# For thousands of paths, pathlib would take longer than the walk itself.
# ruff: noqa: PTH100, PTH109, PTH110, PTH118, PTH120
import dataclasses
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

# Folders with other people's code, copies or caches. Not applied to a folder that the user names, nor above it.
EXCLUDED = frozenset(
    {
        ".dpcheck_cache",
        ".eggs",
        ".git",
        ".hg",
        ".mypy_cache",
        ".nox",
        ".pytest_cache",
        ".ruff_cache",
        ".svn",
        ".tox",
        ".venv",
        "__pycache__",
        "node_modules",
        "site-packages",
        "venv",
    }
)
# Where builds go; but a package may be called so (`dist` is a usual name for what deals with ranks).
BUILT = frozenset({"build", "dist"})


@dataclasses.dataclass(frozen=True, slots=True)
class Selection:
    """`files` are absolute, sorted and without duplicates; `missing` are the given paths that do not exist, `irregular`
    those that are neither file nor folder: pipes, sockets and devices, which may have no end or no second reading.

    `roots` are the given folders and the folders of the given files; `unlisted` are folders that cannot be read.
    """

    files: tuple[Path, ...]
    missing: tuple[Path, ...] = ()
    irregular: tuple[Path, ...] = ()
    roots: tuple[Path, ...] = ()
    unlisted: tuple[Path, ...] = ()


def absolute(path: Path | str) -> str:
    """The absolute path without `.` and `..`. Links in it are not followed: a file keeps the name that it was given."""
    return os.path.abspath(path)


def display(path: Path) -> str:
    """How reports show a path: POSIX, and relative to the current directory when it lies below that."""
    inside = below(absolute(path), os.getcwd())
    return absolute(path).replace(os.sep, "/") if inside is None else inside


def is_built(name: str, path: str) -> bool:
    """Whether a folder is where a build puts its output."""
    return name in BUILT and not os.path.exists(os.path.join(path, "__init__.py"))


def discover(paths: Iterable[Path], *, exclude: Sequence[str] = (), root: Path | None = None) -> Selection:
    """The Python files at and below `paths`. A path to a file selects it, whatever its name and whatever is excluded.

    `exclude` are patterns as in a .gitignore, relative to `root` (default: the current directory). Below a folder the
    .gitignore files of its repository are followed as well.
    """
    walk = Walk(Rules(Path(root or Path.cwd()), exclude))
    missing: list[Path] = []
    irregular: list[Path] = []
    roots: list[Path] = []
    for path in paths:
        place = Path(absolute(path))
        try:
            mode = place.stat().st_mode
        except PermissionError:
            mode = stat.S_IFREG  # to be reported as a file that cannot be read
        except (OSError, ValueError):
            missing.append(path)
            continue
        if stat.S_ISDIR(mode):
            roots.append(place)
            walk.folder(str(place))
        elif stat.S_ISREG(mode):
            roots.append(place.parent)
            walk.add(str(place))
        else:
            irregular.append(path)
    files = tuple(map(Path, sorted(walk.files.values())))
    unlisted = tuple(map(Path, sorted(walk.unlisted)))
    return Selection(files, tuple(missing), tuple(irregular), tuple(roots), unlisted)


class Walk:
    """What has been found, and which folders have been seen: links may lead to one several times, or round in a circle.

    `files` maps the real path of each file to the path under which it was found first.
    """

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.files: dict[str, str] = {}
        self.unlisted: list[str] = []
        self._seen: set[str] = set()

    def add(self, path: str) -> None:
        self.files.setdefault(os.path.realpath(path), path)

    def folder(self, top: str) -> None:
        self.rules.enter(top)
        linked: list[tuple[str, bool]] = []  # visited last, so that a file is known by its own path
        self._below(top, os.path.realpath(top), linked)
        while linked:
            path, is_folder = linked.pop(0)
            if is_folder:
                self._below(path, os.path.realpath(path), linked)
            else:
                self.add(path)

    def _below(self, top: str, real: str, linked: list[tuple[str, bool]]) -> None:
        waiting = [(top, real)]
        while waiting:
            path, real = waiting.pop()
            if real in self._seen:
                continue
            self._seen.add(real)
            try:
                with os.scandir(path) as listing:
                    entries = sorted(listing, key=lambda entry: entry.name)
            except OSError:
                self.unlisted.append(path)
                continue
            if any(entry.name == "pyvenv.cfg" for entry in entries) and path not in self.rules.tops:
                continue
            if any(entry.name == ".gitignore" for entry in entries):
                self.rules.read(path)
            for entry in entries:
                name = entry.name
                is_link = entry.is_symlink()
                if is_directory(entry):
                    if name in EXCLUDED or is_built(name, entry.path):
                        continue
                    if self.rules.exclude(entry.path, is_folder=True):
                        continue
                    if is_link:
                        linked.append((entry.path, True))
                    else:
                        waiting.append((entry.path, os.path.join(real, name)))
                elif name.endswith(".py") and is_file(entry) and not self.rules.exclude(entry.path, is_folder=False):
                    if is_link:
                        linked.append((entry.path, False))
                    else:
                        self.files.setdefault(os.path.join(real, name), entry.path)


def is_directory(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link that leads round in a circle
        return False


def is_file(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_file()
    except OSError:
        return False


class Rules:
    """The exclude patterns and the .gitignore files in force. Of several that speak of a path the innermost decides."""

    def __init__(self, root: Path, exclude: Sequence[str]) -> None:
        self.tops: set[str] = set()
        self._root = absolute(root)
        self._exclude = spec(exclude) if exclude else None
        self._ignored: dict[str, GitIgnoreSpec | None] = {}

    def enter(self, top: str) -> None:
        """Start with a folder that the user named.

        The .gitignore files above it in its repository count, unless they exclude the folder itself.
        """
        self.tops.add(top)
        above = []
        for folder in (top, *map(str, Path(top).parents)):
            if folder != top:
                above.append(folder)
            if os.path.exists(os.path.join(folder, ".git")):
                break
        else:
            above = []
        for folder in above:
            self.read(folder)
        if self._verdict(top, is_folder=True):
            for folder in above:
                self._ignored[folder] = None

    def read(self, folder: str) -> None:
        if folder not in self._ignored:
            path = Path(folder, ".gitignore")
            try:
                # A pipe of that name would never end.
                lines = path.read_text("utf-8", "replace").splitlines() if path.is_file() else []
            except OSError:
                lines = []
            self._ignored[folder] = spec(lines) if any(line and not line.startswith("#") for line in lines) else None

    def exclude(self, path: str, *, is_folder: bool) -> bool:
        if self._exclude is not None:
            inside = below(path, self._root)
            if inside is not None and self._exclude.match_file(inside + "/" * is_folder):
                return True
        return self._verdict(path, is_folder=is_folder)

    def _verdict(self, path: str, *, is_folder: bool) -> bool:
        if self._ignored:
            for folder in parents(path):
                patterns = self._ignored.get(folder)
                if patterns is not None:
                    inside = path[len(folder.rstrip(os.sep)) + 1 :].replace(os.sep, "/")
                    verdict = patterns.check_file(inside + "/" * is_folder).include
                    if verdict is not None:
                        return verdict
        return False


def spec(lines: Iterable[str]) -> GitIgnoreSpec:
    import pathspec

    good = []
    for line in lines:
        try:
            pathspec.GitIgnoreSpec.from_lines([line])
        except ValueError:  # git passes over what it cannot read
            continue
        good.append(line)
    return pathspec.GitIgnoreSpec.from_lines(good)


def parents(path: str) -> Iterator[str]:
    while True:
        folder = os.path.dirname(path)
        if folder == path:
            return
        yield folder
        path = folder


def below(path: str, folder: str) -> str | None:
    """The POSIX path relative to `folder`, or None when it does not lie below it."""
    prefix = folder if folder.endswith(os.sep) else folder + os.sep
    return path[len(prefix) :].replace(os.sep, "/") if path.startswith(prefix) else None
