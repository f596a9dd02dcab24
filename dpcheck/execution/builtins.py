"""Python's own functions, containers and strings."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dpcheck.execution import calls, expressions, placement, tensors
from dpcheck.execution import facts as facts_
from dpcheck.execution.facts import CONSTANT, EVEN, EVEN_UNKNOWN, NOTHING, Facts, Site, SourceKind, both, replace
from dpcheck.execution.placement import Kind, Placement
from dpcheck.execution.trail import element_of, join, join_elements
from dpcheck.execution.values import (
    FALSE,
    NONE,
    TRUE,
    Bound,
    Builtin,
    Choice,
    Class,
    ClassMethod,
    Const,
    Content,
    Data,
    Foreign,
    Function,
    Generator,
    Instance,
    Lazy,
    Mapping,
    Partial,
    Property,
    Sequence,
    StaticMethod,
    Value,
)

if TYPE_CHECKING:
    from dpcheck.execution.interpreter import Interpreter

_LONGEST_EXACT = 64

# Packages whose functions neither seed, wrap, shard nor keep what they are given: calling them lets nothing escape.
HARMLESS_PACKAGES = frozenset(
    """
    abc absl accimage albumentations ast asyncio atexit base64 bisect builtins calendar clearml cmath codecs
    collections colorama colorlog comet_ml copyreg csv ctypes cv2 dataclasses datetime decimal decord difflib
    distutils docopt dotenv email enum errno faulthandler fcntl filecmp fileinput filelock fnmatch fractions
    ftfy fvcore gc gdown getpass glob GPUtil gzip h5py hashlib heapq html http huggingface_hub humanize imageio
    importlib importlib_metadata inspect io iopath ipaddress json keyword librosa lightning_utilities linecache
    lmdb locale logging loguru lzma math matplotlib mimetypes mlflow mmap multiprocessing neptune nibabel nltk
    numbers numpy opcode operator orjson os packaging pandas pathlib pickle PIL pkg_resources pkgutil platform
    plistlib pprint prettytable psutil pwd pyarrow pycocotools pynvml queue re regex requests resource rich
    rouge_score sacrebleu scipy select sentencepiece setuptools shelve shlex shutil signal SimpleITK six skimage
    sklearn socket soundfile sqlite3 ssl stat statistics string struct subprocess swanlab sys syslog tabulate
    tarfile tempfile tensorboard tensorboardX termcolor textwrap threading tiktoken time timeit token tokenize
    toml tomllib torchaudio torchinfo tqdm traceback tracemalloc typing typing_extensions unicodedata unittest
    urllib uuid visdom wandb warnings weakref xml yaml zipfile zlib
    """.split()
)
_NUMBER = replace(CONSTANT, type="number", ndim=0)


def find(it: Interpreter, name: str) -> Value | None:
    value = it.builtins.get(name)
    if value is None and name in _FUNCTIONS:
        value = Builtin(name, _FUNCTIONS[name])
        it.builtins[name] = value
    if value is None and name in _TYPES:
        value = Builtin(name, _TYPES[name])
        it.builtins[name] = value
    if value is None and (name.endswith(("Error", "Exception", "Warning")) or name in _EXCEPTIONS):
        value = Builtin(name, lambda it, args, kwargs, site: Data(NOTHING))
        it.builtins[name] = value
    return value


_EXCEPTIONS = {
    "StopIteration",
    "KeyboardInterrupt",
    "SystemExit",
    "GeneratorExit",
    "NotImplemented",
    "Ellipsis",
    "__debug__",
}


# ---------------------------------------------------------------- sequences and mappings


def exact_items(it: Interpreter, value: Value, wanted: int | None) -> list[Value] | None:
    """The elements one by one, where they are known; `wanted`: how many an unpacking asks for."""
    if isinstance(value, Sequence):
        if value.items is not None:
            return value.items
        if value.kind == "shape" and wanted and value.element is not None:
            lead = value.state.get("lead")
            return [lead if isinstance(lead, Value) else value.element, *([value.element] * (wanted - 1))]
        return None
    if isinstance(value, Mapping) and value.other is None:
        return [Const(key) for key in value.entries]
    if isinstance(value, Const) and isinstance(value.value, str) and len(value.value) <= 16:
        return [Const(c) for c in value.value]
    if isinstance(value, Data) and value.facts.parts is not None:
        return [Data(part, value.site) for part in value.facts.parts]
    if isinstance(value, Generator):
        exact = value.state.get("exact")
        return exact if isinstance(exact, list) else None
    if isinstance(value, Instance):
        fields = value.attrs.get("%tuple")
        if isinstance(fields, Sequence) and fields.items is not None:
            return [value.attrs[f.value] for f in fields.items if isinstance(f, Const)]
    return None


def length_facts(it: Interpreter, value: Value) -> Facts | None:
    """What is known of the number of elements of an iterable."""
    if isinstance(value, Sequence):
        return replace(CONSTANT, type="int", ndim=0) if value.items is not None else value.length
    if isinstance(value, Data) and value.facts.type == "tensor":
        return tensors.count_facts(value.facts, value.facts.lead)
    if isinstance(value, Generator):
        over = value.state.get("over")
        return length_facts(it, over) if isinstance(over, Value) else None
    return None


def any_entry(value: Mapping) -> Value | None:
    found = value.other
    for entry in value.entries.values():
        found = entry if found is None else join_elements(found, entry)
    return found


def key_of(it: Interpreter, value: Mapping) -> Value:
    known = element_of(Content([Const(key) for key in value.entries]))
    if value.other is not None or known is None:
        keys = value.state["keys"]
        return keys if isinstance(keys, Value) else Data(replace(CONSTANT, type="str"))
    return known


def put(it: Interpreter, mapping: Mapping, key: Value, value: Value) -> None:
    """`mapping[key] = value`."""
    if isinstance(key, Const) and isinstance(key.value, (str, int, bool, float, type(None))):
        entries = dict(mapping.entries)
        entries[key.value] = value
        if len(entries) <= 300:
            it.trail.set(mapping.state, "entries", entries)
            return
    if isinstance(key, Choice):
        for option in key.options:
            if isinstance(option, Const) and isinstance(option.value, (str, int)):
                entries = dict(mapping.entries)
                old = entries.get(option.value)
                entries[option.value] = value if old is None else join(old, value)
                it.trail.set(mapping.state, "entries", entries)
        return
    other = mapping.other
    it.trail.set(mapping.state, "other", value if other is None else join_elements(other, value))
    it.trail.set(mapping.state, "keys", key)


def update_mapping(it: Interpreter, mapping: Mapping, value: Value) -> None:
    if isinstance(value, Mapping):
        it.trail.set(mapping.state, "entries", {**mapping.entries, **value.entries})
        if value.other is not None:
            put(it, mapping, Data(NOTHING), value.other)
    elif isinstance(value, Choice):
        for option in value.options:
            update_mapping(it, mapping, option)
    elif not (isinstance(value, Const) and value.value is None):
        put(it, mapping, Data(NOTHING), Data(NOTHING))


def append(it: Interpreter, sequence: Sequence, value: Value) -> None:
    items = sequence.items
    if items is not None and not it.loops and len(items) < _LONGEST_EXACT:
        it.trail.set(sequence.state, "content", Content([*items, value]))
        return
    if items is not None and it.loops and len(items) < _LONGEST_EXACT and not _born_in_loop(it, sequence):
        items = None
    elif items is not None and len(items) < _LONGEST_EXACT:
        it.trail.set(sequence.state, "content", Content([*items, value]))
        return
    old = element_of(sequence.content)
    element = value if old is None else join_elements(old, value)
    length = sequence.length if sequence.items is None else None
    it.trail.set(sequence.state, "content", Content(None, element, length or loop_length(it)))


def _born_in_loop(it: Interpreter, sequence: Sequence) -> bool:
    """Was the list made in the pass of the innermost loop that is now under way?"""
    return sequence.state.get("loop") is (it.loops[-1] if it.loops else None)


def loop_length(it: Interpreter) -> Facts | None:
    """How many elements a list has that one pass of the current loop makes longer by one."""
    if not it.loops:
        return None
    over = it.loops[-1].over
    facts = length_facts(it, over) if over is not None else None
    if any(g.facts.place.is_local or g.facts.total.is_uneven for g in it.guards):
        return None
    return facts


def extend(it: Interpreter, sequence: Sequence, value: Value) -> None:
    known = exact_items(it, value, None)
    items = sequence.items
    short = known is not None and items is not None and len(items) + len(known) <= _LONGEST_EXACT
    if known is not None and items is not None and short and not (it.loops and not _born_in_loop(it, sequence)):
        it.trail.set(sequence.state, "content", Content([*items, *known]))
        return
    joined = concatenated(it, sequence, value)
    it.trail.set(sequence.state, "content", joined.content)


def concatenated(it: Interpreter, a: Sequence, b: Value) -> Sequence:
    known = exact_items(it, b, None)
    if a.items is not None and known is not None and len(a.items) + len(known) <= _LONGEST_EXACT:
        return Sequence([*a.items, *known], a.kind, site=a.site)
    first = element_of(a.content)
    second = element_of(b.content) if isinstance(b, Sequence) else calls.element(it, b)
    if first is None:
        element = second
    elif second is None:
        element = first
    else:
        element = join(first, second)
    result = Sequence(None, a.kind, element, _added_lengths(it, a, b), a.site)
    marks = [_length_of(it, part) for part in (a, b)]
    varying = next((m.total for m in marks if m is not None and m.total.is_uneven), None)
    if varying is not None:
        result.state["uneven parts"] = varying
    return result


def _length_of(it: Interpreter, value: Value) -> Facts | None:
    return length_facts(it, value)


def _added_lengths(it: Interpreter, a: Value, b: Value) -> Facts | None:
    """The length of a concatenation. What is filled up to a length has that length (`ids + [0] * (n - len(ids))`)."""
    for part, filler in ((a, b), (b, a)):
        if isinstance(filler, Sequence):
            amount = filler.state.get("times")
            if isinstance(amount, Data) and type(amount.identity) is tuple and amount.identity[0] == "rest":
                whole = amount.identity[2]
                if amount.identity[1] == ("len", part) or _same_length(it, amount.identity[1], part):
                    return replace(expressions.facts_of(it, whole), type="int", ndim=0)
    x, y = length_facts(it, a), length_facts(it, b)
    if x is None or y is None:
        return x if x is not None and x.total.is_uneven else y if y is not None and y.total.is_uneven else None
    return replace(x if x.total.is_uneven else y, total=both(x.total, y.total), ndim=0)


def _same_length(it: Interpreter, identity: object, part: Value) -> bool:
    if type(identity) is not tuple or len(identity) != 2:
        return False
    other = identity[1]
    if not isinstance(other, Sequence) or not isinstance(part, Sequence):
        return False
    # A label list is often filled up by the length of the token list that it was made beside.
    return other.length is not None and other.length is part.length


def set_of(items: list[Value], site: Site | None) -> Sequence:
    """A set of these; how many it holds is known where they are constants."""
    if len(items) > 1 and not all(isinstance(item, Const) for item in items):
        return Sequence(None, "set", element_of(Content(items)), site=site)
    unique = {(type(i.value), i.value) if isinstance(i, Const) else id(i): i for i in reversed(items)}
    return Sequence(list(unique.values())[::-1], "set", site=site)


def sequence_operator(it: Interpreter, op: str, a: Value, b: Value, site: Site) -> Value | None:
    if op == "+" and isinstance(a, Sequence) and isinstance(b, (Sequence, Data)):
        if isinstance(b, Data) and b.facts.type == "tensor":
            return None
        return concatenated(it, a, b)
    if op == "+" and isinstance(b, Sequence) and isinstance(a, Data) and a.facts.type != "tensor":
        left = Sequence(None, "list", calls.element(it, a))
        return concatenated(it, left, b)
    if op == "*":
        sequence, times = (a, b) if isinstance(a, Sequence) else (b, a)
        if isinstance(sequence, Sequence):
            if isinstance(times, Const) and isinstance(times.value, int) and sequence.items is not None:
                if 0 <= times.value * len(sequence.items) <= 16:
                    return Sequence(sequence.items * times.value, sequence.kind, site=site)
            facts = expressions.facts_of(it, times)
            result = Sequence(None, sequence.kind, element_of(sequence.content), replace(facts, type="int"), site)
            result.state["times"] = times
            return result
    if op in ("-", "&", "|", "^"):
        first = a if isinstance(a, Sequence) else b
        if isinstance(first, Sequence) and first.kind == "set":
            return Sequence(None, "set", element_of(first.content), site=site)
    return None


def contains(it: Interpreter, a: Value, b: Value) -> bool | None:
    """`a in b`, None when not known."""
    if isinstance(b, Mapping):
        if isinstance(a, Const):
            if a.value in b.entries:
                return True
            return False if b.other is None else None
        return None
    if isinstance(b, Sequence) and b.items is not None:
        answers = [expressions.equal(it, a, item) for item in b.items]
        if True in answers:
            return True
        return None if None in answers else False
    if isinstance(b, Instance):
        method = b.cls.lookup("__contains__")
        if method is not None:
            return it.truth(calls.call(it, calls.bind(b, method), [a], {}, it.site(0)))
    return None


def get_item(it: Interpreter, value: Value, index: Value, site: Site) -> Value:
    if isinstance(value, Choice):
        result: Value | None = None
        for option in value.options:
            if isinstance(option, Const) and option.value is None:
                continue
            one = get_item(it, option, index, site)
            result = one if result is None else join(result, one)
        return result or Data(NOTHING)
    if isinstance(value, Sequence):
        return _sequence_item(it, value, index, site)
    if isinstance(value, Mapping):
        return _mapping_item(it, value, index)
    if isinstance(value, Data):
        return tensors.get_item(it, value, index, site)
    if isinstance(value, Instance):
        method = value.cls.lookup("__getitem__")
        if method is not None:
            return calls.call(it, calls.bind(value, method), [index], {}, site)
        items = exact_items(it, value, None)
        if items is not None and isinstance(index, Const) and isinstance(index.value, int) and index.value < len(items):
            return items[index.value]
        return Data(NOTHING, site)
    if isinstance(value, Const) and isinstance(value.value, str):
        if isinstance(index, Const) and isinstance(index.value, int):
            return Const(value.value[index.value]) if -len(value.value) <= index.value < len(value.value) else NONE
        bounds = index.items if isinstance(index, Sequence) and index.kind == "slice" else None
        if bounds and all(isinstance(b, Const) and isinstance(b.value, (int, type(None))) for b in bounds):
            lower, upper, step = (b.value for b in bounds if isinstance(b, Const))
            return Const(value.value[lower:upper:step]) if step != 0 else NONE
        return Data(replace(CONSTANT, type="str"), site)
    if isinstance(value, (Class, Builtin, Foreign)):
        return value  # a generic alias: `list[int]`, `Dataset[T]`
    if isinstance(value, Generator):
        return calls.element(it, value)
    return Data(NOTHING, site)


def _sequence_item(it: Interpreter, value: Sequence, index: Value, site: Site) -> Value:
    items = value.items
    if isinstance(index, Const) and isinstance(index.value, int):
        if items is not None:
            return items[index.value] if -len(items) <= index.value < len(items) else Data(NOTHING, site)
        if value.kind == "shape" and index.value == 0 and isinstance(value.state.get("lead"), Value):
            lead: Value = value.state["lead"]
            return lead
        return value.element or Data(NOTHING, site)
    if isinstance(index, Sequence) and index.kind == "slice":
        return _sequence_slice(it, value, index, site)
    element = element_of(value.content)
    if element is None:
        return Data(NOTHING, site)
    return placed_by(it, element, expressions.facts_of(it, index), site)


def placed_by(it: Interpreter, element: Value, by: Facts, site: Site) -> Value:
    """An element picked by an index: this rank's own where the index is."""
    if by.place.is_replicate and not by.sources:
        return element
    if isinstance(element, Data):
        facts = element.facts
        place = facts.place
        if place.is_replicate and by.place.is_local:
            place = placement.SHARD
        return Data(replace(facts, place=place, sources=facts.sources | by.sources), element.site)
    if isinstance(element, Sequence):
        if element.items is not None:
            return Sequence([placed_by(it, item, by, site) for item in element.items], element.kind, site=element.site)
        inner = placed_by(it, element.element, by, site) if element.element is not None else None
        return _alike(element, inner)
    if isinstance(element, Mapping):
        other = placed_by(it, element.other, by, site) if element.other is not None else None
        return Mapping({k: placed_by(it, v, by, site) for k, v in element.entries.items()}, other, element.site)
    if isinstance(element, Choice):
        parts = [placed_by(it, option, by, site) for option in element.options]
        result = parts[0]
        for part in parts[1:]:
            result = join(result, part)
        return result
    if isinstance(element, Const) and by.place.is_local and isinstance(element.value, (int, float, str)):
        return element
    return element


