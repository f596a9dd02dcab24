"""Programs that nobody writes: they end in bounded time, in a result or in an incomplete one, and never in a crash."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from dpcheck.execution import describe
from tests.execution.programs import execute

SECONDS = 10


def sequential_branches(count: int) -> str:
    lines = ["import unread_package as u", "x = 0"]
    for i in range(count):
        lines += [f"if u.flag({i}):", f"    x = {i}", "else:", f"    y = x, {i}"]
    return "\n".join([*lines, "show(x)"])


def nested(opening: str, depth: int, body: str) -> str:
    lines = [f"{'    ' * i}{opening.format(i=i)}" for i in range(depth)]
    return "\n".join(["import unread_package as u", "x = 0", *lines, f"{'    ' * depth}{body}", "show(x)"])


def branching_functions(count: int) -> str:
    lines = ["import unread_package as u"]
    for i in range(count):
        lines += [f"def f{i}(x):", f"    if u.flag(x): return f{(i + 1) % count}(x)", "    elif u.other(x):"]
        lines += [f"        return f{(i * 7 + 3) % count}(x + 1)", f"    return f{(i * 5 + 1) % count}((x, 1))"]
    return "\n".join([*lines, "show(f0(1))"])


def deep_calls(count: int) -> str:
    lines = [f"def f{i}(x):\n    return f{i + 1}(x + 1)" for i in range(count)]
    return "\n".join([*lines, f"def f{count}(x): return x", "show(f0(0))"])


def doubling_calls(count: int) -> str:
    lines = ["def f0(x): return x"]
    lines += [f"def f{i}(x): return f{i - 1}(x) + f{i - 1}(x)" for i in range(1, count)]
    return "\n".join([*lines, f"show(f{count - 1}(u))".replace("u", "__import__('u')")])


def doubling_lists(count: int) -> str:
    return "\n".join(["xs = [1]", *["xs = xs + xs"] * count, *["xs = [xs, xs]"] * count, "show(len(xs))"])


def long_file(lines: int) -> str:
    return "\n".join([f"x{i} = {i}" if i % 8 else f"def f{i}(a): return a" for i in range(lines)])


PROGRAMS = {
    "recursion": "def f(n):\n    return f(n + 1)\nshow(f(0))",
    "recursion with a way out": "def f(n):\n    return 0 if n == 1000 else f(n + 1) + f(n + 2)\nshow(f(0))",
    "recursion through lambda": "f = lambda g: g(g)\nshow(f(f))",
    "the Y combinator": "Y = lambda f: (lambda x: f(lambda v: x(x)(v)))(lambda x: f(lambda v: x(x)(v)))\n"
    "show(Y(lambda g: lambda n: 1 if n == 0 else n * g(n - 1))(1000))",
    "recursion through a property": "class A:\n    @property\n    def a(self): return self.a\nshow(A().a)",
    "recursion through __getattr__": "class A:\n    def __getattr__(self, name): return getattr(self, name + 'x')\nshow(A().a)",
    "recursion through __getitem__": "class A:\n    def __getitem__(self, i): return self[i + 1]\nshow(A()[0])",
    "recursion through __call__": "class A:\n    def __call__(self, *a): return self(self, *a)\nshow(A()())",
    "recursion through __iter__": "class A:\n    def __iter__(self): return iter(self)\nshow([x for x in A()])",
    "recursion through __add__": "class A:\n    def __add__(self, o): return o + self\nshow(A() + A())",
    "recursion through __bool__": "class A:\n    def __bool__(self): return bool(self)\nshow(1 if A() else 2)",
    "recursion through __len__": "class A:\n    def __len__(self): return len(self)\nshow(len(A()), 1 if A() else 2)",
    "recursion through __setattr__": "class A:\n    def __setattr__(self, k, v): self.k = v\na = A()\na.x = 1\nshow(a.x)",
    "recursion through a setter": "class A:\n    @property\n    def a(self): return 1\n    @a.setter\n"
    "    def a(self, v): self.a = v\nb = A()\nb.a = 3\nshow(b.a)",
    "recursion through __init__": "class A:\n    def __init__(self): self.a = A()\nshow(A())",
    "recursion through __new__": "class A:\n    def __new__(cls): return cls()\nshow(A())",
    "recursion through __enter__": "class A:\n    def __enter__(self):\n        with self as a: return a\n"
    "    def __exit__(self, *e): pass\nwith A() as a: show(a)",
    "a generator of itself": "def f():\n    yield from f()\n    yield 1\nshow(list(f()))",
    "a generator that nests": "def f(n):\n    for x in f(n + 1):\n        yield x\n    yield n\nfor x in f(0): show(x)",
    "endless generators": "def f():\n    while True:\n        yield from f()\nfor x in f():\n    for y in f(): show(x, y)",
    "a list in itself": "xs = []\nxs.append(xs)\nfor x in xs: xs.append([x, xs])\nshow(xs[0][0][0] is xs)",
    "a dictionary in itself": "d = {}\nd['d'] = d\nd.update(d)\nd['e'] = {**d, 'f': [d]}\nshow(d['d']['d']['e'] is d)",
    "an object in itself": "class A: pass\na = A()\na.a = a\na.b = [a, {'a': a}]\nshow(a.a.a.a)\nimport u\nu.f(a)\nshow(a.b)",
    "a class in itself": "class A:\n    a = None\nA.a = A\nclass B(A.a):\n    b = A\nA.b = B\nshow(B.a.b.a.b)",
    "a closure over itself": "def f():\n    g = lambda: g()\n    return g()\nshow(f())",
    "a class that derives from itself": "class A: pass\nclass A(A): pass\nA.__bases__ = (A,)\nshow(A())",
    "bases without an order": "class A: pass\nclass B(A): pass\nclass C(A, B): pass\nshow(C())",
    "bases that are no classes": "class A(1, None, f, *[int], **{}): x = 1\nshow(A().x)",
    "a metaclass": "class M(type):\n    def __new__(m, name, bases, space): return super().__new__(m, name, bases, space)\n"
    "    def __call__(cls, *a): return None\n    def __getattr__(cls, name): return cls\n"
    "class A(metaclass=M): pass\nshow(A(), A.b.c)",
    "a metaclass that is a function": "class A(metaclass=lambda *a, **k: a): pass\nshow(A)",
    "type with three arguments": "A = type('A', (object,), {'x': 1})\nshow(A().x, type(A)('B', (A,), {}))",
    "__slots__ and descriptors": "class D:\n    def __get__(self, o, t): return self.__get__(o, t)\n"
    "    def __set__(self, o, v): o.d = v\nclass A:\n    __slots__ = ('d',)\n    d = D()\na = A()\na.d = 1\nshow(a.d)",
    "decorators that return nothing": "def d(f): pass\n@d\ndef f(): return 1\n@d\nclass A: pass\nshow(f, A)\nf()\nA()",
    "decorators that are anything": "@1\ndef f(): pass\n@None\n@[f][0]\n@(lambda g: g())\ndef g(): return 1\nshow(f, g)",
    "a decorator that decorates itself": "def d(f):\n    @d\n    def g(): return f()\n    return g\n@d\ndef f(): pass\nshow(f())",
    "wraps of itself": "import functools\ndef f(): return 1\nf = functools.wraps(f)(f)\nf.__wrapped__ = f\nshow(f())",
    "partial of itself": "import functools\nf = functools.partial(print)\nfor i in range(50): f = functools.partial(f, f)\nshow(f())",
    "odd assignments": "a, *b = c, = d = [1]\n[x, (y, *z)] = (1, (2, 3, 4))\n() = []\n[] = ()\n*a, = 1, 2\n(e) = f = 3\n"
    "a.b.c = a[0][1:2, ...] = 4\nshow(a, b, c, d, x, y, z, e, f)",
    "unpacking what does not fit": "a, b = 1\nc, d = [1, 2, 3]\n(e, *f, g) = []\nh, (i, j) = 'xy', None\nshow(a, b, c, d, e, f, g, h, i, j)",
    "del of everything": "x = 1\ndel x\ndel x, y, z.a, z[0], (p, [q])\nxs = [1, 2]\ndel xs[0], xs[5], xs[:]\nd = {}\ndel d['a'], d\nshow(x, xs)",
    "global in odd places": "global a\na = 1\nclass C:\n    global b\n    b = 2\n    def f(self):\n        global c, C\n"
    "        c = 3\n        C = None\nC().f()\nshow(a, b, c, C)",
    "nonlocal in odd places": "def f():\n    x = 1\n    class C:\n        nonlocal x\n        x = 2\n    def g():\n        nonlocal x\n"
    "        del x\n        x = lambda: x\n        return x()\n    return x, g()\nshow(f())",
    "lambda defaults": "f = lambda x=lambda y=lambda: 1: y(): x()\ng = lambda *a, k=(lambda: f)(), **b: (a, k, b)\nshow(f(), g(1, z=2))",
    "parameters that do not fit": "def f(a, /, b, *, c): return a, b, c\nshow(f(), f(1, 2, 3, 4), f(a=1, d=2), f(*None, **None))",
    "endless loops": "while True: pass\nwhile 1:\n    while not False:\n        x = 1\n    break\nwhile (y := 1): continue\nshow(1)",
    "an endless loop that grows": "xs = []\nn = 1\ns = 'a'\nwhile True:\n    xs.append(xs)\n    n *= n + 7\n    s += s\n    xs = [xs, n, s]\nshow(xs)",
    "for over itself": "xs = [1]\nfor x in xs:\n    xs += [x]\n    for x in xs:\n        xs.extend(xs)\nshow(xs)",
    "break, continue and return anywhere": "def f():\n    for x in f():\n        try:\n            continue\n        finally:\n"
    "            break\n    else:\n        return\n    while f():\n        try: return 1\n        finally: continue\nshow(f())",
    "try in try": "\n".join(f"{'    ' * i}try:" for i in range(18)) + f"\n{'    ' * 18}x = 1\n"
    + "\n".join(f"{'    ' * i}except Exception as e: x = e, {i}\n{'    ' * i}finally: y = {i}" for i in reversed(range(18))),
    "raise everywhere": "raise\ndef f():\n    raise f() from f\nassert f(), f()\ntry: raise\nexcept: raise\nfinally: show(1)",
    "match everything": "match x:\n    case {'a': [1, *rest], **others} if rest: pass\n    case A(b=1) | B(): pass\n    case (1 | 2) as n: pass\n"
    "    case -1 | 1+2j | None | 'a' 'b': pass\nmatch 1, *[2]:\n    case [*_]: pass\nshow(n)",
    "huge numbers": "x = 10 ** 10 ** 10\ny = 2 ** 99999 * 3\nz = 1 << 10 ** 9\nw = 9 ** 9 ** 9 ** 9\nn = -(-7) // 0 % 0\nshow(x, n)",
    "growing numbers": "x = 3\n" + "x = x * x\n" * 60 + "x **= x\nshow(x)",
    "huge texts": "s = 'ab' * 10 ** 9\nt = 'x' * 1000000 * 1000\nb = b'a' * 10 ** 10\nu = '%1000000000d' % 3\nv = f'{3:1000000000}'\n"
    "w = 'a'.ljust(10 ** 9)\nq = '{:>999999999}'.format(1)\nr = 'ab'.replace('a', 'c' * 1000).join('xyz' * 300)\nshow(len(s))",
    "growing texts": "s = 'ab'\n" + "s = s + s\n" * 60 + "s = s.replace('a', s)\n" * 10 + "show(s)",
    "formats that grow": "s = '%s'\n" + "s = s % (s + s,)\n" * 40 + "t = '{0}{0}'\n" + "t = t.format(t)\n" * 40 + "show(1)",
    "growing f-strings": "s = 'ab'\n" + "s = f'{s}{s}{s}'\n" * 40 + "show(1)",
    "a large display": f"x = [{', '.join(map(str, range(30_000)))}]\nfor y in x: z = y\nshow(len(x), [a + 1 for a in x][0])",
    "a large dictionary": f"x = {{{', '.join(f'{i}: {i}' for i in range(10_000))}}}\nfor y in x: x[y] = x\nshow(x[3])",
    "a large dictionary of calls": "def f(): return 1\nx = {" + ", ".join(f"'{i}': f()" for i in range(3000)) + "}\nshow(x['5'])",
    "a large loop body": "for i in range(3):\n" + "    x = i\n" * 5000 + "show(x)",
    "large ranges": "for i in range(10 ** 18): x = i\nxs = list(range(10 ** 18))\nys = [0] * 10 ** 18\nzs = [i for i in range(2 ** 70)]\nshow(len(xs))",
    "product of loops": "from itertools import *\nfor a in product(range(9), repeat=9):\n    for b in permutations(a):\n        for c in chain(a, b, cycle(a)): x = c\nshow(x)",
    "a comprehension of comprehensions": "xs = [[[[[i * j * k * l for i in range(9)] for j in range(9)] for k in range(9)] for l in range(9)] for m in range(9)]\nshow(1)",
    "comprehensions over known lists": f"xs = {list(range(20))}\nshow(len([1 for a in xs for b in xs for c in xs for d in xs for e in xs]))",
    "nested known loops": f"xs = {list(range(12))}\n" + "\n".join(f"{' ' * i}for x{i} in xs:" for i in range(8)) + f"\n{' ' * 8}y = x0 + x7\nshow(y)",
    "sequential branches": sequential_branches(40),
    "nested branches": nested("if u.flag({i}):", 15, "x = 1"),
    "nested loops": nested("for i{i} in u.xs({i}):", 8, "x = [x, i0, i7]"),
    "nested loops over ranges": nested("for i{i} in range(9):", 8, "x += i0 * i7"),
    "nested while loops": nested("while u.go({i}, x):", 8, "x = x + 1 if u.flag(x) else [x]"),
    "branches in loops": nested("for i{i} in u.xs():\n{{}}", 0, "pass")
    + "\ndef f(xs):\n    for x in xs:\n"
    + "".join(f"        if u.a(x): y{i} = x\n        elif u.b(x): continue\n        elif u.c(x): break\n" for i in range(20))
    + "f(u.xs())",
    "mutual recursion with branches": branching_functions(12),
    "deep calls": deep_calls(1000),
    "doubling calls": doubling_calls(30),
    "doubling lists": doubling_lists(30),
    "classes in loops": "import u\nfor x in u.xs():\n    class A:\n        y = x\n        def f(self): return A\n    x = A\nshow(A().f()().y)",
    "choices of choices": "import u\nx = 0\n"
    + "".join(f"x = [x, {i}] if u.f() else {{{i}: x}} if u.g() else (lambda: x) if u.h() else x\n" for i in range(25))
    + "show(x)",
    "calls of choices": "import u\ndef a(f): return f\ndef b(f): return b\nclass C:\n    def __call__(self, f): return u.f(f)\nf = a\n"
    + "f = (f if u.x() else b if u.y() else C())(f)\n" * 25
    + "show(f)",
    "attributes of choices": "import u\nclass A:\n    def __init__(self, *a): self.a = a\nx = A()\n"
    + "x = A(x, x) if u.f() else x\nx.b = x\nx.a = [x.b, x] if u.g() else x.a\n" * 15
    + "show(x.b.b)",
    "a long file": long_file(50_000),
    "a long chain": "x = " + " + ".join(["1"] * 900) + "\ny = " + " or ".join(["x"] * 900) + "\nz = " + " < ".join(["x"] * 900) + "\nshow(x)",
    "a long chain of calls": "class A:\n    def f(self): return self\nx = A()" + ".f()" * 400 + "\nshow(x)",
    "a long chain of branches": "import u\nif u.x == 0: y = 0\n" + "".join(f"elif u.x == {i}: y = {i}\n" for i in range(1, 1500)) + "show(1)",
    "exec and eval": "exec('x = 1')\neval('x')\nglobals()['y'] = 3\nlocals().update(z=4)\n__builtins__.print = None\nvars()['w'] = 1\nshow(1)",
    "names of the interpreter": "setattr(u, '%escaped', 1)\nclass A: pass\na = A()\nsetattr(a, '%tuple', a)\nsetattr(a, '%module', a)\n"
    "setattr(a, '%facts', 1)\na.__dict__['%other'] = a\ndef f(**k): return k\nshow(a[0], f(**{'%other': 1}), *a)",
    "a module that wraps itself": "import torch\nfrom torch.nn.parallel import DistributedDataParallel as D\nm = torch.nn.Linear(1, 1)\n"
    "m = D(m)\nm.module = m\nm = D(D(m))\nm.module.module = m\nfor p in m.parameters(): p.grad\n(m(m)).backward()\nshow(m.module)",
    "a model in a model": "import torch\nclass M(torch.nn.Module):\n    def __init__(self, n=0):\n        super().__init__()\n"
    "        self.m = M(n + 1)\n    def forward(self, x): return self.m(self(x))\nM()(M()).backward()\nshow(list(M().modules()))",
    "a loader of itself": "import torch\nfrom torch.utils.data import DataLoader\nl = DataLoader([])\nl.dataset = l\nl.sampler = l\nl = DataLoader(l, sampler=l)\n"
    "for b in l:\n    for c in l: b.loss.backward()\nshow(len(l))",
    "a hook that runs backward": "import torch\np = torch.nn.Parameter(torch.zeros(1))\np.register_hook(lambda g: p.sum().backward())\np.sum().backward()\nshow(1)",
    "an optimizer of itself": "import torch\no = torch.optim.SGD([], 0.1)\no = torch.optim.SGD(o, o)\no.step(o.step)\no.step(lambda: o.step())\nshow(o)",
    "async everything": "import asyncio\nasync def f():\n    async for x in f():\n        async with x as y: yield await y\n    return\n"
    "async def g(): return [x async for x in f() if await x]\nasyncio.run(g())\nshow(1)",
    "star arguments everywhere": "def f(*a, **k): return f(*a, *a, **k, **{'b': k}) if len(a) < 100 else a\nshow(f(1, *[2], x=3))",
    "super in odd places": "super().f()\ndef f(): return super().g\nclass A:\n    x = super()\n    def f(self): return super(A).f, super(1, 2).g, super().f()\nshow(A().f(), f())",
    "names without a value": "show(nothing, nothing.x, nothing(), nothing[0], [*nothing], {**nothing}, -nothing, nothing + 1, f'{nothing}')",
    "an unread everything": "from u import *\nimport u as w\nwith w.a as b, w.c() as (d, e): b[d].e = e\nfor x, y in w: w(x)(y)[w] = w\nshow(~w ** w[w:w:w])",
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_ends(name: str, tmp_path: Path) -> None:
    started = time.process_time()
    run = execute(tmp_path, "from shows import show\n" + PROGRAMS[name])
    describe(run)
    assert time.process_time() - started < SECONDS
