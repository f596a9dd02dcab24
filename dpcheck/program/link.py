"""The program: its files as units, and which file an import names.

Folders are listed once; files are read when something of them is first wanted. What an import resolves to does not
depend on what is installed: it is a module of the project, a framework stub, or unknown.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from dpcheck.findings.finding import Span
from dpcheck.program import records
from dpcheck.program.cache import Cache
from dpcheck.program.console import targets
from dpcheck.program.intake import FEW, Entry, take_in_all, take_in_alone, unpack
from dpcheck.program.search import additions
from dpcheck.source import text
from dpcheck.source.files import EXCLUDED, Selection, absolute, display, is_built
from dpcheck.source.ignores import Ignore, ignore_comments
from dpcheck.source.positions import Positions
from dpcheck.source.text import Unreadable

if TYPE_CHECKING:
    from typing import TypeAlias

    Key: TypeAlias = "tuple[Unit, str, int]"

MARKS = frozenset({"pyproject.toml", "setup.py"})
# Libraries whose names projects often give to packages of their own: such a package comes before the stub.
COMMON_NAMES = frozenset({"composer", "datasets", "evaluate", "muon", "streaming"})
EMPTY = records.Module((), 0)


class Unit:
    """One file of the program, or a folder that is a package without `__init__.py`.

    `display` is the path as reports show it. Units are compared by identity: a program has one a file.
    """

    def __init__(self, program: Program, path: Path, *, is_folder: bool = False) -> None:
        self._program = program
        self.path = path
        self.is_folder = is_folder
        self.is_package = is_folder or path.name == "__init__.py"
        self.is_stub = path.is_relative_to(program.stub_folder)
        self.folder = path if is_folder else path.parent

    def __repr__(self) -> str:
        return f"Unit({self.display!r})"

    @functools.cached_property
    def display(self) -> str:
        return display(self.path)

    @functools.cached_property
    def name(self) -> str:
        """The dotted name under its import root, as in `engine.head`."""
        return self._program.name(self)

    @property
    def error(self) -> Unreadable | None:
        """Why the file cannot be read, if it cannot."""
        error = self._program.entry(self).error
        return None if error is None else Unreadable(self.path, *error)

    @functools.cached_property
    def module(self) -> records.Module | None:
        """The records; None when the file cannot be read."""
        return self._program.load(self)

    @functools.cached_property
    def ignores(self) -> list[Ignore]:
        """The ignore comments; none when the file cannot be read."""
        entry = self._program.entry(self)
        if not entry.remarks:
            return []
        try:
            return ignore_comments(text.read(self.path))
        except Unreadable:
            return []


class Program:
    """`units` are the selected files, sorted. Modules that they import are found and read as they are asked for.

    Nothing is written to the cache before `save`.
    """

    def __init__(self, selection: Selection, *, cache: Cache | None = None, stub_folder: Path) -> None:
        self.stub_folder = Path(absolute(stub_folder))
        self._cache = cache or Cache()
        self._units: dict[str, Unit] = {}
        self._folders: dict[str, Folder] = {}
        self._repositories: dict[Path, Path] = {}
        self._search_paths: dict[Unit, tuple[Path, ...]] = {}
        self._found: dict[Key, Unit | None] = {}
        self._positions: dict[str, Positions] = {}
        places = list(selection.roots or {path.parent for path in selection.files})
        self._common = Path(os.path.commonpath([absolute(place) for place in places])) if places else Path.cwd()
        self.units = tuple([self.unit(path) for path in selection.files])

    # ------------------------------------------------------------ files

    def unit(self, path: Path, *, is_folder: bool = False) -> Unit:
        """The unit of a file, or of a folder that is a package without `__init__.py`."""
        key = absolute(path)
        found = self._units.get(key)
        if found is None:
            found = self._units[key] = Unit(self, Path(key), is_folder=is_folder)
        return found

    def prepare(self, jobs: int | None = None) -> None:
        """Read all selected files that the cache does not know, and what they import, in parallel if there are many."""
        cold = [unit for unit in self.units if self._cache.get(unit.path) is None]
        lower = False
        while len(cold) > FEW:
            for path, stored in take_in_all([unit.path for unit in cold], lower=lower, jobs=jobs):
                self._cache.put(path, stored)
            cold = list(dict.fromkeys(self._unread(cold)))
            lower = True

    def _unread(self, units: Iterable[Unit]) -> Iterator[Unit]:
        """The modules that lowered units import and that have not been lowered."""
        for unit in units:
            if not self.entry(unit).module:
                continue
            for level, dotted in imported(self.load(unit)):
                found = self.find(unit, dotted, level)
                if found is not None and not found.is_folder:
                    entry = self._cache.get(found.path)
                    if entry is None or entry.module is None:
                        yield found

    @functools.cached_property
    def unreadable(self) -> tuple[Unreadable, ...]:
        """Why selected files cannot be read, for those that cannot."""
        return tuple([unit.error for unit in self.units if unit.error is not None])

    @functools.cached_property
    def entries(self) -> tuple[Unit, ...]:
        """The selected files that may start a training run: those that are relevant, and those that can be run as a
        script and import one that is, directly or through one other module.

        Further than that everything in a large package leads to everything.
        """
        return tuple([unit for unit in self.units if self._starts(unit)])

    @functools.cached_property
    def console_scripts(self) -> dict[Unit, tuple[str, ...]]:
        """The functions that the installed scripts of the projects here call: of each selected file that leads to
        training, their names in it, such as `main` or `Tool.run`.
        """
        found: dict[Unit, tuple[str, ...]] = {}
        selected = set(self.units)
        folders = {unit.folder for unit in self.units}
        for project in sorted({above for folder in folders for above in up_to(folder, self._repository(folder))}):
            here = self.unit(project, is_folder=True)
            for target in targets(project, lambda path: self.unit(path).module):
                unit = self.find(here, target.module)
                if unit in selected and unit is not None and self._leads_to_training(unit):
                    found[unit] = (*found.get(unit, ()), target.name)
        return found

    def _starts(self, unit: Unit) -> bool:
        entry = self.entry(unit)
        can_be_run = entry.main or unit.path.name == "__main__.py" or unit in self.console_scripts
        return entry.relevant or (can_be_run and self._leads_to_training(unit))

    def _leads_to_training(self, unit: Unit) -> bool:
        if self.entry(unit).relevant:
            return True
        imported = self._imports(unit)
        return any(self.entry(module).relevant for module in imported) or any(
            self.entry(module).relevant for each in imported for module in self._imports(each)
        )

    def _imports(self, unit: Unit) -> list[Unit]:
        """The modules of the project that a file imports, as far as its bytes tell."""
        found = [self.find(unit, dotted, level) for level, dotted in self.entry(unit).imports]
        return [module for module in found if module is not None and not module.is_stub]

    def entry(self, unit: Unit, *, lower: bool = False) -> Entry:
        """What is known of a file, which is read if need be, and lowered if `lower` asks for it."""
        if unit.is_folder:
            return FOLDER
        entry = self._cache.get(unit.path)
        if entry is None or (lower and entry.module is None):
            stored = take_in_alone(unit.path, lower=lower)
            self._cache.put(unit.path, stored)
            entry = stored.entry
        return entry

    def load(self, unit: Unit) -> records.Module | None:
        """The records of a unit; its own `module` keeps them."""
        if unit.is_folder:
            return EMPTY
        module = self.entry(unit, lower=True).module
        try:
            return unpack(unit.path, module) if module else None
        except Unreadable:  # it has changed in the meantime
            return None

    def save(self) -> None:
        """Keep what was read for later runs, if the cache has a folder."""
        self._cache.save()

    def span(self, path: Path | str, at: int) -> Span:
        """Where record `at` of a file stands. The file is given by its path or by its unit's display.

        The start of the file, when it cannot be read any more.
        """
        key = absolute(path)
        place = self._cache.span(Path(key), at)
        if place is None:
            try:
                positions = self._positions.get(key)
                if positions is None:
                    positions = self._positions[key] = Positions(text.read(Path(key)), self.unit(Path(key)).module)
                place = positions.span(at)
            except Unreadable:
                place = 1, 1, 1, 1
            self._cache.keep_span(Path(key), at, place)
        return Span(display(Path(key)), *place)

    # ------------------------------------------------------------ imports

    def find(self, importer: Unit, dotted: str, level: int = 0) -> Unit | None:
        """What `import dotted` (with a level, `from <dots>dotted import …`) in `importer` names, if that is known.

        A stub wins over a module of the project, unless that lies beside the importing script.
        """
        key = (importer, dotted, level)
        if key not in self._found:
            self._found[key] = self._relative(importer, dotted, level) if level else self._absolute(importer, dotted)
        return self._found[key]

    def child(self, package: Unit, name: str) -> Unit | None:
        """The submodule of that name, if the package has one."""
        return self._locate(package.folder, [name]) if package.is_package else None

    def _relative(self, importer: Unit, dotted: str, level: int) -> Unit | None:
        folder = importer.folder
        for _ in range(level - 1):
            folder = folder.parent
        if importer.is_stub and not folder.is_relative_to(self.stub_folder):
            return None
        return self._locate(folder, dotted.split(".")) if dotted else self._package(folder)

    def _absolute(self, importer: Unit, dotted: str) -> Unit | None:
        parts = dotted.split(".")
        if importer.is_stub:
            return self._locate(self.stub_folder, parts)
        itself = None if importer.is_package else importer  # `import logging` in a logging.py means another one
        if not self._is_package(importer.folder):
            found = self._locate(importer.folder, parts)
            if found is not None and not found.is_folder and found is not itself:
                return found
        stub = self._locate(self.stub_folder, parts)
        if stub is not None and parts[0] not in COMMON_NAMES:
            return stub
        standard = parts[0] in sys.stdlib_module_names
        loose = None  # a folder without `__init__.py` counts only when no root has the real thing
        for root in self._search_path(importer):
            if standard and self._is_package(root):
                continue  # a package may have an `io` or `types` of its own: they are imported as part of it
            if stub is not None and root.name == "src":
                continue  # the library's own repository
            found = self._locate(root, parts)
            if found is None or found is itself:
                continue
            if not found.is_folder:
                return found
            loose = loose or found
        return stub or (None if standard else loose)

    def _locate(self, root: Path, parts: list[str]) -> Unit | None:
        folder = root
        for part in parts[:-1]:
            if part not in self._listing(folder).folders:
                return None
            folder = folder / part
        last = parts[-1]
        listing = self._listing(folder)
        inner = self._package(folder / last) if last in listing.folders else None
        if f"{last}.py" in listing.files and (inner is None or inner.is_folder):
            return self.unit(folder / f"{last}.py")
        return inner

    def _package(self, folder: Path) -> Unit | None:
        """The package that a folder is, if any. Without `__init__.py` it must have Python files, or folders that do."""
        if self._is_package(folder):
            return self.unit(folder / "__init__.py")
        listing = self._listing(folder)
        if listing.files or any(self._listing(folder / name).files for name in listing.folders):
            return self.unit(folder, is_folder=True)
        return None

    # ------------------------------------------------------------ folders

    def _listing(self, path: Path) -> Folder:
        key = str(path)
        found = self._folders.get(key)
        if found is None:
            found = self._folders[key] = Folder(key)
        return found

    def _is_package(self, folder: Path) -> bool:
        return "__init__.py" in self._listing(folder).files

    def _repository(self, folder: Path) -> Path:
        """The folder above which no imports are looked for."""
        found = self._repositories.get(folder)
        if found is None:
            found = self._repositories[folder] = self._find_repository(folder)
        return found

    def _find_repository(self, folder: Path) -> Path:
        marked = None
        for place in (folder, *folder.parents):
            listing = self._listing(place)
            if listing.is_repository:
                return place
            if marked is None and listing.is_project:
                marked = place
        if folder.is_relative_to(self._common) and (marked is None or marked.is_relative_to(self._common)):
            return self._common
        return marked or folder

    def _search_path(self, importer: Unit) -> tuple[Path, ...]:
        found = self._search_paths.get(importer)
        if found is None:
            repository = self._repository(importer.folder)
            roots: list[Path] = []
            inside: list[Path] = []  # packages: roots only when one of their files is run as a script
            for unit in (importer, *self._beside(importer)):
                if not unit.is_folder and self.entry(unit).reroutes and unit.module is not None:
                    roots += additions(unit.module, unit.path, repository)
            for folder in up_to(importer.folder, repository):
                (inside if self._is_package(folder) else roots).append(folder)
                if "src" in self._listing(folder).folders:
                    roots.append(folder / "src")
            found = self._search_paths[importer] = tuple(dict.fromkeys((*roots, *inside)))
        return found

    def _beside(self, importer: Unit) -> list[Unit]:
        """The modules in its folder that a script imports, such as the `_init_paths` that sets up `sys.path` for it."""
        if importer.is_folder or self._is_package(importer.folder):
            return []
        entry = self.entry(importer)
        found = imported(importer.module) if entry.relevant else entry.imports
        names = {dotted for level, dotted in found if not level}
        files = self._listing(importer.folder).files
        return [self.unit(importer.folder / f"{name}.py") for name in sorted(names) if f"{name}.py" in files]

    def name(self, unit: Unit) -> str:
        """The dotted name of a unit under its import root."""
        if unit.is_stub:
            root = self.stub_folder
        elif self._is_package(unit.folder):
            above = (folder for folder in unit.folder.parents if not self._is_package(folder))
            root = next(above, unit.folder)
        else:
            root = self._repository(unit.folder)
            source = root / "src"
            root = source if unit.path != source and unit.path.is_relative_to(source) else root
        place = unit.folder if unit.is_package else unit.path.with_suffix("")
        return ".".join(place.relative_to(root).parts) or place.name


FOLDER = Entry(None, False, False, False, False, (), b"")


class Folder:
    """What matters of a folder's listing. Empty when it cannot be read."""

    __slots__ = ("files", "folders", "is_project", "is_repository")

    def __init__(self, path: str) -> None:
        self.files: set[str] = set()
        self.folders: set[str] = set()
        self.is_repository = self.is_project = False
        try:
            with os.scandir(path) as entries:
                for entry in entries:
                    self._add(entry, entry.name)
        except OSError:
            pass

    def _add(self, entry: os.DirEntry[str], name: str) -> None:
        if name == ".git":
            self.is_repository = True
        if name in MARKS:
            self.is_project = True
        if name.endswith(".py"):
            if entry.is_file():
                self.files.add(name)
        elif name.isidentifier() and name not in EXCLUDED and entry.is_dir() and not is_built(name, entry.path):
            self.folders.add(name)