def _alike(sequence: Sequence, element: Value | None) -> Sequence:
    """A sequence of the same length with other elements."""
    result = Sequence(None, sequence.kind, element, sequence.length, sequence.site)
    for key in ("uneven parts", "times"):
        if key in sequence.state:
            result.state[key] = sequence.state[key]
    return result


def _sequence_slice(it: Interpreter, value: Sequence, index: Sequence, site: Site) -> Value:
    items, bounds = value.items, index.items or []
    if items is not None and all(isinstance(b, Const) and isinstance(b.value, (int, type(None))) for b in bounds):
        lower, upper, step = (b.value for b in bounds if isinstance(b, Const))
        if step != 0:
            return Sequence(items[slice(lower, upper, step)], value.kind, site=value.site)
    element = element_of(value.content)
    facts = [expressions.facts_of(it, b) for b in bounds if not isinstance(b, Const)]
    by_rank = [f for f in facts if f.has(SourceKind.RANK) or f.place.is_local]
    result = Sequence(None, value.kind, element, None, site)
    if by_rank and element is not None:
        merged = tensors.elementwise(by_rank)
        result = Sequence(
            None, value.kind, placed_by(it, element, replace(merged, place=placement.SHARD), site), None, site
        )
        result.state["by rank"] = site
    uneven_bound = next((f.total for f in facts if f.total.is_uneven), None)
    if uneven_bound is not None:
        length: Facts | None = replace(_NUMBER, place=placement.PARTIAL, total=uneven_bound)
    elif items is None and facts == [] and value.length is not None and value.length.total.is_uneven:
        length = value.length
    else:
        length = None
    return Sequence(None, value.kind, result.element, length, site)


