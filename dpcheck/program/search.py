"""The folders that a module puts on `sys.path`, as far as its text says which they are."""

from __future__ import annotations

# The idioms read here are those of os.path.
# ruff: noqa: PTH100, PTH118, PTH120
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from dpcheck.program import records as r

SAME = frozenset({"abspath", "realpath", "normpath", "expanduser", "fspath", "str", "resolve", "absolute", "as_posix"})
PATHS = frozenset({"Path", "PurePath", "PosixPath", "PurePosixPath"})
FILES = frozenset({"getfile", "getsourcefile", "getabsfile"})


def additions(module: r.Module, path: Path, repository: Path) -> list[Path]:
    """The folders that the statements of the module add, and its functions where it calls them, as they come.

    A relative one is taken as relative to the file's folder and to the repository: which one the current directory is
    when the script runs is not known.
    """
    paths = Paths(path)
    found: list[Path] = []
    for statement in flat(module.body):
        if isinstance(statement, r.Assign) and statement.value is not None:
            for target in statement.targets:
                if isinstance(target, r.Name):
                    paths.names[target.id] = statement.value
        elif isinstance(statement, r.Import):
            paths.modules.update(alias.asname for alias in statement.names if alias.name == "sys" and alias.asname)
        elif isinstance(statement, r.Function):
            paths.functions[statement.name] = statement
        elif isinstance(statement, r.ImportFrom) and statement.module == "sys":
            paths.lists.update(alias.asname or alias.name for alias in statement.names if alias.name == "path")
        for added in paths.added(statement):
            value = paths.value(added)
            if value is None:
                continue
            for base in (path.parent, repository):
                folder = Path(os.path.normpath(base / value))
                inside = base == path.parent or folder.is_relative_to(repository)
                if inside and folder.is_dir() and folder not in found:
                    found.append(folder)
    return found


def flat(statements: Iterable[r.Stmt]) -> Iterator[r.Stmt]:
    """The statements that run when the module is imported, or may run."""
    waiting = list(statements)[::-1]
    while waiting:
        statement = waiting.pop()
        yield statement
        inner: Sequence[r.Stmt] = ()
        if isinstance(statement, (r.If, r.For, r.While)):
            inner = (*statement.body, *statement.orelse)
        elif isinstance(statement, r.With):
            inner = statement.body
        elif isinstance(statement, r.Try):
            handled = [each for handler in statement.handlers for each in handler.body]
            inner = (*statement.body, *handled, *statement.orelse, *statement.final)
        waiting += inner[::-1]