def up_to(folder: Path, top: Path) -> Iterator[Path]:
    """`folder` and those above it as far as `top`, or `folder` alone when it does not lie below that."""
    yield folder
    if folder != top and folder.is_relative_to(top):
        yield from up_to(folder.parent, top)


def imported(module: records.Module | None) -> Iterator[tuple[int, str]]:
    """What the module imports anywhere, each as level and dotted name."""
    waiting: list[records.Stmt] = [] if module is None else list(module.body)
    while waiting:
        statement = waiting.pop()
        if isinstance(statement, records.Import):
            for alias in statement.names:
                yield 0, alias.name
        elif isinstance(statement, records.ImportFrom):
            yield statement.level, statement.module
            for alias in statement.names:
                yield statement.level, f"{statement.module}.{alias.name}".lstrip(".")
        elif isinstance(statement, records.Try):
            waiting += (*statement.body, *statement.orelse, *statement.final)
            for handler in statement.handlers:
                waiting += handler.body
        elif isinstance(statement, records.Match):
            for case in statement.cases:
                waiting += case.body
        elif isinstance(statement, (records.If, records.For, records.While)):
            waiting += (*statement.body, *statement.orelse)
        elif isinstance(statement, (records.With, records.Function, records.Class)):
            waiting += statement.body