def _mapping_item(it: Interpreter, value: Mapping, index: Value) -> Value:
    if isinstance(index, Const):
        try:
            found = value.entries.get(index.value)
        except TypeError:
            found = None
        if found is not None:
            return it.force(found)
        return value.other if value.other is not None else Data(NOTHING)
    if isinstance(index, Data) and isinstance(index.default, Const) and index.default.value in value.entries:
        # A registry looked up by an option: the run with the option's default stands for the others.
        return it.force(value.entries[index.default.value])
    if isinstance(index, Choice) and all(isinstance(o, Const) for o in index.options):
        result: Value | None = None
        for option in index.options:
            one = _mapping_item(it, value, option)
            result = one if result is None else join(result, one)
        return result or Data(NOTHING)
    if any(isinstance(entry, Lazy) for entry in value.entries.values()):
        return Data(NOTHING)
    return any_entry(value) or Data(NOTHING)


def set_item(it: Interpreter, owner: Value, index: Value, value: Value, site: Site) -> None:
    if isinstance(owner, Mapping):
        put(it, owner, index, value)
    elif isinstance(owner, Sequence):
        items = owner.items
        if items is not None and isinstance(index, Const) and isinstance(index.value, int):
            if -len(items) <= index.value < len(items):
                changed = list(items)
                changed[index.value] = value
                it.trail.set(owner.state, "content", Content(changed))
                return
        old = element_of(owner.content)
        new = calls.element(it, value) if isinstance(index, Sequence) and index.kind == "slice" else value
        element = tensors.own_slot(it, old, index, new) or (new if old is None else join_elements(old, new))
        length = owner.length if items is None else replace(_NUMBER, type="int")
        it.trail.set(owner.state, "content", Content(None, element, length))
    elif isinstance(owner, Data):
        tensors.set_item(it, owner, index, value, site)
    elif isinstance(owner, Instance):
        method = owner.cls.lookup("__setitem__")
        if method is not None:
            calls.call(it, calls.bind(owner, method), [index, value], {}, site)
    elif isinstance(owner, Choice):
        for option in owner.options:
            set_item(it, option, index, value, site)