class Paths:
    """The module-level names so far, and what path an expression over them gives."""

    def __init__(self, path: Path) -> None:
        self.file = os.path.abspath(path)
        self.names: dict[str, r.Expr] = {}
        self.modules = {"sys"}
        self.lists: set[str] = set()
        self.functions: dict[str, r.Function] = {}

    def is_list(self, expr: r.Expr) -> bool:
        """Whether it is `sys.path`."""
        if isinstance(expr, r.Attr):
            return expr.name == "path" and isinstance(expr.value, r.Name) and expr.value.id in self.modules
        return isinstance(expr, r.Name) and expr.id in self.lists

    def added(self, statement: r.Stmt) -> Iterable[r.Expr]:
        """What the statement adds to `sys.path`."""
        if isinstance(statement, r.Do) and isinstance(statement.value, r.Call):
            call = statement.value
            if isinstance(call.func, r.Name) and call.func.id in self.functions:
                return self.added_by(self.functions.pop(call.func.id), call)
            if not isinstance(call.func, r.Attr) or not call.args:
                return ()
            last = call.args[-1].value
            if call.func.name == "addsitedir":
                return (call.args[0].value,)
            if not self.is_list(call.func.value):
                return ()
            if call.func.name in ("append", "insert"):
                return (last,)
            return last.items if call.func.name == "extend" and isinstance(last, r.Seq) else ()
        if isinstance(statement, r.Update) and self.is_list(statement.target):
            return statement.value.items if isinstance(statement.value, r.Seq) else ()
        if isinstance(statement, r.Assign) and isinstance(statement.value, r.Binary):
            sides = (statement.value.left, statement.value.right)
            if any(map(self.is_list, statement.targets)) and any(map(self.is_list, sides)):
                return [item for side in sides if isinstance(side, r.Seq) for item in side.items]
        return ()

    def added_by(self, function: r.Function, call: r.Call) -> Iterator[r.Expr]:
        """What a call of a function of the module adds, as `add_path(lib)` does. It does not call itself."""
        for param, arg in zip(function.params, call.args, strict=False):
            given = self.value(arg.value)
            if given is not None:
                self.names[param.name] = r.Const(arg.at, given)
        for statement in flat(function.body):
            yield from self.added(statement)
        self.functions[function.name] = function

    def value(self, expr: r.Expr, fuel: int = 30) -> str | None:
        """The path, which may be relative; None when it is not known. `fuel` bounds how deep to look."""
        if fuel == 0:
            return None
        if isinstance(expr, r.Const):
            return expr.value if isinstance(expr.value, str) else None
        if isinstance(expr, r.Name):
            if expr.id == "__file__":
                return self.file
            named = self.names.get(expr.id)
            return None if named is None else self.value(named, fuel - 1)
        if isinstance(expr, r.Format):
            return self.joined(expr.parts, "", fuel)
        if isinstance(expr, r.Binary) and expr.op in ("+", "/"):
            return self.joined((expr.left, expr.right), "" if expr.op == "+" else "/", fuel)
        if isinstance(expr, r.Attr):
            if expr.name in ("pardir", "curdir"):
                return os.pardir if expr.name == "pardir" else os.curdir
            if expr.name == "sep":
                return "/"
            inner = self.value(expr.value, fuel - 1) if expr.name == "parent" else None
            return None if inner is None else os.path.dirname(inner)
        if isinstance(expr, r.Item):
            return self.item(expr, fuel)
        if isinstance(expr, r.Call):
            return self.call(expr, fuel)
        return None

    def joined(self, parts: Iterable[r.Expr], separator: str, fuel: int) -> str | None:
        values = [self.value(part, fuel - 1) for part in parts]
        known = [value for value in values if value is not None]
        if len(known) < len(values):
            return None
        return os.path.join(*known) if separator else "".join(known)

    def item(self, expr: r.Item, fuel: int) -> str | None:
        index = expr.index.value if isinstance(expr.index, r.Const) else None
        if not isinstance(index, int):
            return None
        if isinstance(expr.value, r.Attr) and expr.value.name == "parents":
            path = self.value(expr.value.value, fuel - 1)
            for _ in range(min(index, 30) + 1):
                path = None if path is None else os.path.dirname(path)
            return path
        if isinstance(expr.value, r.Attr) and expr.value.name == "argv" and index == 0:
            return self.file
        if self.is_list(expr.value) and index == 0:
            return os.path.dirname(self.file)
        if isinstance(expr.value, r.Call) and callee(expr.value) == "split" and index == 0 and expr.value.args:
            path = self.value(expr.value.args[0].value, fuel - 1)
            return None if path is None else os.path.dirname(path)
        return None

    def call(self, expr: r.Call, fuel: int) -> str | None:
        name = callee(expr)
        args = [arg.value for arg in expr.args]
        if name in ("getcwd", "cwd"):
            return os.curdir
        if name in FILES:
            return self.file
        if name in SAME or name == "dirname":
            # `os.path.abspath(x)` or `x.resolve()`
            subject = args[0] if args else expr.func.value if isinstance(expr.func, r.Attr) else None
            path = None if subject is None else self.value(subject, fuel - 1)
            return path if path is None or name != "dirname" else os.path.dirname(path)
        if name in PATHS or name == "join":
            return self.joined(args, "/", fuel) if args else None
        if name == "joinpath" and isinstance(expr.func, r.Attr):
            return self.joined((expr.func.value, *args), "/", fuel)
        return None


def callee(expr: r.Call) -> str:
    """The last name in what is called: the forms read here mean the same in whatever way they are imported."""
    if isinstance(expr.func, r.Attr):
        return expr.func.name
    return expr.func.id if isinstance(expr.func, r.Name) else ""
