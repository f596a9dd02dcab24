"""Calls, attributes, iteration and context managers: how the values of a program act on one another."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from dpcheck.execution import builtins, expressions, intrinsics, tensors
from dpcheck.execution import facts as facts_
from dpcheck.execution.facts import NOTHING, Site
from dpcheck.execution.trail import element_of, join
from dpcheck.execution.values import (
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
    Mapping,
    ModuleValue,
    Partial,
    Property,
    Scope,
    Sequence,
    StaticMethod,
    Super,
    Value,
)
from dpcheck.program import records as r

if TYPE_CHECKING:
    from dpcheck.execution.interpreter import Completion, Interpreter

_DEEPEST_CALL = 80
_DEEPEST_RECURSION = 2
_DEEPEST_NESTING = 12
_MOST_CALLS = 6
_MOST_STEPS_A_FUNCTION = 30_000
_OPERATORS = {
    "+": "add",
    "-": "sub",
    "*": "mul",
    "/": "truediv",
    "//": "floordiv",
    "%": "mod",
    "@": "matmul",
    "|": "or",
    "&": "and",
    "**": "pow",
}


# ---------------------------------------------------------------- calls


def call_expression(it: Interpreter, node: r.Call) -> Value:
    site = it.site(node.at)
    if isinstance(node.func, r.Name) and node.func.id == "super":
        return _super(it, node)
    function = expressions.evaluate(it, node.func)
    if isinstance(function, Builtin) and function.name == "zip" and len(node.args) == 1 and node.args[0].star == "*":
        rows = expressions.evaluate(it, node.args[0].value)
        if builtins.exact_items(it, rows, None) is None:
            return builtins.zip_of_many(it, rows, site)
    args, kwargs, loose = arguments(it, node.args)
    if loose is not None:
        kwargs["%other"] = loose
    return call(it, function, args, kwargs, site)


def arguments(it: Interpreter, given: tuple[r.Arg, ...]) -> tuple[list[Value], dict[str, Value], Value | None]:
    """Positional and keyword arguments; the third part stands for those of an unknown number or name."""
    args: list[Value] = []
    kwargs: dict[str, Value] = {}
    loose: Value | None = None
    for arg in given:
        value = expressions.evaluate(it, arg.value)
        if arg.star == "*":
            known = builtins.exact_items(it, value, None)
            if known is None:
                loose = element(it, value)
            else:
                args.extend(known)
        elif arg.star == "**":
            if isinstance(value, Mapping):
                kwargs.update({k: v for k, v in value.entries.items() if isinstance(k, str)})
                loose = value.other if value.other is not None else loose
            else:
                loose = Data(tensors.unknown_result([expressions.facts_of(it, value)]))
                escape(it, value, it.site(arg.at))
        elif arg.keyword is not None:
            kwargs[arg.keyword] = value
        else:
            args.append(value)
    return args, kwargs, loose


def call(it: Interpreter, function: Value, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    """Call any value. What was not read answers with an unknown value, and what it was given has escaped."""
    it.count_step()
    if isinstance(function, Function):
        return call_function(it, function, args, kwargs, site)
    if isinstance(function, Bound):
        intrinsics.stepping(it, function.function, function.receiver, site)
        if isinstance(function.function, Foreign):
            if not is_harmless(function.function.name):
                hand_over(it, function.receiver, site)
            return call_unknown(it, function.function, args, kwargs, site)
        return call(it, function.function, [function.receiver, *args], kwargs, site)
    if isinstance(function, Class):
        return instantiate(it, function, args, kwargs, site)
    if isinstance(function, Builtin):
        kwargs.pop("%other", None)
        return function.call(it, args, kwargs, site)
    if isinstance(function, Partial):
        return call(it, function.function, [*function.args, *args], {**function.kwargs, **kwargs}, site)
    if isinstance(function, Choice):
        sides: list[Callable[[], Value]] = [
            (lambda option=option: call(it, option, list(args), dict(kwargs), site))  # type: ignore[misc]
            for option in function.options
            if not (isinstance(option, Const) and option.value is None)
        ]
        return it.branches(sides) if sides else Data(NOTHING)
    if isinstance(function, Instance):
        method = function.cls.lookup("__call__")
        if method is not None:
            return call(it, bind(function, method), args, kwargs, site)
    if isinstance(function, Sequence) and function.kind == "namedtuple type":
        return builtins.make_named_tuple(it, function, args, kwargs, site)
    return call_unknown(it, function, args, kwargs, site)


def call_unknown(it: Interpreter, function: Value, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    name = function.name if isinstance(function, Foreign) else ""
    plain = isinstance(function, Data) and (function.facts.place.is_replicate or function.facts.type == "str")
    if isinstance(function, Data) and plain and not function.facts.grad:
        # A method of a text, an option or a configuration (`args.arch.split("_")`): it reaches nothing else.
        facts = tensors.elementwise([expressions.facts_of(it, value) for value in (function, *args, *kwargs.values())])
        return Data(facts_.replace(tensors.unknown_result([facts]), place=facts.place), site)
    harmless = is_harmless(name)
    if isinstance(function, Data):
        harmless = "harmless" in function.state  # a method of what such a package returned
    given = [*args, *kwargs.values()]
    if not harmless:
        for value in (function, *given):
            escape(it, value, site)
        owner = function.state.get("method of") if isinstance(function, Data) else None
        if owner is not None:
            hand_over(it, owner, site)
        note_weights(it, given, site)
        it.unread_calls += 1
        it.note_unknown(f"a call of {name}" if name else "a call of an unknown function")
        intrinsics.note_unknown_call(it, name)
    operands = [expressions.facts_of(it, value) for value in given if not isinstance(value, Const)]
    if isinstance(function, Data) and (function.facts.sources or not function.facts.place.is_unknown):
        operands.append(function.facts)
    facts = tensors.unknown_result(operands)
    if isinstance(function, Data) and not harmless:
        facts = tensors.of_unread_object(facts, inside_module=bool(it.calling))
    result = Data(tensors.recorded(it, facts), site)
    if harmless:
        result.state["harmless"] = True
    return result


def hand_over(it: Interpreter, receiver: Value, site: Site) -> None:
    """Let an object into the hands of one of its own methods, which was not read and may set any of its attributes."""
    escape(it, receiver, site)
    note_weights(it, [receiver], site)
    if not isinstance(receiver, Instance):
        return
    it.trail.set(receiver.attrs, "%opaque", TRUE)
    for name, value in list(receiver.attrs.items()):
        if name.startswith("%"):
            continue
        if isinstance(value, Const):
            it.trail.set(receiver.attrs, name, join(value, Data(NOTHING, site)))
        elif isinstance(value, Sequence) and value.kind == "list":
            some = element_of(value.content)
            element = Data(NOTHING, site) if some is None else join(some, Data(NOTHING, site))
            it.trail.set(value.state, "content", Content(None, element))
        elif isinstance(value, Mapping):
            builtins.put(it, value, Data(NOTHING), Data(NOTHING, site))


def note_weights(it: Interpreter, given: list[Value], site: Site) -> None:
    """Record that weights (or an optimizer) are in the hands of code that was not read: it may change the gradients."""
    for value in given:
        owners = intrinsics.owners_of(it, value)
        if any(o is None or (isinstance(o, Instance) and intrinsics.holds_weights(o)) for o in owners):
            it.record("handed over", site, frozen=it.machine.get("no grad") is True)
            return


def is_harmless(name: str) -> bool:
    return name.partition(".")[0] in builtins.HARMLESS_PACKAGES


def escape(it: Interpreter, value: Value, site: Site, depth: int = 0) -> None:
    """Note that an object was handed to code that was not read: what is absent here may have happened there."""
    if isinstance(value, Instance):
        if "%escaped" not in value.attrs:
            it.trail.set(value.attrs, "%escaped", TRUE)
            if depth < 2:
                for part in list(value.attrs.values()):
                    escape(it, part, site, depth + 1)
    elif isinstance(value, Bound):
        escape(it, value.receiver, site, depth)
    elif depth < 2:
        if isinstance(value, Sequence):
            for item in value.items or [v for v in (value.element,) if v is not None]:
                escape(it, item, site, depth + 1)
        elif isinstance(value, Mapping):
            for item in value.entries.values():
                escape(it, item, site, depth + 1)
        elif isinstance(value, Choice):
            for item in value.options:
                escape(it, item, site, depth + 1)


def call_function(
    it: Interpreter, function: Function, args: list[Value], kwargs: dict[str, Value], site: Site
) -> Value:
    from dpcheck.execution.interpreter import Completion, Frame

    record = function.record
    unit = function.scope.unit
    if len(it.frames) > _DEEPEST_CALL:
        return call_unknown(it, Foreign(f"{unit.name}.{function.name}"), args, kwargs, site)
    if _recurs(it, function, args[0] if args else None):
        it.note_unknown("a call nested too deeply")
        return Data(NOTHING)
    spent = it.spent.setdefault(id(record), [0, 0])
    if spent[0] >= _MOST_CALLS and spent[1] > _MOST_STEPS_A_FUNCTION and not unit.is_stub:
        it.note_unknown("a function that takes too many steps")
        if function.name == "forward" and args and isinstance(args[0], Instance) and intrinsics.holds_weights(args[0]):
            # It was seen to be a layer like others: it makes something of its input, and hands on nothing.
            given = [v for v in (*args[1:], *kwargs.values()) if not isinstance(v, Const)]
            facts = tensors.unknown_result([expressions.facts_of(it, v) for v in given])
            return Data(tensors.recorded(it, tensors.of_unread_object(facts, inside_module=True)), site)
        return call_unknown(it, Foreign(f"{unit.name}.{function.name}"), args, kwargs, site)
    spent[0] += 1
    before = it.steps
    scope = Scope(unit, function.scope, function.scope.globals)
    bind_parameters(it, function, scope, args, kwargs)
    user_site = site if unit.is_stub else None
    frame = Frame(unit, scope, user_site, function)
    frame.receiver = args[0] if args and function.owner is not None else None
    if isinstance(record, r.Lambda):
        scope.function_locals = frozenset(p.name for p in record.params)
        it.frames.append(frame)
        try:
            return expressions.evaluate(it, record.body)
        finally:
            it.frames.pop()
    scope.function_locals = frozenset(record.locals) | frozenset(p.name for p in record.params)

    def execute(on_yield: Callable[[Value], Value] | None) -> Value:
        frame.on_yield = on_yield
        frame.returns = []
        frame.left = []
        it.frames.append(frame)
        depth = len(it.guards)
        try:
            completion = it.block(record.body)
        finally:
            it.frames.pop()
            del it.guards[depth:]
            spent[1] += it.steps - before
        for writes in frame.left:
            it.trail.merge([writes, {}])
        result: Value | None = None
        for value in frame.returns:
            result = value if result is None else join(result, value)
        if result is None or (completion is Completion.NORMAL and frame.returns):
            return NONE if result is None else join(result, NONE)
        return result

    if record.generator:
        return Generator(lambda on_yield: void(execute(on_yield)))
    return execute(None)


def _recurs(it: Interpreter, function: Function, receiver: Value | None) -> bool:
    """Is the call one recursion too many? Modules inside modules call the same method, each its own."""
    same = [frame for frame in it.frames if frame.function is function]
    if len(same) < _DEEPEST_RECURSION:
        return False
    return len(same) >= _DEEPEST_NESTING or sum(frame.receiver is receiver for frame in same) >= _DEEPEST_RECURSION


def void(_: Value) -> None:
    return None


def bind_parameters(
    it: Interpreter, function: Function, scope: Scope, args: list[Value], kwargs: dict[str, Value]
) -> None:
    """Give each parameter its value: argument, default, or unknown where a `*args` of unknown length feeds it."""
    names = scope.names
    loose = kwargs.get("%other")
    rest = {k: v for k, v in kwargs.items() if k != "%other"}
    waiting = list(args)
    for param in function.record.params:
        if param.kind == "*":
            if param.name:
                items = waiting
                names[param.name] = (
                    Sequence(list(items), "tuple") if loose is None else Sequence(None, "tuple", _with(items, loose))
                )
            waiting = []
        elif param.kind == "**":
            names[param.name] = Mapping(dict(rest), loose)
            rest = {}
        elif param.kind != "key" and waiting:
            names[param.name] = waiting.pop(0)
        elif param.name in rest:
            names[param.name] = rest.pop(param.name)
        elif loose is not None:
            default = function.defaults.get(param.name)
            names[param.name] = loose if default is None else join(default, loose)
        elif param.name in function.defaults:
            names[param.name] = function.defaults[param.name]
        else:
            names[param.name] = Data(NOTHING)


def _with(items: list[Value], loose: Value) -> Value:
    first = element_of(Content(items))
    return loose if first is None else join(first, loose, widen=True)


def call_method(
    it: Interpreter, receiver: Value, name: str, args: list[Value], kwargs: dict[str, Value], site: Site
) -> Value:
    return call(it, attribute(it, receiver, name, site), args, kwargs, site)


def _super(it: Interpreter, node: r.Call) -> Value:
    frame = it.frame
    receiver = frame.receiver
    owner = frame.owner
    if node.args:
        given = [expressions.evaluate(it, arg.value) for arg in node.args]
        owner = given[0] if isinstance(given[0], Class) else owner
        receiver = given[1] if len(given) > 1 else receiver
    if owner is None or receiver is None:
        return Data(NOTHING)
    return Super(owner, receiver)


def instantiate(it: Interpreter, cls: Class, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    special = builtins.instantiate_special(it, cls, args, kwargs, site)
    if special is not None:
        return special
    instance = Instance(cls, site, key=len(it.frames))
    constructor = cls.lookup("__new__")
    if constructor is not None and isinstance(constructor, (StaticMethod, Builtin, Function)):
        made = call(
            it,
            constructor.function if isinstance(constructor, StaticMethod) else constructor,
            [cls, *args],
            dict(kwargs),
            site,
        )
        if not (isinstance(made, Instance) and made.cls is cls):
            return made
        instance = made
    initialize = cls.lookup("__init__")
    if cls.is_opaque:
        for value in (*args, *kwargs.values()):
            escape(it, value, site)
        it.trail.set(instance.attrs, "%opaque", TRUE)
    intrinsics.constructing(it, instance, site)
    if initialize is not None:
        call(it, bind(instance, initialize), args, kwargs, site)
    else:
        builtins.fill_fields(it, instance, args, kwargs)
    intrinsics.constructed(it, instance, site)
    return instance


def decorate(it: Interpreter, decorator: Value, function: Value, site: Site) -> Value:
    """The decorated function. A decorator that was not read is taken to leave the behaviour as it is."""
    if isinstance(decorator, Builtin):
        special = builtins.DECORATORS.get(decorator.name)
        if special is not None:
            return special(function)
    if isinstance(decorator, Bound) and isinstance(decorator.receiver, Property):
        return Property(decorator.receiver.getter, function)
    if isinstance(decorator, (Foreign, Data)):
        return function
    if isinstance(decorator, (Function, Bound, Partial, Class, Instance, Builtin)):
        made = call(it, decorator, [function], {}, site)
        return function if isinstance(made, Data) else made
    return function


# ---------------------------------------------------------------- attributes


def bind(receiver: Value, found: Value) -> Value:
    """What `receiver.name` is when its class holds `found`."""
    if isinstance(found, (Function, Builtin, Foreign)):
        return Bound(found, receiver)
    if isinstance(found, StaticMethod):
        return found.function
    if isinstance(found, ClassMethod):
        cls = receiver.cls if isinstance(receiver, Instance) else receiver
        return Bound(found.function, cls)
    return found


def attribute(it: Interpreter, value: Value, name: str, site: Site) -> Value:
    if isinstance(value, Instance):
        return _instance_attribute(it, value, name, site)
    if isinstance(value, ModuleValue):
        own = name in value.scope.names  # a stub may say by itself what its `__dict__` is
        return it.module_names(value) if name == "__dict__" and not own else it.force(it.module_attribute(value, name))
    if isinstance(value, Class):
        found = value.lookup(name)
        if found is not None:
            return bind(value, found) if isinstance(found, (ClassMethod, StaticMethod)) else found
        if name == "__name__":
            return Const(value.name)
        special = builtins.class_attribute(it, value, name, site)
        return special if special is not None else Data(NOTHING)
    if isinstance(value, Choice):
        result: Value | None = None
        for option in value.options:
            if isinstance(option, Const) and option.value is None:
                continue
            one = attribute(it, option, name, site)
            result = one if result is None else join(result, one)
        return result or Data(NOTHING)
    if isinstance(value, Super):
        return _super_attribute(it, value, name, site)
    if isinstance(value, Foreign):
        return Foreign(f"{value.name}.{name}")
    if isinstance(value, Function):
        known: Value | None = value.attrs.get(name)
        if known is not None:
            return known
        return Const(value.name) if name == "__name__" else Data(NOTHING)
    if isinstance(value, Bound):
        if isinstance(value.function, Foreign):
            return Foreign(f"{value.function.name}.{name}")
        return value.receiver if name == "__self__" else Data(NOTHING)
    if isinstance(value, Partial):
        return value.function if name == "func" else Data(NOTHING)
    if isinstance(value, Builtin) and value.name == "object" and name == "__new__":
        return Builtin(name, _new)
    if isinstance(value, Property):
        return Bound(Builtin(f"property {name}", lambda *_: NONE), value)
    if isinstance(value, (Sequence, Mapping, Const, Generator)):
        return builtins.method(it, value, name, site)
    if isinstance(value, Data):
        return tensors.attribute(it, value, name, site)
    return Data(NOTHING)


def _instance_attribute(it: Interpreter, value: Instance, name: str, site: Site) -> Value:
    own: Value | None = value.attrs.get(name)
    if own is None and "%chosen" in value.attrs and isinstance(value.cls.lookup(name), Const):
        own = value.cls.lookup(name)
    if own is not None and isinstance(own, Const) and "%chosen" in value.attrs:
        own = intrinsics.chosen(own, site)
        value.attrs[name] = own
    if own is not None:
        return it.unified.get(own, own) if it.unified else own
    found = value.cls.lookup(name)
    if found is not None:
        if isinstance(found, Property):
            return call(it, found.getter, [value], {}, site)
        return bind(value, found)
    if name == "__class__":
        return value.cls
    if name == "__dict__":
        return Mapping({k: v for k, v in value.attrs.items() if not k.startswith("%")})
    fallback = value.cls.lookup("__getattr__")
    if fallback is not None:
        return call(it, bind(value, fallback), [Const(name)], {}, site)
    result = Data(NOTHING, site)
    if value.cls.is_opaque or "%opaque" in value.attrs:
        result.state["method of"] = value
    else:
        it.note_unknown("an attribute that nothing sets")
    value.attrs[name] = result
    return result


def _super_attribute(it: Interpreter, value: Super, name: str, site: Site) -> Value:
    receiver = value.receiver
    cls = receiver.cls if isinstance(receiver, Instance) else receiver if isinstance(receiver, Class) else None
    if cls is None:
        return Data(NOTHING)
    mro = cls.mro
    start = mro.index(value.after) + 1 if value.after in mro else 1
    for base in mro[start:]:
        if name in base.attrs:
            found = base.attrs[name]
            if isinstance(found, Property):
                return call(it, found.getter, [receiver], {}, site)
            return bind(receiver, found)
    if name == "__new__":
        return Builtin(name, _new)
    if name in ("__init__", "__init_subclass__", "__setattr__"):
        return Builtin(name, lambda it, args, kwargs, site: _opaque_init(it, receiver, args, kwargs, site))
    if isinstance(receiver, Instance) and cls.is_opaque:
        return Builtin(
            name, lambda it, args, kwargs, site: call_unknown(it, Foreign(f"?.{name}"), [receiver, *args], kwargs, site)
        )
    return Builtin(name, lambda it, args, kwargs, site: Data(NOTHING))


def _new(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    """`object.__new__`."""
    return Instance(args[0], site, key=len(it.frames)) if args and isinstance(args[0], Class) else Data(NOTHING)


def _opaque_init(it: Interpreter, receiver: Value, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    if isinstance(receiver, Instance):
        if receiver.cls.is_opaque:
            for value in (*args, *kwargs.values()):
                escape(it, value, site)
        else:
            builtins.fill_fields(it, receiver, args, kwargs)
    return NONE


def set_attribute(it: Interpreter, owner: Value, name: str, value: Value, site: Site) -> None:
    if isinstance(owner, Instance):
        found = owner.cls.lookup(name)
        if isinstance(found, Property) and found.setter is not None:
            call(it, found.setter, [owner, value], {}, site)
            return
        intrinsics.setting(it, owner, name, value, site)
        it.trail.set(owner.attrs, name, value)
        if "%escaped" in owner.attrs:
            escape(it, value, site)
    elif isinstance(owner, Choice):
        sides: list[Callable[[], Value]] = [
            (lambda option=option: _set_one(it, option, name, value, site))  # type: ignore[misc]
            for option in owner.options
        ]
        it.branches(sides)
    elif isinstance(owner, ModuleValue):
        it.trail.set(owner.scope.names, name, value)
    elif isinstance(owner, (Class, Function)):
        it.trail.set(owner.attrs, name, value)
    elif isinstance(owner, Data):
        tensors.set_attribute(it, owner, name, value, site)


def _set_one(it: Interpreter, owner: Value, name: str, value: Value, site: Site) -> Value:
    set_attribute(it, owner, name, value, site)
    return NONE


def operator_method(it: Interpreter, op: str, a: Value, b: Value, site: Site) -> Value:
    """`a op b` where one of them is an object of a class."""
    name = _OPERATORS.get(op)
    for receiver, other, prefix in ((a, b, "__"), (b, a, "__r")):
        if name is not None and isinstance(receiver, Instance):
            method = receiver.cls.lookup(f"{prefix}{name}__")
            if method is not None:
                return call(it, bind(receiver, method), [other], {}, site)
    return tensors.binary(it, op, a, b, site)


# ---------------------------------------------------------------- iteration


def iterate(it: Interpreter, value: Value, take: Callable[[Value], Value], site: Site) -> None:
    """Hand the elements of an iterable to `take`: one by one where that is known, else one for all."""
    if isinstance(value, Generator):
        value.run(outside(it, take))
    elif isinstance(value, Instance):
        method = value.cls.lookup("__iter__")
        if method is not None:
            iterator = call(it, bind(value, method), [], {}, site)
            if iterator is not value:
                iterate(it, iterator, take, site)
                return
        step = value.cls.lookup("__next__")
        if step is not None:
            take(call(it, bind(value, step), [], {}, site))
            return
        get = value.cls.lookup("__getitem__")
        if get is not None:
            take(call(it, bind(value, get), [expressions.counter(it, site)], {}, site))
            return
        take(Data(NOTHING))
    elif isinstance(value, Choice):
        sides: list[Callable[[], Value]] = []
        for option in value.options:
            if isinstance(option, Const) and option.value is None:
                continue

            def side(option: Value = option) -> Value:
                iterate(it, option, take, site)
                return NONE

            sides.append(side)
        for each in sides:
            each()
    elif isinstance(value, Sequence):
        found = element_of(value.content)
        if found is not None:
            take(found)
    elif isinstance(value, Mapping):
        take(builtins.key_of(it, value))
    elif isinstance(value, Data):
        take(tensors.row(it, value, site))
    elif isinstance(value, Const):
        if isinstance(value.value, str):
            take(Data(facts_.replace(facts_.CONSTANT, type="str")))
        else:
            take(Data(NOTHING))
    else:
        take(Data(NOTHING))


def outside(it: Interpreter, take: Callable[[Value], Value]) -> Callable[[Value], Value]:
    """`take`, executed in the frame of whoever consumes a generator, while the generator stands at its `yield`."""
    consumer = len(it.frames)

    def take_outside(value: Value) -> Value:
        frames = it.frames
        it.frames = frames[:consumer]
        try:
            return take(value)
        finally:
            it.frames = frames

    return take_outside


def element(it: Interpreter, value: Value) -> Value:
    """One value that stands for everything an iterable yields."""
    found: list[Value] = []
    rehearsals = it.rehearsals

    def take(item: Value) -> Value:
        # What a generator yields in the rehearsal of a loop of its own is not what it yields.
        if it.rehearsals == rehearsals or rehearsals:
            found.append(item)
        return NONE

    iterate(it, value, take, it.site(0))
    return element_of(Content(found)) or Data(NOTHING)


# ---------------------------------------------------------------- context managers


def enter(it: Interpreter, manager: Value, inside: Callable[[Value], Completion], site: Site) -> None:
    """Execute a `with` block: what the manager does before, the block, what the manager does after."""
    if isinstance(manager, Generator):
        done: list[bool] = []

        def take(value: Value) -> Value:
            if not done:
                done.append(True)
                inside(value)
            return NONE

        manager.run(outside(it, take))
        if not done:
            inside(NONE)
        return
    if isinstance(manager, Instance):
        begin = manager.cls.lookup("__enter__") or manager.cls.lookup("__aenter__")
        end = manager.cls.lookup("__exit__") or manager.cls.lookup("__aexit__")
        value = call(it, bind(manager, begin), [], {}, site) if begin is not None else manager
        inside(value)
        if end is not None:
            call(it, bind(manager, end), [NONE, NONE, NONE], {}, site)
        return
    if isinstance(manager, Choice):
        # Which context surrounds the block is not known: the block is executed once, inside each of them in turn.
        first, *others = [m for m in manager.options if not (isinstance(m, Const) and m.value is None)] or [NONE]
        enter(it, first, lambda value: _inner(it, others, inside, value, site), site)
        return
    inside(manager if not isinstance(manager, Foreign) else Data(NOTHING))


def _inner(
    it: Interpreter, others: list[Value], inside: Callable[[Value], Completion], value: Value, site: Site
) -> Completion:
    from dpcheck.execution.interpreter import Completion

    if not others:
        return inside(value)
    outcome: list[Completion] = []
    enter(it, others[0], lambda _: _keep(outcome, _inner(it, others[1:], inside, value, site)), site)
    return outcome[-1] if outcome else Completion.NORMAL


def _keep(outcome: list[Completion], completion: Completion) -> Completion:
    outcome.append(completion)
    return completion