def delete_item(it: Interpreter, owner: Value, index: Value) -> None:
    if isinstance(owner, Mapping):
        if isinstance(index, Const) and index.value in owner.entries:
            it.trail.set(owner.state, "entries", {k: v for k, v in owner.entries.items() if k != index.value})
    elif isinstance(owner, Sequence):
        _remove_at(it, owner, index)
    elif isinstance(owner, Instance):
        method = owner.cls.lookup("__delitem__")
        if method is not None:
            calls.call(it, calls.bind(owner, method), [index], {}, it.site(0))


def _remove_at(it: Interpreter, sequence: Sequence, index: Value) -> Value | None:
    """Take an item out of a list; answers it if it is known which one that is."""
    items = sequence.items
    if items is None:
        return None
    known = isinstance(index, Const) and isinstance(index.value, int) and -len(items) <= index.value < len(items)
    if not known or (it.loops and not _born_in_loop(it, sequence)):
        # In a loop it is another item in each pass.
        it.trail.set(sequence.state, "content", Content(None, element_of(sequence.content)))
        return None
    assert isinstance(index, Const)
    rest = list(items)
    removed = rest.pop(index.value)
    it.trail.set(sequence.state, "content", Content(rest))
    return removed


# ---------------------------------------------------------------- methods of built-in values


def method(it: Interpreter, value: Value, name: str, site: Site) -> Value:
    if isinstance(value, Generator):
        return Builtin(name, lambda it, args, kwargs, site: Data(NOTHING))
    table: dict[str, Callable[..., Value]]
    if isinstance(value, Mapping):
        table = _MAPPING_METHODS
    elif isinstance(value, Sequence):
        if value.kind == "shape" and name == "numel":
            return Builtin(name, lambda it, args, kwargs, site: calls.element(it, value))
        table = _SEQUENCE_METHODS
    elif isinstance(value, Const) and name == "value":
        return value  # a member of an enumeration
    elif isinstance(value, Const) and isinstance(value.value, str):
        return Builtin(name, lambda it, args, kwargs, site: _string_method(it, value, name, args, kwargs, site))
    elif isinstance(value, Const) and name in ("item", "tolist", "float", "int", "detach", "cpu", "numpy"):
        return Builtin(name, lambda it, args, kwargs, site: value)
    elif isinstance(value, Const) and value.value is not None and not isinstance(value.value, str):
        data = Data(replace(expressions.facts_of(it, value)), site)
        return tensors.attribute(it, data, name, site)
    else:
        return Data(NOTHING)
    function = table.get(name)
    if function is None and isinstance(value, Mapping) and name in value.entries:
        return value.entries[name]  # a batch or a configuration whose entries are attributes too
    if function is None:
        return Builtin(name, lambda it, args, kwargs, site: Data(NOTHING))
    return Builtin(name, lambda it, args, kwargs, site: function(it, value, args, kwargs, site))


