"""Python as the interpreter executes it: one small program for each feature, observed through the record of the run."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import pytest

from dpcheck.execution import TrainingRun
from dpcheck.execution.run import escaped
from tests.execution.programs import OPTION, RANK, UNKNOWN, WORLD, execute, shown

PROGRAMS: dict[str, tuple[str, list[Any]]] = {
    # ------------------------------------------------------------ functions
    "closure": (
        """
        def adder(n):
            def add(x):
                return x + n
            return add
        plus = adder(3)
        n = 100
        show(plus(4))
        """,
        [7],
    ),
    "closures see later writes": (
        """
        def outer():
            n = 1
            def inner():
                return n
            n = 2
            return inner()
        show(outer())
        """,
        [2],
    ),
    "nonlocal": (
        """
        def counting():
            n = 0
            def up():
                nonlocal n
                n += 1
                return n
            up()
            up()
            return n, up()
        show(*counting())
        """,
        [(2, 3)],
    ),
    "global": (
        """
        n = 1
        def up():
            global n, made
            n += 1
            made = "here"
        up()
        show(n, made)
        """,
        [(2, "here")],
    ),
    "a local name hides a global one": (
        """
        n = 1
        def change():
            n = 2
            return n
        show(change(), n)
        """,
        [(2, 1)],
    ),
    "defaults are evaluated once, where the function is made": (
        """
        n = 1
        def f(x=n):
            return x
        n = 2
        show(f(), f(5))
        """,
        [(1, 5)],
    ),
    "a mutable default is shared": (
        """
        def collect(x, found=[]):
            found.append(x)
            return found
        collect(1)
        show(collect(2))
        """,
        [[1, 2]],
    ),
    "star arguments": (
        """
        def f(a, *rest, key=0, **others):
            return a, rest, key, others
        args = (2, 3)
        options = {"key": 4, "other": 5}
        show(f(1, *args, **options))
        """,
        [(1, (2, 3), 4, {"other": 5})],
    ),
    "keyword-only and positional-only parameters": (
        """
        def f(a, b, /, c, *, d=4):
            return a, b, c, d
        show(f(1, 2, c=3), f(1, 2, 3, d=5))
        """,
        [((1, 2, 3, 4), (1, 2, 3, 5))],
    ),
    "a positional-only name in the keywords": (
        """
        def f(a, /, **others):
            return a, others
        show(f(1, a=2))
        """,
        [(1, {"a": 2})],
    ),
    "tuples are returned and unpacked": (
        """
        def pair():
            return 1, (2, [3, 4])
        a, (b, [c, *d]) = pair()
        (first, *middle, last) = range(1, 2), 5, 6, 7
        show(a, b, c, d, middle, last)
        """,
        [(1, 2, 3, [4], [5, 6], 7)],
    ),
    "chained assignment and swap": (
        """
        a = b = 1
        b = 2
        a, b = b, a
        show(a, b)
        """,
        [(2, 1)],
    ),
    "walrus": (
        """
        if (n := 3) > 2:
            show(n)
        show([y for x in [1, 2] if (y := x + 1) > 2], y)
        """,
        [3, ([3], 3)],
    ),
    "lambda with defaults": (
        """
        fs = [lambda x, n=n: x * n for n in (1, 2, 3)]
        show(*[f(10) for f in fs])
        """,
        [(10, 20, 30)],
    ),
    "early return": (
        """
        def sign(x):
            if x < 0:
                return -1
            elif x == 0:
                return 0
            return 1
        show(sign(-5), sign(0), sign(7))
        """,
        [(-1, 0, 1)],
    ),
    "recursion that is bounded by its argument": (
        """
        def fact(n):
            return 1 if n <= 1 else n * fact(n - 1)
        show(fact(2))
        """,
        [2],
    ),
    "partial": (
        """
        from functools import partial
        import functools
        def f(a, b, c=3):
            return a, b, c
        g = partial(f, 1, c=5)
        h = functools.partial(g, 2)
        show(g(2), h(), h(c=6))
        """,
        [((1, 2, 5), (1, 2, 5), (1, 2, 6))],
    ),
    "decorators": (
        """
        import functools
        def twice(function):
            @functools.wraps(function)
            def wrapper(*args, **kwargs):
                return 2 * function(*args, **kwargs)
            return wrapper
        def bare(function):
            def wrapper(*args):
                return function(*args) + 1
            return wrapper
        def by(n):
            def decorate(function):
                def wrapper(*args):
                    return n * function(*args)
                return wrapper
            return decorate
        @twice
        def f(x):
            return x
        @bare
        @by(3)
        def g(x):
            return x
        show(f(4), f.__name__, g(5))
        """,
        [(8, "f", 16)],
    ),
    "a decorator that registers": (
        """
        REGISTRY = {}
        def register(name):
            def decorate(cls):
                REGISTRY[name] = cls
                return cls
            return decorate
        @register("small")
        class Small:
            size = 1
        @register("large")
        class Large:
            size = 9
        show(REGISTRY["large"]().size, REGISTRY["small"].size)
        """,
        [(9, 1)],
    ),
    "a class as a decorator": (
        """
        class Counted:
            def __init__(self, function):
                self.function = function
                self.calls = 0
            def __call__(self, *args):
                self.calls += 1
                return self.function(*args)
        @Counted
        def f(x):
            return x + 1
        f(1)
        show(f(2), f.calls)
        """,
        [(3, 2)],
    ),
    # ------------------------------------------------------------ with
    "a context manager class": (
        """
        log = []
        class Manager:
            def __enter__(self):
                log.append("in")
                return 5
            def __exit__(self, *exception):
                log.append("out")
        with Manager() as n:
            log.append(n)
        show(log)
        """,
        [["in", 5, "out"]],
    ),
    "a context manager from a generator": (
        """
        from contextlib import contextmanager
        log = []
        @contextmanager
        def managed(n):
            log.append("in")
            try:
                yield n + 1
            finally:
                log.append("out")
        with managed(1) as n, managed(2) as m:
            log.append(n + m)
        show(log)
        """,
        [["in", "in", 5, "out", "out"]],
    ),
    "return out of with": (
        """
        log = []
        class Manager:
            def __enter__(self):
                return self
            def __exit__(self, *exception):
                log.append("out")
        def f():
            with Manager():
                return 7
            log.append("never")
        show(f(), log)
        """,
        [(7, ["out"])],
    ),
    # ------------------------------------------------------------ generators and comprehensions
    "generator": (
        """
        def numbers():
            yield 1
            yield 2
        for n in numbers():
            show(n)
        """,
        [1, 2],
    ),
    "yield from": (
        """
        def inner():
            yield 2
            yield 3
        def outer():
            yield 1
            yield from inner()
            yield from [4]
        for n in outer():
            show(n)
        """,
        [1, 2, 3, 4],
    ),
    "a generator method as __iter__": (
        """
        class Numbers:
            def __init__(self, n):
                self.n = n
            def __iter__(self):
                yield self.n
                yield self.n + 1
        for n in Numbers(4):
            show(n)
        """,
        [4, 5],
    ),
    "comprehensions": (
        """
        xs = [1, 2, 3]
        show([x * y for x in xs for y in (1, 10) if x > 1], {x: x * x for x in xs}, sum(x for x in xs))
        """,
        [([2, 20, 3, 30], {1: 1, 2: 4, 3: 9}, 6)],
    ),
    "a comprehension has a scope of its own": (
        """
        x = "outer"
        found = [x for x in (1, 2)]
        class Holder:
            n = 2
            made = [i + 1 for i in range(0, 1)]
        show(x, found)
        """,
        [("outer", [1, 2])],
    ),
    # ------------------------------------------------------------ classes
    "attributes and methods": (
        """
        class Counter:
            start = 10
            def __init__(self, step):
                self.step = step
                self.n = self.start
            def up(self):
                self.n += self.step
                return self
        a, b = Counter(1), Counter(5)
        a.up().up()
        b.up()
        show(a.n, b.n, Counter.start)
        """,
        [(12, 15, 10)],
    ),
    "properties": (
        """
        class Box:
            def __init__(self):
                self._n = 1
            @property
            def n(self):
                return self._n
            @n.setter
            def n(self, value):
                self._n = value * 2
        box = Box()
        before = box.n
        box.n = 4
        show(before, box.n)
        """,
        [(1, 8)],
    ),
    "classmethods and staticmethods": (
        """
        class Base:
            kind = "base"
            def __init__(self, n):
                self.n = n
            @classmethod
            def make(cls, n):
                return cls(n + 1)
            @staticmethod
            def double(n):
                return 2 * n
        class Derived(Base):
            kind = "derived"
        made = Derived.make(1)
        show(made.n, made.kind, Base.double(4), made.double(5))
        """,
        [(2, "derived", 8, 10)],
    ),
    "super in a diamond": (
        """
        class A:
            def names(self):
                return ["A"]
        class B(A):
            def names(self):
                return ["B"] + super().names()
        class C(A):
            def names(self):
                return ["C"] + super().names()
        class D(B, C):
            def names(self):
                return ["D"] + super(D, self).names()
        show(D().names())
        """,
        [["D", "B", "C", "A"]],
    ),
    "super of a constructor": (
        """
        class Base:
            def __init__(self, a, *, b=2):
                self.a, self.b = a, b
        class Derived(Base):
            def __init__(self, *args, **kwargs):
                super().__init__(*args, **kwargs)
                self.c = self.a + self.b
        show(Derived(1, b=5).c)
        """,
        [6],
    ),
    "class attributes that call": (
        """
        class Options:
            base = 2
            twice = base * 2
            def get(self):
                return self.twice
        show(Options().get())
        """,
        [4],
    ),
    "operators of a class": (
        """
        class Number:
            def __init__(self, n):
                self.n = n
            def __add__(self, other):
                return Number(self.n + other.n)
            def __len__(self):
                return self.n
            def __getitem__(self, i):
                return self.n * i
            def __contains__(self, i):
                return i == self.n
            def __call__(self, i):
                return self.n - i
            def __bool__(self):
                return self.n > 0
        x = Number(2) + Number(3)
        show(x.n, len(x), x[4], 5 in x, x(1), "yes" if x else "no")
        """,
        [(5, 5, 20, True, 4, "yes")],
    ),
    "getattr": (
        """
        class Proxy:
            def __init__(self, inner):
                self.inner = inner
            def __getattr__(self, name):
                return getattr(self.inner, name)
        class Inner:
            n = 3
            def f(self):
                return 4
        proxy = Proxy(Inner())
        show(proxy.n, proxy.f(), getattr(proxy.inner, "missing", 5), hasattr(Inner(), "n"))
        """,
        [(3, 4, 5, True)],
    ),
    "setattr and vars": (
        """
        class Bag:
            pass
        bag = Bag()
        for key, value in {"a": 1, "b": 2}.items():
            setattr(bag, key, value)
        bag.__dict__.update({"c": 3})
        show(bag.a, bag.b, vars(bag)["b"])
        """,
        [(1, 2, 2)],
    ),
    "dataclass": (
        """
        from dataclasses import dataclass, field
        @dataclass
        class Config:
            name: str
            size: int = 4
            parts: list = field(default_factory=list)
            twice: int = field(init=False, default=0)
            def __post_init__(self):
                self.twice = self.size * 2
        @dataclass(frozen=True)
        class More(Config):
            extra: str = "none"
        a, b = Config("a"), Config("b", 5)
        a.parts.append(1)
        more = More("m", extra="some")
        show(a.name, a.size, a.parts, b.parts, b.twice, more.size, more.extra)
        """,
        [("a", 4, [1], [], 10, 4, "some")],
    ),
    "NamedTuple": (
        """
        from typing import NamedTuple
        class Point(NamedTuple):
            x: int
            y: int = 2
            def total(self):
                return self.x + self.y
        p = Point(1)
        x, y = p
        show(p.x, p[1], y, p.total(), p._replace(x=5).x)
        """,
        [(1, 2, 2, 3, 5)],
    ),
    "namedtuple": (
        """
        from collections import namedtuple
        Point = namedtuple("Point", ["x", "y"])
        p = Point(1, y=2)
        x, y = p
        show(p.x, p.y, p[0], x, y)
        """,
        [(1, 2, 1, 1, 2)],
    ),
    "enum": (
        """
        from enum import Enum
        class Mode(Enum):
            TRAIN = "train"
            TEST = "test"
        mode = Mode.TRAIN
        show(mode == Mode.TRAIN, mode == Mode.TEST, mode is Mode.TEST, Mode.TEST.value, Mode("train") == mode)
        """,
        [(True, False, False, "test", True)],
    ),
    "isinstance": (
        """
        class A: pass
        class B(A): pass
        b = B()
        show(isinstance(b, A), isinstance(A(), B), isinstance(b, (int, B)), isinstance([1], list), isinstance(3, str))
        """,
        [(True, False, True, True, False)],
    ),
    "a class made in a function": (
        """
        def make(n):
            class Made:
                size = n
                def get(self):
                    return n + self.size
            return Made
        show(make(1)().get(), make(2)().get())
        """,
        [(2, 4)],
    ),
    # ------------------------------------------------------------ branches and loops
    "match": (
        """
        def f(x):
            match x:
                case "a" | "b":
                    return 1
                case 3:
                    return 2
                case other:
                    return other
        show(f("b"), f(3), f("z"))
        """,
        [(1, 2, "z")],
    ),
    "match of a pattern that is not understood": (
        """
        def f(x):
            match x:
                case [a, b]:
                    return "two"
                case _:
                    return "other"
        show(f([1, 2]))
        """,
        [frozenset({"two", "other"})],
    ),
    "an exception that is raised": (
        """
        log = []
        def f():
            try:
                log.append("body")
                raise ValueError("no")
            except ValueError as error:
                log.append("handler")
                return "failed"
            else:
                log.append("else")
            finally:
                log.append("finally")
            return "done"
        show(f(), log)
        """,
        [("failed", ["body", "handler", "finally"])],
    ),
    "an exception that any statement may raise": (
        """
        def f(path):
            try:
                n = len(path)
            except OSError:
                return "failed"
            else:
                n = "else"
            return n
        show(f("abc"))
        """,
        [frozenset({"failed", "else"})],
    ),
    "finally after return": (
        """
        log = []
        def f():
            try:
                return 1
            finally:
                log.append("finally")
        show(f(), log)
        """,
        [(1, ["finally"])],
    ),
    "finally overrides": (
        """
        def f():
            try:
                return 1
            finally:
                return 2
        show(f())
        """,
        [2],
    ),
    "an import that may fail": (
        """
        try:
            import tensorboard_that_is_missing
            HAVE = True
        except ImportError:
            HAVE = False
        show(HAVE)
        """,
        [True],
    ),
    "break and else": (
        """
        def find(xs, wanted):
            for x in xs:
                if x == wanted:
                    break
            else:
                return "missing"
            return x
        show(find([1, 2, 3], 2), find([1, 2], 5))
        """,
        [(2, "missing")],
    ),
    "continue": (
        """
        found = []
        for x in [1, 2, 3, 4]:
            if x % 2:
                continue
            found.append(x)
        show(found)
        """,
        [[2, 4]],
    ),
    "while with a counter": (
        """
        n = 0
        while n < 3:
            n += 1
        show(n > 100)
        """,
        [UNKNOWN],
    ),
    "while with break and else": (
        """
        n = 5
        while False:
            n = 1
        else:
            n = 6
        show(n)
        while True:
            n = 7
            break
        show(n)
        """,
        [6, 7],
    ),
    "nested loops": (
        """
        pairs = []
        for a in (1, 2):
            for b in (3, 4):
                if b == 4 and a == 1:
                    break
                pairs.append((a, b))
        show(pairs)
        """,
        [[(1, 3), (2, 3), (2, 4)]],
    ),
    "enumerate and zip": (
        """
        show([(i, a, b) for i, (a, b) in enumerate(zip("xy", [1, 2]), start=1)])
        """,
        [[(1, "x", 1), (2, "y", 2)]],
    ),
    "conditional expressions and short circuits": (
        """
        def never():
            show("never")
            return True
        a = False and never()
        b = 3 or never()
        c = None or 4
        show(a, b, c, "x" if not a else "y", 1 < 2 < 3, not None)
        """,
        [(False, 3, 4, "x", True, True)],
    ),
    "del": (
        """
        table = {"a": 1, "b": 2}
        del table["a"]
        show(table)
        """,
        [{"b": 2}],
    ),
    "strings": (
        """
        name = "net"
        show(f"{name}-{1 + 1}.pt", "a,b".split(","), "-".join(["x", "y"]), name.upper(), name[0], "%s" % 3)
        """,
        [("net-2.pt", ["a", "b"], "x-y", "NET", "n", "3")],
    ),
    "containers": (
        """
        xs = [3, 1]
        xs += [2]
        xs.extend([5])
        xs.insert(0, 9)
        table = dict(a=1, **{"b": 2})
        table.setdefault("c", []).append(4)
        copied = {**table, "a": 7}
        show(len(xs), xs[-1], xs[1:3], table["c"], copied["a"], list(table), 2 in xs, max(3, 8), min([4, 2]))
        """,
        [(5, 5, [3, 1], [4], 7, ["a", "b", "c"], True, 8, 2)],
    ),
    "an unknown condition": (
        """
        import random_package
        if random_package.flag:
            n = 1
        else:
            n = 2
        show(n)
        m = 0
        if random_package.other:
            m = 5
        show(m)
        """,
        [frozenset({1, 2}), frozenset({0, 5})],
    ),
    "an unknown condition and early return": (
        """
        import random_package
        def f():
            if random_package.flag:
                return 1
            return 2
        show(f())
        """,
        [frozenset({1, 2})],
    ),
    "narrowing": (
        """
        import random_package
        n = None
        if random_package.flag:
            n = 3
        if n is not None:
            show(n)
        else:
            show(n)
        """,
        [3, None],
    ),
    "raise ends a function": (
        """
        def f(n):
            if n == 0:
                raise ValueError("zero")
            return n
        show(f(2))
        """,
        [2],
    ),
    "an exception out of a function reaches the handler": (
        """
        def f():
            raise KeyError("x")
        try:
            f()
            n = 2
        except KeyError:
            n = 3
        show(n)
        """,
        [3],
    ),
    "an unknown condition that raises": (
        """
        import random_package
        n = 1
        if random_package.flag:
            n = 2
            raise SystemExit
        show(n)
        """,
        [1],
    ),
    "return in a loop over unknown items": (
        """
        import random_package
        def f():
            for x in random_package.xs():
                if x:
                    return 1
            return 2
        show(f())
        """,
        [frozenset({1, 2})],
    ),
    "break in a loop over unknown items": (
        """
        import random_package
        n = "start"
        for x in random_package.xs():
            n = "first"
            if x:
                n = "left"
                break
            n = "last"
        show(n)
        """,
        [frozenset({"left", "last"})],
    ),
    "break in a loop over known items": (
        """
        import random_package
        n = "start"
        for x in ["a", "b"]:
            if random_package.flag:
                n = x
                break
        else:
            n = "else"
        show(n)
        """,
        [frozenset({"start", "a", "b", "else"})],
    ),
    "a loop over unknown items is taken to run": (
        """
        import random_package
        n = 0
        for x in random_package.xs():
            n = 1
        show(n)
        """,
        [1],
    ),
    "else of a loop over unknown items": (
        """
        import random_package
        n = "start"
        for x in random_package.xs():
            if x:
                n = "break"
                break
        else:
            n = "else"
        show(n)
        """,
        [frozenset({"start", "break", "else"})],
    ),
    "a loop whose passes build on one another": (
        """
        import random_package
        state = "start"
        for x in random_package.xs():
            if state == "start":
                state = "going"
            elif state == "going":
                state = "done"
        show(state)
        """,
        [frozenset({"going", "done"})],
    ),
    "an instance attribute joined": (
        """
        import random_package
        class Box:
            def __init__(self): self.n = 0
        box = Box()
        if random_package.flag:
            box.n = 1
        show(box.n)
        """,
        [frozenset({0, 1})],
    ),
    "methods of one of two classes": (
        """
        import random_package
        class A:
            def f(self): return 1
        class B:
            def f(self): return 2
        x = A() if random_package.flag else B()
        show(x.f())
        """,
        [frozenset({1, 2})],
    ),
    "two tests of one option are not brought together": (
        """
        import argparse
        parser = argparse.ArgumentParser()
        parser.add_argument("--fast", action="store_true")
        args = parser.parse_args()
        n = None
        if args.fast:
            n = 1
        m = 2
        if args.fast:
            m = n
        show(m)
        """,
        [frozenset({1, 2, None})],
    ),
    "generator expressions": (
        """
        xs = (x * 2 for x in [1, 2])
        show(list(xs), any(x > 3 for x in [1, 2, 5]), all(x for x in [1, 0]), max(x for x in [4, 7]))
        """,
        [([2, 4], True, False, 7)],
    ),
    "next is any of the items": (
        """
        def f():
            yield "a"
            yield "b"
        show(next(f()), next(iter(["c", "d"])))
        """,
        [(frozenset({"a", "b"}), frozenset({"c", "d"}))],
    ),
    "nested functions see the class": (
        """
        class Trainer:
            scale = 2
            def run(self):
                def inner(x):
                    return x * self.scale
                return [inner(x) for x in (1, 2)]
        show(Trainer().run())
        """,
        [[2, 4]],
    ),
    "abstract classes": (
        """
        from abc import ABC, abstractmethod
        class Base(ABC):
            def run(self):
                return self.step() + 1
            @abstractmethod
            def step(self): ...
        class Derived(Base):
            def step(self):
                return 4
        show(Derived().run())
        """,
        [5],
    ),
    "__new__ and singletons": (
        """
        class Single:
            _made = None
            def __new__(cls):
                if cls._made is None:
                    cls._made = super().__new__(cls)
                    cls._made.n = 1
                return cls._made
        a = Single()
        a.n = 5
        show(Single().n)
        """,
        [5],
    ),
    "__init_subclass__ and class attributes": (
        """
        class Base:
            registry = {}
            def __init_subclass__(cls, **kwargs):
                Base.registry[cls.__name__] = cls
        class One(Base):
            n = 1
        show(Base.registry["One"].n)
        """,
        [1],
    ),
    "cached_property": (
        """
        from functools import cached_property
        class A:
            @cached_property
            def n(self):
                return 4
        show(A().n)
        """,
        [4],
    ),
    "lru_cache": (
        """
        from functools import lru_cache, cache
        @lru_cache(maxsize=None)
        def f(n): return n + 1
        @cache
        def g(n): return n + 2
        @lru_cache
        def h(n): return n + 3
        show(f(1), g(1), h(1))
        """,
        [(2, 3, 4)],
    ),
    "SimpleNamespace and dictionaries as configurations": (
        """
        from types import SimpleNamespace
        config = SimpleNamespace(a=1, b=2)
        config.b += 5
        show(config.a, config.b)
        """,
        [(1, 7)],
    ),
    "defaultdict, OrderedDict, deque": (
        """
        from collections import defaultdict, OrderedDict, deque
        found = defaultdict(list)
        found["a"].append(1)
        found["a"].append(2)
        queue = deque([1, 2])
        queue.append(3)
        show(found["a"], OrderedDict(a=1)["a"], queue.popleft(), list(queue))
        """,
        [([1, 2], 1, 1, [2, 3])],
    ),
    "operator and math": (
        """
        import math
        show(math.ceil(7 / 2), 7 // 2, 7 % 4, 2 ** 3, -7 // 2, abs(-3), round(2.6), divmod(7, 2), pow(2, 4))
        """,
        [(4, 3, 3, 8, -4, 3, 3, (3, 1), 16)],
    ),
    "string formatting": (
        """
        n = 3
        show("{}-{name}".format(n, name="x"), "a" "b", "x" * 3, str(n) + "!", "b" in "abc", "%d/%s" % (n, "k"))
        """,
        [("3-x", "ab", "xxx", "3!", True, "3/k")],
    ),
    "formats and conversions in f-strings": (
        """
        n, w, name = 3, 4, "x"
        show(f"{n:02d}", f"{1 / 3:.2f}", f"{name!r}-{name!s:>{w}}", f"{n = }", f"{n=:>{w}}", f"e{n + 4:0{w}}", f"{n:}")
        """,
        [("03", "0.33", "'x'-   x", "n = 3", "n=   3", "e0007", "3")],
    ),
    "f-strings whose text is not known": (
        """
        import torch.distributed as dist
        none, lr = None, 0.1
        show(f"{dist.get_rank():02d}", f"{none:02d}", f"{lr:{dist.get_rank()}}", f"{lr:{'9' * 9}}")
        """,
        [(UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN)],
    ),
    "slices": (
        """
        xs = [0, 1, 2, 3, 4]
        xs[0] = 9
        show(xs[:2], xs[-2:], xs[::2], xs[::-1], "abcdef"[1:3], (1, 2, 3)[1:])
        """,
        [([9, 1], [3, 4], [9, 2, 4], [4, 3, 2, 1, 9], "bc", (2, 3))],
    ),
    "sets": (
        """
        s = {1, 2}
        s.add(4)
        show(4 in s, 3 in s, len({1, 1, 2}), sorted({3, 1}))
        """,
        [(True, False, 2, [1, 3])],
    ),
    "dictionary methods": (
        """
        d = {"a": 1}
        d.update(b=2)
        e = d.pop("a")
        d |= {"c": 3}
        show(d, e, d.get("z", 0), list(d.items()), {v: k for k, v in d.items()})
        """,
        [({"b": 2, "c": 3}, 1, 0, [("b", 2), ("c", 3)], {2: "b", 3: "c"})],
    ),
    "functions in tables": (
        """
        def double(x): return 2 * x
        table = {"double": double, "neg": lambda x: -x}
        name = "double"
        show(table[name](4), table.get("neg")(1), list(map(double, [1, 2])), sorted([3, 1, 2])[0])
        """,
        [(8, -1, [2, 4], 1)],
    ),
    "functions have attributes": (
        """
        def f(): return f.n
        f.n = 3
        show(f(), getattr(f, "n"), f.__name__)
        """,
        [(3, 3, "f")],
    ),
    "class methods called on the class": (
        """
        class A:
            def f(self, x): return x + self.n
            n = 1
        a = A()
        show(A.f(a, 2), A.__name__, type(a).__name__, a.__class__.n)
        """,
        [(3, "A", "A", 1)],
    ),
    "multiple assignment targets": (
        """
        class A: pass
        a = A()
        table = {}
        a.x, table["y"], (z, *w) = 1, 2, (3, 4, 5)
        show(a.x, table, z, w)
        """,
        [(1, {"y": 2}, 3, [4, 5])],
    ),
    "augmented assignment": (
        """
        class A: n = 1
        a = A()
        a.n += 2
        xs = [1]
        xs[0] *= 5
        d = {"k": 1}
        d["k"] -= 3
        show(a.n, A.n, xs, d)
        """,
        [(3, 1, [5], {"k": -2})],
    ),
    "async": (
        """
        import asyncio
        async def f(n):
            return n + 1
        async def main():
            show(await f(1))
        asyncio.run(main())
        """,
        [2],
    ),
    "with several exits and suppress": (
        """
        from contextlib import ExitStack, nullcontext, suppress
        n = 0
        with suppress(KeyError), nullcontext(4) as m, ExitStack() as stack:
            k = stack.enter_context(nullcontext(6))
            n = m + k
        show(n)
        """,
        [10],
    ),
    "a decorator that makes a context manager": (
        """
        from contextlib import contextmanager
        log = []
        @contextmanager
        def logged():
            log.append("in")
            yield
            log.append("out")
        @logged()
        def f():
            return 1
        def g():
            with logged():
                for x in [1, 2]:
                    if x == 1:
                        return x
        show(g(), log)
        """,
        [(1, ["in", "out"])],
    ),
    "recursion": (
        """
        def total(tree):
            if isinstance(tree, list):
                return sum([total(t) for t in tree])
            return tree
        show(total([1, 2]))
        """,
        [3],
    ),
    "type annotations do nothing": (
        """
        n: int = 3
        m: "missing.Type"
        def f(x: other.Kind = 2) -> what.Ever: return x
        show(n, f())
        """,
        [(3, 2)],
    ),
    "module attributes": (
        """
        if __name__ == "__main__":
            show("main")
        else:
            show("imported")
        """,
        ["main"],
    ),
    # ------------------------------------------------------------ what a data-parallel run decides
    "launcher variables": (
        """
        import os
        rank = int(os.environ["RANK"])
        ddp = int(os.environ.get("RANK", -1)) != -1
        world = int(os.getenv("WORLD_SIZE", "1"))
        show(rank, ddp, world, "LOCAL_RANK" in os.environ, world > 1)
        """,
        [(RANK, True, WORLD, True, True)],
    ),
    "options": (
        """
        import argparse
        parser = argparse.ArgumentParser()
        parser.add_argument("--batch-size", "-b", type=int, default=32)
        parser.add_argument("--world_size", type=int, default=1)
        parser.add_argument("--amp", action="store_true")
        args = parser.parse_args()
        args.name = "run"
        show(args.batch_size, args.amp, args.name)
        """,
        [(OPTION, OPTION, "run")],
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_values(name: str, tmp_path: Path) -> None:
    text, expected = PROGRAMS[name]
    run = execute(tmp_path, text)
    assert run.complete
    assert shown(run) == expected


# ---------------------------------------------------------------- several files

PROJECTS: dict[str, tuple[dict[str, str], list[Any]]] = {
    "relative imports and re-exports": (
        {
            "train.py": """
                from engine import build, SIZE
                import engine.head as head
                from engine.head import Head as H
                show(build().n, SIZE, head.Head.kind, H.kind)
            """,
            "engine/__init__.py": "from .build import build\nfrom .head import SIZE\n",
            "engine/build.py": "from . import head\nfrom .head import *\ndef build(): return Head(head.SIZE + 1)\n",
            "engine/head.py": """
                from ..engine import other_that_is_missing
                SIZE = 4
                class Head:
                    kind = "head"
                    def __init__(self, n): self.n = n
            """,
        },
        [(5, 4, "head", "head")],
    ),
    "star imports": (
        {
            "train.py": "from a import *\nfrom b import *\nshow(x, y, _hidden if False else z)\n",
            "a.py": "x = 1\ny = 1\n_hidden = 3\n",
            "b.py": "from c import *\ny = 2\n",
            "c.py": "z = 5\n",
        },
        [(1, 2, 5)],
    ),
    "mutual imports": (
        {
            "train.py": "import a\nshow(a.f(1), a.b.g(5))\n",
            "a.py": "import b\nLIMIT = 3\ndef f(n):\n    return b.g(n)\n",
            "b.py": "import a\ndef g(n):\n    return n if n > a.LIMIT else n + a.LIMIT\n",
        },
        [(4, 5)],
    ),
    "mutual from imports": (
        {
            "train.py": "from a import f\nshow(f(1))\n",
            "a.py": "from b import g\ndef f(n):\n    return g(n) + 1\ndef h(n):\n    return n * 10\n",
            "b.py": "from a import h\ndef g(n):\n    return h(n)\n",
        },
        [11],
    ),
    "names that two modules import from each other": (
        {
            "train.py": "from a import x\nshow(x)\n",
            "a.py": "from b import x\n",
            "b.py": "from a import x\n",
        },
        ["<b.x>"],
    ),
    "TYPE_CHECKING": (
        {
            "train.py": """
                from __future__ import annotations
                from typing import TYPE_CHECKING
                import typing
                n = 1
                if TYPE_CHECKING:
                    from a import A
                    n = 2
                if typing.TYPE_CHECKING:
                    n = 3
                def f(a: A) -> int:
                    return n
                show(f(None))
            """,
            "a.py": "class A: pass\n",
        },
        [1],
    ),
    "sys.path": (
        {
            "train.py": """
                import os, sys
                sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
                import helper
                from helper import n
                show(helper.n, n)
            """,
            "lib/helper.py": "n = 4\n",
        },
        [(4, 4)],
    ),
    "a module that acts when it is imported": (
        {
            "train.py": "import a\nimport b\nshow(a.n)\n",
            "a.py": "n = 1\n",
            "b.py": "import a\ndef change(): a.n = 2\nchange()\n",
        },
        [2],
    ),
    "an import inside a function": (
        {
            "train.py": """
                def f():
                    from a import n
                    import a as module
                    return n + module.n
                show(f())
            """,
            "a.py": "n = 3\n",
        },
        [6],
    ),
    "a state that modules share": (
        {
            "train.py": "import a, b\na.set_size(7)\nshow(b.size())\n",
            "a.py": "SIZE = 1\ndef set_size(n):\n    global SIZE\n    SIZE = n\n",
            "b.py": "import a\ndef size(): return a.SIZE\n",
        },
        [7],
    ),
    "importlib and missing modules": (
        {
            "train.py": """
                try:
                    from fast_package import thing
                except ImportError:
                    thing = None
                from missing_package.deep import other
                show(thing, other)
            """,
        },
        [("<fast_package.thing>", "<missing_package.deep.other>")],
    ),
    "a package without __init__": (
        {
            "train.py": "from utils.numbers import n\nimport utils.numbers\nshow(n, utils.numbers.n)\n",
            "utils/numbers.py": "n = 8\n",
        },
        [(8, 8)],
    ),
}


@pytest.mark.parametrize("name", PROJECTS)
def test_projects(name: str, tmp_path: Path) -> None:
    files, expected = PROJECTS[name]
    run = execute(tmp_path, files["train.py"], {key: text for key, text in files.items() if key != "train.py"})
    assert run.complete
    assert shown(run) == expected


# ---------------------------------------------------------------- a run as one rank of many

WRAPS = """
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

net = torch.nn.Linear(2, 2)
"""


def kinds(run: TrainingRun, *wanted: str) -> list[str]:
    return [event.kind for event in run.events if event.kind in wanted]


DECISIONS: dict[str, str] = {
    "args.world_size": """
        import argparse, os
        parser = argparse.ArgumentParser()
        parser.add_argument("--world-size", default=-1, type=int)
        args = parser.parse_args()
        if "WORLD_SIZE" in os.environ:
            args.world_size = int(os.environ["WORLD_SIZE"])
        args.distributed = args.world_size > 1
        if args.distributed:
            dist.init_process_group("nccl")
            net = DDP(net)
        else:
            show("single")
        show(args.distributed)
    """,
    "the rank in the environment": """
        import os
        ddp = int(os.environ.get("RANK", -1)) != -1
        if ddp:
            dist.init_process_group("nccl")
            net = DDP(net)
        else:
            show("single")
        show(ddp)
    """,
    "is_initialized": """
        dist.init_process_group("nccl")
        if dist.is_available() and dist.is_initialized():
            net = DDP(net)
        else:
            show("single")
        show(dist.is_initialized())
    """,
    "get_world_size": """
        dist.init_process_group("nccl")
        distributed = dist.get_world_size() > 1
        if distributed:
            net = DDP(net)
        if not distributed:
            show("single")
        show(distributed)
    """,
    "a helper that asks": """
        def is_distributed():
            if not dist.is_available():
                return False
            if not dist.is_initialized():
                return False
            return True
        def get_world_size():
            return dist.get_world_size() if is_distributed() else 1
        dist.init_process_group("nccl")
        if get_world_size() == 1:
            show("single")
        else:
            net = DDP(net)
        show(is_distributed())
    """,
    "an option that only a data-parallel run sets": """
        import argparse
        parser = argparse.ArgumentParser()
        parser.add_argument("--distributed", action="store_true")
        args = parser.parse_args()
        if args.distributed:
            dist.init_process_group("nccl")
        if args.distributed:
            net = DDP(net)
        else:
            show("single")
        show(True if args.distributed else "single")
    """,
    "local_rank of the launcher": """
        import argparse
        parser = argparse.ArgumentParser()
        parser.add_argument("--local_rank", type=int, default=-1)
        args = parser.parse_args()
        if args.local_rank != -1:
            dist.init_process_group("nccl")
            net = DDP(net)
        else:
            show("single")
        show(True)
    """,
}


@pytest.mark.parametrize("name", DECISIONS)
def test_the_branch_of_a_data_parallel_run_is_taken(name: str, tmp_path: Path) -> None:
    run = execute(tmp_path, WRAPS + textwrap.dedent(DECISIONS[name]))
    assert kinds(run, "group", "wrap") == ["group", "wrap"]
    assert shown(run) == [True]
    assert not any(event.guards for event in run.of_kind("wrap"))


@pytest.mark.parametrize(
    "start",
    [
        "mp.spawn(work, args=(count, 5), nprocs=count, join=True)",
        "torch.multiprocessing.spawn(work, (count, 5), count)",
        "mp.spawn(functools.partial(work, world=count, n=5), nprocs=count)",
        "mp.spawn(work, nprocs=torch.cuda.device_count(), args=(torch.cuda.device_count(), 5))",
    ],
)
def test_spawn_starts_one_process_a_rank(start: str, tmp_path: Path) -> None:
    run = execute(
        tmp_path,
        f"""
        import functools
        import torch
        import torch.distributed as dist
        import torch.multiprocessing as mp

        def work(rank, world, n):
            dist.init_process_group("gloo", rank=rank, world_size=world)
            show(rank, world, n)

        if __name__ == "__main__":
            count = torch.cuda.device_count()
            {start}
        """,
    )
    assert kinds(run, "launch", "group") == ["launch", "group"]
    assert shown(run) == [(RANK, WORLD, 5)]


@pytest.mark.parametrize(
    "test",
    [
        "dist.get_rank() == 0",
        "not dist.get_rank()",
        "int(os.environ['RANK']) == 0",
        "is_main()",
        "rank < 1 and True",
        "state.main",
    ],
)
def test_a_branch_by_rank_is_reached_by_some_ranks(test: str, tmp_path: Path) -> None:
    run = execute(
        tmp_path,
        f"""
        import os
        import torch.distributed as dist

        def is_main():
            return dist.get_rank() == 0

        class State:
            def __init__(self):
                self.main = dist.get_rank() == 0

        dist.init_process_group("gloo")
        rank = dist.get_rank()
        state = State()
        dist.barrier()
        if {test}:
            dist.barrier()
        else:
            dist.barrier()
        dist.barrier()
        """,
    )
    guards = [event.guards for event in run.of_kind("collective")]
    assert [[(guard.by_rank, guard.holds) for guard in each] for each in guards] == [
        [],
        [(True, True)],
        [(True, False)],
        [],
    ]


def test_an_early_exit_by_rank_leaves_the_rest_to_some(tmp_path: Path) -> None:
    run = execute(
        tmp_path,
        """
        import torch.distributed as dist

        def work():
            if dist.get_rank() != 0:
                return
            dist.barrier()

        dist.init_process_group("gloo")
        work()
        dist.barrier()
        """,
    )
    guards = [event.guards for event in run.of_kind("collective")]
    assert [[(guard.by_rank, guard.holds) for guard in each] for each in guards] == [[(True, False)], []]


def test_loops_are_recorded_with_what_they_run_over(tmp_path: Path) -> None:
    run = execute(
        tmp_path,
        """
        import torch.distributed as dist
        dist.init_process_group("gloo")
        for epoch in range(30):
            for step in range(1):
                dist.barrier()
            while True:
                dist.barrier()
                if dist.get_rank():
                    break
        """,
    )
    once, forever = (event.loops for event in run.of_kind("collective"))
    assert [loop.runs_once for loop in once] == [False, True]
    assert [loop.count is None for loop in forever] == [False, True]


def test_a_method_runs_once_for_each_object(tmp_path: Path) -> None:
    run = execute(
        tmp_path,
        WRAPS
        + """
class Task:
    def __init__(self, size):
        self.net = torch.nn.Linear(size, 2)
    def wrap(self):
        self.net = DDP(self.net)
        return self.net

dist.init_process_group("gloo")
nets = [Task(n).wrap() for n in (1, 2)]
""",
    )
    wraps = run.of_kind("wrap")
    assert len({id(event.subject) for event in wraps}) == len(wraps) == 2


def test_a_model_is_trained_through_its_wrapper(tmp_path: Path) -> None:
    run = execute(
        tmp_path,
        """
        import torch
        import torch.distributed as dist
        from torch import nn
        from torch.nn.parallel import DistributedDataParallel

        class Head(nn.Module):
            def __init__(self, size):
                super().__init__()
                self.layers = nn.ModuleList([nn.Linear(size, size) for _ in range(3)])
            def forward(self, x, *, scale=1.0):
                for layer in self.layers:
                    x = layer(x)
                return {"logits": x * scale, "size": 3}

        class Trainer:
            def __init__(self, model):
                self.model = DistributedDataParallel(model)
                self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
            def step(self, batch):
                self.optimizer.zero_grad()
                loss = self.loss(self.model(batch, scale=2.0), batch)
                loss.backward()
                self.optimizer.step()
            def loss(self, output, batch):
                return (output["logits"] - batch).pow(2).mean()

        dist.init_process_group("gloo")
        trainer = Trainer(Head(4))
        for batch in torch.utils.data.DataLoader(torch.randn(100, 4), batch_size=4):
            trainer.step(batch)
        """,
    )
    (update,) = run.updates
    assert [event.how for event in update.wraps] == ["DDP"]
    assert update.summed == 0
    (judged,) = update.judged()
    assert judged.place.is_ratio
    assert judged.world == 0
    assert run.of_kind("model")[0].random


# ---------------------------------------------------------------- what was not read

TRAINS = """
import torch
import torch.distributed as dist
import unread_package as u
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

dist.init_process_group("gloo")
data = TensorDataset(torch.randn(100, 3), torch.randint(0, 3, (100,)))
loader = DataLoader(data, batch_size=4, sampler=DistributedSampler(data), drop_last=True)
model = DDP(MODEL)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    loss = LOSS
    loss.backward()
    AFTER
    optimizer.step()
"""


def trained(folder: Path, model: str = "torch.nn.Linear(3, 3)", loss: str = "", after: str = "pass") -> list[Any]:
    """The power of W in each term of the update, None where it is not known."""
    text = TRAINS.replace("MODEL", model).replace("LOSS", loss or "cross_entropy(model(x), y)").replace("AFTER", after)
    (update,) = execute(folder, text).updates
    assert [event.how for event in update.wraps] == ["DDP"]
    return [judged.world for judged in update.judged()]


@pytest.mark.parametrize(
    ("program", "worlds"),
    [
        ({}, [0]),
        ({"model": "u.Net()"}, [0]),
        ({"model": "torch.nn.Sequential(u.Backbone(), torch.nn.Linear(3, 3))"}, [0]),
        ({"loss": "cross_entropy(model(x), y) * dist.get_world_size()"}, [1]),
        ({"loss": "cross_entropy(u.gather(model(x)), u.gather(y)) * dist.get_world_size()"}, [None]),
        ({"loss": "u.scaled(cross_entropy(model(x), y))"}, [None]),
        ({"after": "u.reduce(model)"}, [None]),
        ({"after": "u.scale(list(model.parameters()), 2)"}, [None]),
        ({"after": "u.log(x)"}, [0]),
        ({"after": "print(model)"}, [0]),
    ],
    ids=str,
)
def test_code_that_was_not_read_makes_scales_unknown(
    program: dict[str, str], worlds: list[int | None], tmp_path: Path
) -> None:
    assert trained(tmp_path, **program) == worlds


UNREAD: dict[str, tuple[str, list[Any]]] = {
    "the group may have been started": (
        """
        import torch.distributed as dist
        import unread_package as u
        show(dist.is_initialized())
        u.start()
        show(dist.is_initialized())
        """,
        [False, UNKNOWN],
    ),
    "a wrapper shows that the group was started": (
        """
        import torch, unread_package as u
        import torch.distributed as dist
        from torch.nn.parallel import DistributedDataParallel
        u.start()
        model = DistributedDataParallel(torch.nn.Linear(1, 1))
        show(dist.is_initialized())
        """,
        [True],
    ),
    "a method that was not read may set anything": (
        """
        class Trainer:
            from unread_package import build
            def __init__(self):
                self.sampler = None
                self.hooks = []
                self.build()
        trainer = Trainer()
        show(trainer.sampler, trainer.hooks, trainer.other)
        """,
        [(frozenset({None, UNKNOWN}), [UNKNOWN, ...], UNKNOWN)],
    ),
    "so may one of a base class": (
        """
        from unread_package import Base
        class Trainer(Base):
            def __init__(self):
                self.sampler = None
                self.build()
        show(Trainer().sampler)
        """,
        [frozenset({None, UNKNOWN})],
    ),
    "functions that are known to be harmless": (
        """
        import logging, math, json
        import torch.distributed as dist
        logging.getLogger("x").info("text")
        json.dumps({})
        show(dist.is_initialized())
        """,
        [False],
    ),
}


@pytest.mark.parametrize("name", UNREAD)
def test_what_was_not_read(name: str, tmp_path: Path) -> None:
    text, expected = UNREAD[name]
    assert shown(execute(tmp_path, text)) == expected


def test_what_an_object_gets_after_it_was_handed_over_is_handed_over(tmp_path: Path) -> None:
    run = execute(
        tmp_path,
        """
        import unread_package as u
        from torch.utils.data import DataLoader
        class Runner:
            pass
        runner = Runner()
        before = DataLoader([])
        u.watch(runner)
        runner.loader = DataLoader([])
        """,
    )
    assert [escaped(event.subject) for event in run.of_kind("loader")] == [False, True]