def _append(it: Interpreter, value: Sequence, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    if args:
        append(it, value, args[-1])
    return NONE


def _extend(it: Interpreter, value: Sequence, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    if args:
        extend(it, value, args[0])
    return NONE


def _insert(it: Interpreter, value: Sequence, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    if not args:
        return NONE
    append(it, value, args[-1])
    items = value.items
    where = args[0] if len(args) > 1 else Const(0)
    if items is not None and isinstance(where, Const) and isinstance(where.value, int):
        moved = list(items[:-1])
        moved.insert(max(min(where.value, len(moved)), -len(moved)), items[-1])
        it.trail.set(value.state, "content", Content(moved))
    return NONE


def _pop(it: Interpreter, value: Sequence, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    some = element_of(value.content) or Data(NOTHING)
    return _remove_at(it, value, args[0] if args else Const(-1)) or some


def _pop_left(it: Interpreter, value: Sequence, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    return _pop(it, value, [Const(0)], {}, site)


def _remove(it: Interpreter, value: Sequence, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    answers = [expressions.equal(it, item, args[0]) for item in value.items or []] if args else []
    first = answers.index(True) if True in answers and None not in answers[: answers.index(True)] else None
    _remove_at(it, value, Const(first))
    return NONE


def _clear(it: Interpreter, value: Sequence, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    it.trail.set(value.state, "content", Content([]))
    return NONE


def _reverse(it: Interpreter, value: Sequence, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    if value.items is not None:
        it.trail.set(value.state, "content", Content(value.items[::-1]))
    return NONE


def _sort(it: Interpreter, value: Sequence, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    if value.items is not None:
        it.trail.set(value.state, "content", _ordered(value.items, kwargs).content)
    return NONE


def _ordered(items: list[Value], kwargs: dict[str, Value]) -> Sequence:
    """The items sorted, if their order can be told."""
    known = [item for item in items if isinstance(item, Const)]
    if not kwargs and len(known) == len(items):
        try:
            known.sort(key=lambda item: item.value)
            return Sequence(list[Value](known))
        except TypeError:
            pass
    return Sequence(list(items)) if len(items) < 2 else Sequence(None, element=element_of(Content(items)))


def _copy_sequence(it: Interpreter, value: Sequence, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    return Sequence(value.items, value.kind, value.element, value.length, value.site)


def _shuffle_none(it: Interpreter, value: Sequence, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    return NONE


def _index_of(it: Interpreter, value: Sequence, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    return Data(replace(_NUMBER, type="int"), site)


_SEQUENCE_METHODS: dict[str, Callable[..., Value]] = {
    "append": _append, "add": _append, "insert": _insert, "appendleft": _insert, "extend": _extend, "update": _extend,
    "pop": _pop, "popleft": _pop_left, "copy": _copy_sequence, "sort": _sort, "reverse": _reverse,
    "clear": _clear, "remove": _remove, "discard": _remove, "index": _index_of, "count": _index_of,
}  # fmt: skip


def _get(it: Interpreter, value: Mapping, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    default = args[1] if len(args) > 1 else kwargs.get("default", NONE)
    key = args[0] if args else NONE
    if isinstance(key, Data) and isinstance(key.default, Const):
        key = key.default
    if isinstance(key, Const):
        found = value.entries.get(key.value)
        if found is not None:
            return it.force(found)
        return default if value.other is None else join(value.other, default)
    return join(any_entry(value) or default, default)


def _pop_key(it: Interpreter, value: Mapping, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    result = _get(it, value, args, kwargs, site)
    if args and isinstance(args[0], Const) and args[0].value in value.entries:
        it.trail.set(value.state, "entries", {k: v for k, v in value.entries.items() if k != args[0].value})
    return result


def _set_default(it: Interpreter, value: Mapping, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    default = args[1] if len(args) > 1 else NONE
    key = args[0] if args else NONE
    if isinstance(key, Const) and key.value in value.entries:
        return value.entries[key.value]
    put(it, value, key, default)
    return default


def _keys(it: Interpreter, value: Mapping, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    if value.other is None:
        return Sequence([Const(key) for key in value.entries])
    return Sequence(None, "list", key_of(it, value))


def _values(it: Interpreter, value: Mapping, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    if value.other is None:
        return Sequence(list(value.entries.values()))
    return Sequence(None, "list", any_entry(value))


def _items(it: Interpreter, value: Mapping, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    if value.other is None:
        return Sequence([Sequence([Const(k), v], "tuple") for k, v in value.entries.items()])
    return Sequence(None, "list", Sequence([key_of(it, value), any_entry(value) or NONE], "tuple"))


def _update(it: Interpreter, value: Mapping, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    for arg in args:
        update_mapping(it, value, arg)
    for key, item in kwargs.items():
        put(it, value, Const(key), item)
    return NONE


def _copy_mapping(it: Interpreter, value: Mapping, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    return Mapping(dict(value.entries), value.other, value.site)


def _to_batch(it: Interpreter, value: Mapping, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    """`batch.to(device)` of a dictionary-like batch."""
    return value


_MAPPING_METHODS: dict[str, Callable[..., Value]] = {
    "get": _get, "pop": _pop_key, "setdefault": _set_default, "keys": _keys, "values": _values, "items": _items,
    "update": _update, "copy": _copy_mapping, "to": _to_batch,
}  # fmt: skip


def _is_handy(text: str, name: str, values: list[Any]) -> bool:
    """Is what the method makes of a text short, whatever somebody wrote?"""
    if name == "format" and not expressions.is_plain_format(text):
        return False
    length = len(text) + 1
    for value in values:
        length *= len(value) + 1 if isinstance(value, str) else 1
    return length <= expressions.LONGEST_TEXT and all(not isinstance(v, int) or v < 1000 for v in values)


def _string_method(
    it: Interpreter, value: Const, name: str, args: list[Value], kwargs: dict[str, Value], site: Site
) -> Value:
    if name == "join" and args:
        known = exact_items(it, args[0], None)
        texts = [p.value for p in known or () if isinstance(p, Const) and isinstance(p.value, str)]
        length = sum(len(text) + len(value.value) for text in texts)
        if known is not None and len(texts) == len(known) and length <= expressions.LONGEST_TEXT:
            return Const(value.value.join(texts))
        facts = expressions.facts_of(it, calls.element(it, args[0]))
        return Data(replace(facts_.without_gradient(facts), type="str"), site)
    plain = [a.value for a in args if isinstance(a, Const)]
    named = {key: a.value for key, a in kwargs.items() if isinstance(a, Const)}
    if (
        len(plain) == len(args)
        and len(named) == len(kwargs)
        and _is_handy(value.value, name, [*plain, *named.values()])
    ):
        try:
            result = getattr(value.value, name)(*plain, **named)
        except Exception:
            return Data(NOTHING)
        if isinstance(result, (list, tuple)):
            return Sequence(
                [Const(r) for r in result[:_LONGEST_EXACT]], "list" if isinstance(result, list) else "tuple"
            )
        if isinstance(result, (str, int, bool, float, bytes)):
            return Const(result)
        return Data(NOTHING)
    facts = tensors.elementwise([expressions.facts_of(it, a) for a in (*args, *kwargs.values())] or [CONSTANT])
    return Data(
        replace(facts, type="bool" if name in ("startswith", "endswith") else "str", grad=False, terms=()), site
    )


# ---------------------------------------------------------------- functions


def _len(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    value = args[0] if args else NONE
    if isinstance(value, Sequence):
        if value.items is not None:
            return Const(len(value.items))
        facts = (
            value.length if value.length is not None else replace(_NUMBER, place=placement.UNKNOWN, total=EVEN_UNKNOWN)
        )
        if value.length is not None and facts.total.is_uneven and facts.place.is_replicate:
            facts = replace(facts, place=placement.PARTIAL)
        result = Data(replace(facts, type="int", ndim=0), site)
        result.identity = ("len", value)
        return result
    if isinstance(value, Mapping) and value.other is None:
        return Const(len(value.entries))
    if isinstance(value, Const) and isinstance(value.value, (str, bytes)):
        return Const(len(value.value))
    if isinstance(value, Data):
        facts = value.facts
        if facts.type == "tensor":
            result = Data(tensors.count_facts(facts, facts.lead), site)
        else:
            place = placement.UNKNOWN if facts.place.is_unknown else facts.place
            result = Data(
                Facts(place, type="int", total=facts.lead, sources=facts.sources, lead=EVEN, rest=EVEN, ndim=0), site
            )
        result.identity = ("len", value)
        return result
    if isinstance(value, Instance) and value.cls.lookup("__len__") is not None:
        return calls.call_method(it, value, "__len__", [], {}, site)
    return Data(replace(NOTHING, type="int", ndim=0), site)


def _range(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    if all(isinstance(a, Const) and isinstance(a.value, int) for a in args) and args:
        try:
            count: Value = Const(len(range(*(a.value for a in args if isinstance(a, Const)))))
        except (OverflowError, TypeError, ValueError):
            count = Data(CONSTANT)
        result = Sequence(None, "range", expressions.counter(it, site), replace(_NUMBER, type="int"), site)
        result.state["count"] = count
        return result
    bounds = [expressions.facts_of(it, a) for a in args] or [NOTHING]
    stop = bounds[1] if len(bounds) > 1 else bounds[0]
    element = expressions.counter(it, site)
    by_rank = [b for b in bounds if b.has(SourceKind.RANK)]
    if by_rank:
        facts = replace(
            element.facts, place=placement.SHARD, sources=element.facts.sources.union(*(b.sources for b in by_rank))
        )
        element = Data(facts, site)
    length = stop if len(args) == 1 else replace(stop, total=both(stop.total, bounds[0].total))
    result = Sequence(None, "range", element, replace(length, type="int"), site)
    result.state["count"] = args[0] if len(args) == 1 else Data(NOTHING)
    if by_rank:
        result.state["by rank"] = site
    return result


def _enumerate(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    value = args[0] if args else NONE
    known = exact_items(it, value, None)
    start = args[1] if len(args) > 1 else kwargs.get("start", Const(0))
    if known is not None and isinstance(start, Const) and isinstance(start.value, int) and len(known) <= 24:
        return Sequence([Sequence([Const(start.value + i), item], "tuple") for i, item in enumerate(known)])
    index = expressions.counter(it, site)

    def run(take: Callable[[Value], Value]) -> None:
        calls.iterate(it, value, lambda item: take(Sequence([index, item], "tuple")), site)

    return over(Generator(run), value)


def over(generator: Generator, value: Value) -> Generator:
    """A generator that goes once through `value` and passes on each element in some form."""
    generator.state["over"] = value
    return generator


def _zip(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    known = [exact_items(it, a, None) for a in args]
    if all(k is not None for k in known) and known:
        rows = list(zip(*[k for k in known if k is not None], strict=False))
        if len(rows) <= _LONGEST_EXACT:
            return Sequence([Sequence(list(row), "tuple") for row in rows])
    if not args:
        return Sequence([])
    star = _starred(it, args)
    if star is not None:
        return star

    def run(take: Callable[[Value], Value]) -> None:
        others = [calls.element(it, a) for a in args[1:]]
        calls.iterate(it, args[0], lambda item: take(Sequence([item, *others], "tuple")), site)

    return over(Generator(run), args[0])


def _starred(it: Interpreter, args: list[Value]) -> Value | None:
    return None


def zip_of_many(it: Interpreter, value: Value, site: Site) -> Value:
    """`zip(*rows)` of rows of one shape: a tuple of columns, each as long as there are rows."""
    row = calls.element(it, value)
    length = length_facts(it, value)
    width = exact_items(it, row, None)
    if width is None:
        inner = calls.element(it, row)
        return Sequence(None, "tuple", Sequence(None, "tuple", inner, length))
    return Sequence([Sequence(None, "tuple", item, length) for item in width], "tuple")


def _map_function(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    if len(args) < 2:
        return Data(NOTHING)
    known = exact_items(it, args[1], None)
    if known is not None and len(args) == 2 and len(known) <= 24:
        return Sequence([calls.call(it, args[0], [item], {}, site) for item in known])
    rows = [calls.element(it, a) for a in args[1:]]
    return Sequence(None, "list", calls.call(it, args[0], rows, {}, site), length_facts(it, args[1]))


def _filter(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    if len(args) < 2:
        return Data(NOTHING)
    known = element_of(Content(exact_items(it, args[1], None))) if exact_items(it, args[1], None) is not None else None
    return Sequence(None, "list", known if known is not None else calls.element(it, args[1]))


def _sum(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    """`sum(xs)`: of known addends one by one; of this rank's many, the local total."""
    if not args:
        return Const(0)
    start = args[1] if len(args) > 1 else kwargs.get("start")
    if isinstance(args[0], Sequence) and args[0].items is None and start is not None and isinstance(start, Sequence):
        inner = element_of(args[0].content)
        return Sequence(None, "list", calls.element(it, inner) if inner is not None else None)
    known = exact_items(it, args[0], None)
    if known is not None:
        total: Value = Const(0)
        for item in known:
            total = (
                item
                if isinstance(total, Const) and total.value == 0
                else expressions.binary(it, "+", total, item, site)
            )
        return total
    element = calls.element(it, args[0])
    length = length_facts(it, args[0])
    facts = expressions.facts_of(it, element)
    return Data(summed(facts, length, site), site)


def summed(facts: Facts, length: Facts | None, site: Site) -> Facts:
    """The facts of a sum of many alike addends."""
    place = facts.place
    if length is not None and length.place.world == 1 and place.is_replicate:
        # One addend a rank: a sum over the ranks.
        terms = tuple(
            dataclasses.replace(t, place=Placement(Kind.REPLICATE, world=t.place.world + 1))
            if t.place.is_replicate
            else t
            for t in facts.terms
        )
        facts = replace(facts, terms=terms)
        return replace(
            facts, place=Placement(Kind.REPLICATE, world=place.world + 1), reduced=facts.reduced or site, total=EVEN
        )
    if facts.place.is_local and facts.place.spread:
        place = placement.total(facts.place)
    total = both(facts.total, length.total) if length is not None else facts.total
    if facts.total.is_uneven:
        total = facts.total
    if place.is_replicate and total.is_uneven and length is not None and length.place.is_local:
        place = placement.PARTIAL
    terms = tuple(
        t if not (t.place.is_local and t.place.spread) else dataclasses.replace(t, place=placement.total(t.place))
        for t in facts.terms
    )
    return replace(facts, place=place, total=total, terms=terms)


def _max(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    """max, min: a count that is kept at least one stays that count; the longest of this batch differs between ranks."""
    values = args
    if len(args) == 1:
        known = exact_items(it, args[0], None)
        if known is None:
            element = calls.element(it, args[0])
            facts = expressions.facts_of(it, element)
            if facts.total.is_uneven:
                text = "the longest of this rank's batch"
                even = facts_.uneven(*facts.total.evidence, facts_.Evidence(site, text))
                return Data(replace(facts, place=placement.Placement(Kind.LOCAL), total=even, ndim=0), site)
            return Data(replace(facts, ndim=0), site)
        values = known
    if not values:
        return Data(NOTHING)
    if all(isinstance(v, Const) for v in values):
        try:
            return Const(max(v.value for v in values if isinstance(v, Const)))
        except TypeError:
            return Data(CONSTANT)
    data = [v for v in values if not isinstance(v, Const)]
    if len(data) == 1:
        one = data[0]
        return Data(expressions.facts_of(it, one), one.site if isinstance(one, Data) else site)
    return Data(tensors.elementwise([expressions.facts_of(it, v) for v in data]), site)


def _min(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    values = args if len(args) > 1 else (exact_items(it, args[0], None) or []) if args else []
    if values and all(isinstance(v, Const) for v in values):
        try:
            return Const(min(v.value for v in values if isinstance(v, Const)))
        except TypeError:
            return Data(CONSTANT)
    return _max(it, args, kwargs, site)


def _number(kind: type) -> Callable[..., Value]:
    def convert(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
        value = args[0] if args else Const(kind())
        if isinstance(value, Choice):
            parts = [convert(it, [option], {}, site) for option in value.options]
            result = parts[0]
            for part in parts[1:]:
                result = join(result, part)
            return result
        if isinstance(value, Const):
            try:
                return Const(kind(value.value), value.site)
            except (TypeError, ValueError, OverflowError):
                return Data(CONSTANT)
        facts = expressions.facts_of(it, value)
        result = Data(
            replace(facts_.without_gradient(facts), type=kind.__name__, ndim=0),
            value.site if isinstance(value, Data) else site,
        )
        if isinstance(value, Data):
            result.identity = value.identity
            result.default = value.default
        return result

    return convert


def _boolean(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    if not args:
        return FALSE
    truth = it.truth(args[0])
    if truth is not None:
        return TRUE if truth else FALSE
    result = Data(tensors.test_facts([expressions.facts_of(it, args[0])]), site)
    if isinstance(args[0], Data):
        result.identity = args[0].identity
    return result


def _string(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    value = args[0] if args else Const("")
    if isinstance(value, Const):
        return Const(str(value.value))
    facts = expressions.facts_of(it, value)
    result = Data(replace(facts, type="str", grad=False, terms=()), site)
    if isinstance(value, Data):
        result.identity = value.identity
    return result


def _collect(kind: str) -> Callable[..., Value]:
    def collect(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
        if not args:
            made = Sequence([], kind, site=site)
            made.state["loop"] = it.loops[-1] if it.loops else None
            return made
        value = args[0]
        known = exact_items(it, value, None)
        if known is not None:
            return set_of(known, site) if kind == "set" else Sequence(list(known), kind, site=site)
        if isinstance(value, Data) and value.facts.type == "tensor":
            return Sequence(
                None, kind, tensors.row(it, value, site), tensors.count_facts(value.facts, value.facts.lead), site
            )
        length = length_facts(it, value)
        result = Sequence(None, kind, calls.element(it, value), length, site)
        if isinstance(value, Sequence):
            for key in ("uneven parts", "by rank", "count"):
                if key in value.state:
                    result.state[key] = value.state[key]
        if kind == "set" and not isinstance(value, Const):
            result.state["unordered"] = site
        return result

    return collect


def _sorted(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    if not args:
        return Sequence([])
    known = exact_items(it, args[0], None)
    if known is not None and len(known) <= _LONGEST_EXACT:
        ordered = _ordered(known, kwargs)
        return Sequence(ordered.items, "list", ordered.element, replace(_NUMBER, type="int"), site)
    return Sequence(None, "list", calls.element(it, args[0]), length_facts(it, args[0]), site)


def _reversed(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    known = exact_items(it, args[0], None) if args else []
    return Sequence(known[::-1], site=site) if known is not None else _sorted(it, args, {}, site)


def _dict(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    result = Mapping(dict(kwargs), site=site)
    if args:
        known = exact_items(it, args[0], None)
        if isinstance(args[0], Mapping) or known is None:
            update_mapping(it, result, args[0])
        else:
            for pair in known:
                parts = exact_items(it, pair, 2)
                if parts is not None and len(parts) == 2:
                    put(it, result, parts[0], parts[1])
    return result


def _isinstance(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    if len(args) < 2:
        return Data(NOTHING)
    answer = is_instance(it, args[0], args[1])
    if answer is not None:
        return TRUE if answer else FALSE
    return Data(tensors.test_facts([expressions.facts_of(it, args[0])]), site)


def is_instance(it: Interpreter, value: Value, classes: Value) -> bool | None:
    if isinstance(value, Choice):
        answers = {is_instance(it, option, classes) for option in value.options}
        return answers.pop() if len(answers) == 1 else None
    names = list(classes.items or []) if isinstance(classes, Sequence) else [classes]
    results = [_is_one(it, value, it.force(cls)) for cls in names]
    if True in results:
        return True
    return None if None in results else False


def _is_one(it: Interpreter, value: Value, cls: Value) -> bool | None:
    if isinstance(value, Instance):
        if isinstance(cls, Class):
            if cls in value.cls.mro:
                return True
            return None if value.cls.is_opaque else False
        return False if isinstance(cls, Builtin) else None
    if isinstance(cls, Builtin):
        kinds: dict[str, tuple[type, ...]] = {
            "int": (int,),
            "float": (float,),
            "str": (str,),
            "bool": (bool,),
            "dict": (),
            "list": (),
            "tuple": (),
        }
        if isinstance(value, Const) and cls.name in kinds:
            return isinstance(value.value, kinds[cls.name])
        if isinstance(value, Sequence):
            return cls.name == value.kind
        if isinstance(value, Mapping):
            return cls.name == "dict"
        if isinstance(value, Data) and value.facts.type == "tensor":
            return False
        if isinstance(value, Data) and value.facts.type in kinds:
            return value.facts.type == cls.name
        return None
    if isinstance(cls, Class):
        if cls.qualified == "torch.Tensor" and isinstance(value, Data) and value.facts.type == "tensor":
            return True
        if isinstance(value, (Const, Sequence, Mapping, Function, Class)):
            return False
        if isinstance(value, Data) and value.facts.type in ("tensor", "str", "int", "float", "bool", "number"):
            return False
    if isinstance(value, Const):
        return False
    return None


def _hasattr(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    if len(args) == 2 and isinstance(args[0], Instance) and isinstance(args[1], Const):
        name = args[1].value
        if name in args[0].attrs or args[0].cls.lookup(str(name)) is not None:
            return TRUE
        if not args[0].cls.is_opaque and "%opaque" not in args[0].attrs and args[0].cls.lookup("__getattr__") is None:
            return FALSE
    return Data(replace(NOTHING, type="bool"), site)


def _getattr(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    if len(args) < 2:
        return Data(NOTHING)
    wanted = args[1].default if isinstance(args[1], Data) and args[1].default is not None else args[1]
    if isinstance(wanted, Const) and isinstance(wanted.value, str):
        name = wanted.value
        if len(args) > 2 and isinstance(args[0], Instance):
            known = name in args[0].attrs or args[0].cls.lookup(name) is not None
            if not known and not args[0].cls.is_opaque and "%opaque" not in args[0].attrs:
                if args[0].cls.lookup("__getattr__") is None:
                    return args[2]
        if len(args) > 2 and isinstance(args[0], Choice):
            parts = [_getattr(it, [option, *args[1:]], {}, site) for option in args[0].options]
            result = parts[0]
            for part in parts[1:]:
                result = join(result, part)
            return result
        return calls.attribute(it, args[0], name, site)
    return Data(NOTHING)


def _setattr(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    if len(args) == 3 and isinstance(args[1], Const) and isinstance(args[1].value, str):
        calls.set_attribute(it, args[0], args[1].value, args[2], site)
    elif args and isinstance(args[0], Instance):
        # Which attribute is not known: any of them may be what the user chose instead of its default.
        it.trail.set(args[0].attrs, "%chosen", TRUE)
    return NONE


def _iter(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    value = args[0] if args else NONE
    if isinstance(value, Instance):
        method_ = value.cls.lookup("__iter__")
        if method_ is not None:
            return calls.call(it, calls.bind(value, method_), [], {}, site)
    return value


def _next(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    value = args[0] if args else NONE
    if isinstance(value, Instance):
        method_ = value.cls.lookup("__next__")
        if method_ is not None:
            return calls.call(it, calls.bind(value, method_), [], {}, site)
    found = calls.element(it, value)
    return join(found, args[1]) if len(args) > 1 else found


def _type(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    if args and isinstance(args[0], Instance):
        return args[0].cls
    return Data(NOTHING)


def _callable(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    if args and isinstance(args[0], (Function, Bound, Class, Partial, Builtin)):
        return TRUE
    if args and isinstance(args[0], (Const, Sequence, Mapping)):
        return FALSE
    return Data(replace(NOTHING, type="bool"))


def _none(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    return NONE


def _unknown(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    return Data(tensors.unknown_result([expressions.facts_of(it, a) for a in args]), site)


def _abs_value(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    if args and isinstance(args[0], Const) and isinstance(args[0].value, (int, float)):
        return Const(abs(args[0].value))
    return Data(tensors.elementwise([expressions.facts_of(it, a) for a in args] or [CONSTANT]), site)


def _plain_facts(kind: str) -> Callable[..., Value]:
    def make(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
        facts = [expressions.facts_of(it, a) for a in args]
        return Data(replace(tensors.elementwise(facts or [CONSTANT]), type=kind, grad=False, terms=()), site)

    return make


def _all_any(name: str) -> Callable[..., Value]:
    def decide(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
        known = exact_items(it, args[0], None) if args else None
        truths = {it.truth(item) for item in known} if known is not None else {None}
        if (name == "any") in truths:
            return TRUE if name == "any" else FALSE
        return _test_of(it, args, site) if None in truths else FALSE if name == "any" else TRUE

    return decide


def _folded(function: Callable[..., Any], otherwise: Callable[..., Value]) -> Callable[..., Value]:
    """A function of numbers and text: exact where its arguments are."""

    def call(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
        if args and not kwargs and all(isinstance(a, Const) for a in args):
            values = [a.value for a in args if isinstance(a, Const)]
            small = all(isinstance(v, (int, float)) and abs(v) < 1000 for v in values) or len(values) == 1
            try:
                made = function(*values) if small else None
            except Exception:
                return Data(NOTHING, site)
            if isinstance(made, tuple):
                return Sequence([Const(part) for part in made], "tuple", site=site)
            if made is not None:
                return Const(made)
        return otherwise(it, args, kwargs, site)

    return call


def _test_of(it: Interpreter, args: list[Value], site: Site) -> Value:
    return Data(tensors.test_facts([expressions.facts_of(it, a) for a in args] or [CONSTANT]), site)


def _open(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    """A file: every rank reads the same from the same path."""
    facts = expressions.facts_of(it, args[0]) if args else NOTHING
    return Data(
        replace(facts, type="file", total=EVEN_UNKNOWN, lead=EVEN_UNKNOWN, rest=EVEN_UNKNOWN, clean=False), site
    )


def _vars(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    if args and isinstance(args[0], Instance):
        return Mapping({k: v for k, v in args[0].attrs.items() if not k.startswith("%")})
    return Mapping({}, Data(NOTHING))


def _globals(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    return Mapping({k: v for k, v in it.frame.scope.globals.names.items() if not k.startswith("%")}, Data(NOTHING))


def _property(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    return Property(args[0]) if args else NONE


_FUNCTIONS: dict[str, Callable[..., Value]] = {
    "len": _len, "range": _range, "enumerate": _enumerate, "zip": _zip, "map": _map_function, "filter": _filter,
    "sum": _sum, "max": _max, "min": _min, "sorted": _sorted, "reversed": _reversed, "isinstance": _isinstance,
    "issubclass": _unknown, "hasattr": _hasattr, "getattr": _getattr, "setattr": _setattr, "iter": _iter, "next": _next,
    "type": _type, "callable": _callable, "print": _none, "abs": _abs_value,
    "round": _folded(round, _plain_facts("number")), "pow": _folded(pow, _plain_facts("number")),
    "divmod": _folded(divmod, _unknown), "all": _all_any("all"), "any": _all_any("any"), "open": _open, "vars": _vars,
    "globals": _globals, "locals": _globals, "repr": _folded(repr, _plain_facts("str")), "hash": _unknown,
    "id": _unknown, "input": _unknown, "exit": _none, "quit": _none, "eval": _unknown, "exec": _none,
    "compile": _unknown,
    "ord": _folded(ord, _plain_facts("int")), "chr": _folded(chr, _plain_facts("str")), "format": _plain_facts("str"),
    "delattr": _none,
    "staticmethod": lambda it, a, k, s: StaticMethod(a[0]) if a else NONE,
    "classmethod": lambda it, a, k, s: ClassMethod(a[0]) if a else NONE,
    "property": _property, "super": _unknown, "slice": _unknown, "dir": _unknown, "bin": _plain_facts("str"),
    "hex": _plain_facts("str"), "__import__": _unknown,
}  # fmt: skip
_TYPES: dict[str, Callable[..., Value]] = {
    "int": _number(int), "float": _number(float), "bool": _boolean, "str": _string, "list": _collect("list"),
    "tuple": _collect("tuple"), "set": _collect("set"), "frozenset": _collect("set"), "dict": _dict,
    "bytes": _plain_facts("bytes"), "bytearray": _plain_facts("bytes"), "complex": _plain_facts("number"),
    "memoryview": _unknown, "object": lambda it, a, k, s: Data(NOTHING), "BaseException": _unknown,
    "Exception": _unknown,
}  # fmt: skip

DECORATORS: dict[str, Callable[[Value], Value]] = {
    "property": Property,
    "staticmethod": StaticMethod,
    "classmethod": ClassMethod,
}


# ---------------------------------------------------------------- classes made without a constructor of their own


def fill_fields(it: Interpreter, instance: Instance, args: list[Value], kwargs: dict[str, Value]) -> None:
    """What the constructor of a dataclass (or of any class without one) does: arguments become attributes."""
    names: list[str] = []
    for cls in reversed(instance.cls.mro):
        fields = cls.attrs.get("%fields")
        if isinstance(fields, Sequence):
            names.extend(str(f.value) for f in fields.items or [] if isinstance(f, Const) and f.value not in names)
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    for name in names:
        default = instance.cls.lookup(name)
        if name in given:
            it.trail.set(instance.attrs, name, given[name])
            continue
        if isinstance(default, Instance) and default.cls.name == "Field":
            default = calls.call_method(it, default, "make", [], {}, it.site(0))
        if default is not None and not isinstance(default, (Function, Property)):
            it.trail.set(instance.attrs, name, default)
    loose = kwargs.get("%other")
    for name, value in kwargs.items():
        if name != "%other":
            it.trail.set(instance.attrs, name, value)
    if loose is not None:
        for name in names:
            if name not in kwargs:
                old = instance.attrs.get(name)
                it.trail.set(instance.attrs, name, loose if old is None else join(old, loose))
    post = instance.cls.lookup("__post_init__")
    if post is not None and names:
        calls.call(it, calls.bind(instance, post), [], {}, instance.site or it.site(0))


def instantiate_special(
    it: Interpreter, cls: Class, args: list[Value], kwargs: dict[str, Value], site: Site
) -> Value | None:
    return None


def class_attribute(it: Interpreter, cls: Class, name: str, site: Site) -> Value | None:
    if name == "__new__":
        return Builtin(name, lambda it, args, kwargs, site: Instance(cls, site))
    if name == "__doc__":
        return Data(replace(CONSTANT, type="str"))
    if any(base.qualified in ("enum.Enum", "enum.IntEnum") for base in cls.mro):
        return None
    return None


def make_named_tuple(it: Interpreter, kind: Sequence, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    return Sequence([*args, *kwargs.values()], "tuple", site=site)
