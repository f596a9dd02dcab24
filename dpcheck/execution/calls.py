"""Calls, attributes, iteration and context managers: how the values of a program act on one another."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from dpcheck.execution import exits, expressions, gradients, listings, packages, randomness, states, tensors, weights
from dpcheck.execution import facts as facts_
from dpcheck.execution.builtins import classes, iteration, mappings, methods
from dpcheck.execution.completion import Completion, PathEndedError
from dpcheck.execution.facts import NOTHING, Site
from dpcheck.execution.trail import Mark, decided, differing, element_of, join, join_all, same_states
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
    chosen,
)
from dpcheck.program import records as r

if TYPE_CHECKING:
    from dpcheck.execution.interpreter import Frame, Interpreter

_DEEPEST_CALL = 80
_DEEPEST_RECURSION = 2
_DEEPEST_NESTING = 12
_MOST_CALLS = 6
_MOST_STEPS_A_FUNCTION = 30_000
_SHARE = 8
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
        if iteration.exact_items(rows) is None:
            return iteration.zip_of_many(it, rows)
    args, kwargs, loose = arguments(it, node.args)
    if it.attempts:
        exits.note_call(it, function, [*args, *kwargs.values()])
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
            known = iteration.exact_items(value)
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
        gradients.stepping(it, function.function, function.receiver, site)
        if isinstance(function.function, Foreign):
            if not packages.is_harmless(function.function.name):
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
        if function.test is not None and len(sides) == 2:
            made: list[Value] = []
            result = it.branches([(lambda side=side: _kept(made, side())) for side in sides])  # type: ignore[misc]
            return decided(result, function.test, *made) if len(made) == 2 else result
        return it.branches(sides) if sides else Data(NOTHING)
    if isinstance(function, Instance):
        method = function.cls.lookup("__call__")
        if method is not None:
            return call(it, bind(function, method), args, kwargs, site)
    return call_unknown(it, function, args, kwargs, site)


def _kept(made: list[Value], value: Value) -> Value:
    made.append(value)
    return value


def call_unknown(
    it: Interpreter,
    function: Value,
    args: list[Value],
    kwargs: dict[str, Value],
    site: Site,
    *,
    seeds: bool | None = None,
) -> Value:
    """Call what was not read. `seeds`: may it seed the generators? None: as what it is given says."""
    name = function.name if isinstance(function, Foreign) else ""
    plain = isinstance(function, Data) and (function.facts.place.is_replicate or function.facts.type == "str")
    if isinstance(function, Data) and plain and not function.facts.grad:
        # A method of a text, an option or a configuration (`args.arch.split("_")`): it reaches nothing else.
        facts = tensors.elementwise([expressions.facts_of(it, value) for value in (function, *args, *kwargs.values())])
        result = Data(facts_.replace(tensors.unknown_result([facts]), place=facts.place), site)
        makes = function.state.get("makes")
        if makes is not None:
            result = Data(facts_.replace(result.facts, type="str"), site)
        return Sequence(None, "list", result, site=site) if makes == "texts" else result
    harmless = packages.is_harmless(name)
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
        if any(guard.facts.differs for guard in it.guards):
            it.record("unread call", site)
        it.note_unknown(f"a call of {name}" if name else "a call of an unknown function", site)
        randomness.note_unread_call(it, given, seeds)
    # A list that was handed over may come back sorted.
    given = [listings.in_order(value) if isinstance(value, Sequence) else value for value in given]
    operands = [expressions.facts_of(it, value) for value in given if not isinstance(value, Const)]
    if isinstance(function, Data) and (function.facts.sources or not function.facts.place.is_unknown):
        operands.append(function.facts)
    facts = tensors.unknown_result(operands)
    if isinstance(function, Data) and not harmless:
        facts = tensors.of_unread_object(facts, inside_module=bool(it.calling))
    elif not harmless:
        facts = states.answered(it, facts, site)
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
            mappings.put(it, value, Data(NOTHING), Data(NOTHING, site))


def note_weights(it: Interpreter, given: list[Value], site: Site) -> None:
    """Record that weights (or an optimizer) are in the hands of code that was not read: it may change the gradients."""
    for value in given:
        owners = weights.owners_of(it, value)
        if any(map(weights.are_weights, owners)):
            it.record("handed over", site, frozen=it.machine.get("no grad") is True)
            return


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
    from dpcheck.execution.interpreter import Frame

    record = function.record
    unit = function.scope.unit
    if len(it.frames) > _DEEPEST_CALL:
        return call_unknown(it, Foreign(f"{unit.name}.{function.name}"), args, kwargs, site, seeds=True)
    if _recurs(it, function, args[0] if args else None):
        it.note_unknown(f"a call of {function.name} from within itself", site)
        return Data(NOTHING)
    spent = it.spent.setdefault(id(record), [0, 0])
    # A function that costs much is cut where it would leave too little for the others: a small program has no such.
    most = max(_MOST_STEPS_A_FUNCTION, it.steps_left // _SHARE)
    if spent[0] >= _MOST_CALLS and spent[1] > most and not unit.is_stub:
        it.note_unknown(f"a call of {function.name}, which takes too many steps", site)
        if function.name == "forward" and args and isinstance(args[0], Instance) and weights.holds_weights(args[0]):
            # It was seen to be a layer like others: it makes something of its input, and hands on nothing.
            given = [v for v in (*args[1:], *kwargs.values()) if not isinstance(v, Const)]
            facts = tensors.unknown_result([expressions.facts_of(it, v) for v in given])
            return Data(tensors.recorded(it, tensors.of_unread_object(facts, inside_module=True)), site)
        seeds = id(record) in it.seeders
        return call_unknown(it, Foreign(f"{unit.name}.{function.name}"), args, kwargs, site, seeds=seeds)
    spent[0] += 1
    before, seedings = it.steps, it.seedings
    scope = Scope(unit, function.scope, function.scope.globals)
    bind_parameters(it, function, scope, args, kwargs)
    user_site = site if unit.is_stub else None
    frame = Frame(unit, scope, user_site, function)
    frame.path = (*it.path, site)
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
        depth = frame.entered = len(it.guards)
        try:
            completion = it.block(record.body)
        finally:
            it.frames.pop()
            del it.guards[depth:]
            exits.rejoin(it, frame)
            spent[1] += it.steps - before
            if it.seedings > seedings:
                it.seeders.add(id(record))
        for departure in frame.left:
            it.trail.merge([departure.writes, {}], differs=departure.differs)
        if completion.is_end and not frame.returns and on_yield is None:
            return unreturned(it, function, completion, args, kwargs, site)
        returned = frame.returns if frame.returns and completion is not Completion.NORMAL else [*frame.returns, NONE]
        result = _by_guard(frame, join_all(returned), returned)
        return cast(Value, differing(result, frame.differs)) if frame.differs and not same_states(returned) else result

    if record.generator:
        return Generator(lambda on_yield: void(execute(on_yield)))
    return execute(None)


def _by_guard(frame: Frame, result: Value, returned: list[Value]) -> Value:
    """What a function returns from two places, with the test noted that decides which of them it is."""
    if len(returned) != 2:
        return result
    one, other = (frame.deciding.get(id(value), ()) for value in returned)
    if not one or not other or one[:-1] != other[:-1] or one[-1].site != other[-1].site:
        return result
    guard = one[-1]
    if guard.test is None or guard.holds is other[-1].holds:
        return result
    yes, no = returned if guard.holds else reversed(returned)
    if not guard.holds:
        result = join(yes, no)
    return cast(Value, decided(result, guard.test, yes, no))


def unreturned(
    it: Interpreter, function: Function, completion: Completion, args: list[Value], kwargs: dict[str, Value], site: Site
) -> Value:
    """A call that comes to no return. An abstract method stands for one of a class that was not read."""
    if completion is Completion.EXIT or (completion is Completion.RAISE and it.may_fail):
        raise PathEndedError(completion)
    if function.owner is not None and args:
        hand_over(it, args[0], site)
    return call_unknown(it, Foreign(f"{function.scope.unit.name}.{function.name}"), args, kwargs, site)


def apart(it: Interpreter, function: Value, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    """A call in a process of its own: when that ends, this one goes on."""
    try:
        return call(it, function, args, kwargs, site)
    except PathEndedError:
        return NONE


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
    instance = Instance(cls, site, key=it.path)
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
    under_way = len(it.building)
    weights.constructing(it, instance)
    try:
        if initialize is not None:
            call(it, bind(instance, initialize), args, kwargs, site)
        else:
            classes.fill_fields(it, instance, args, kwargs)
    except PathEndedError:
        del it.building[under_way:]
        raise
    weights.constructed(it, instance, site)
    return instance


def decorate(it: Interpreter, decorator: Value, function: Value, site: Site) -> Value:
    """The decorated function. A decorator that was not read is taken to leave the behaviour as it is."""
    if isinstance(decorator, Builtin):
        special = classes.DECORATORS.get(decorator.name)
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
        special = classes.class_attribute(value, name, site)
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
        return methods.method(it, value, name, site)
    if isinstance(value, Data):
        return tensors.attribute(it, value, name, site)
    return Data(NOTHING)


def _instance_attribute(it: Interpreter, value: Instance, name: str, site: Site) -> Value:
    own: Value | None = value.attrs.get(name)
    if own is None and "%chosen" in value.attrs and isinstance(value.cls.lookup(name), Const):
        own = value.cls.lookup(name)
    if own is not None and isinstance(own, Const) and "%chosen" in value.attrs:
        own = chosen(own, site)
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
        with contextlib.suppress(PathEndedError), it.alternative():  # an AttributeError: it may be there all the same
            return call(it, bind(value, fallback), [Const(name)], {}, site)
    result = Data(NOTHING, site)
    if value.cls.is_opaque or "%opaque" in value.attrs:
        result.state["method of"] = value
    else:
        it.note_unknown(f"the attribute {name} of {value.cls.name}, which nothing sets", site)
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
    return Instance(args[0], site, key=it.path) if args and isinstance(args[0], Class) else Data(NOTHING)


def _opaque_init(it: Interpreter, receiver: Value, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    if isinstance(receiver, Instance):
        if receiver.cls.is_opaque:
            for value in (*args, *kwargs.values()):
                escape(it, value, site)
        else:
            classes.fill_fields(it, receiver, args, kwargs)
    return NONE


def set_attribute(it: Interpreter, owner: Value, name: str, value: Value, site: Site) -> None:
    if isinstance(owner, Instance):
        found = owner.cls.lookup(name)
        if isinstance(found, Property) and found.setter is not None:
            call(it, found.setter, [owner, value], {}, site)
            return
        weights.setting(it, owner, name, value, site)
        value = states.kept(it, owner, name, value, site)
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
        found = step or value.cls.lookup("__getitem__")
        if found is not None:
            try:
                with it.alternative():
                    item = call(it, bind(value, found), [] if step else [expressions.counter(it, site)], {}, site)
            except PathEndedError:
                return  # a StopIteration, or an IndexError
            take(item)
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
        found = listings.of_set(it, value, site)
        if found is not None:
            take(found)
    elif isinstance(value, Mapping):
        take(mappings.key_of(value))
    elif isinstance(value, Data):
        take(tensors.row(value, site))
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


def enter(it: Interpreter, manager: Value, inside: Callable[[Value], Completion], site: Site) -> bool:
    """Execute a `with` block: what the manager does before, the block, what the manager does after.

    Answers whether the manager may swallow an exception.
    """
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
        return False
    if isinstance(manager, Instance):
        begin = manager.cls.lookup("__enter__") or manager.cls.lookup("__aenter__")
        end = manager.cls.lookup("__exit__") or manager.cls.lookup("__aexit__")
        value = call(it, bind(manager, begin), [], {}, site) if begin is not None else manager
        inside(value)
        return end is not None and it.truth(call(it, bind(manager, end), [NONE, NONE, NONE], {}, site)) is not False
    if isinstance(manager, Choice):
        # Which context surrounds the block is not known: the block is executed once, inside each of them in turn.
        first, *others = [m for m in manager.options if not (isinstance(m, Const) and m.value is None)] or [NONE]
        swallows: list[bool] = []
        mark = it.trail.mark()

        def within(value: Value) -> Completion:
            _entered_perhaps(it, manager, first, mark)
            return _inner(it, manager, others, inside, value, site, swallows)

        swallows.append(enter(it, first, within, site))
        return any(swallows)
    inside(manager if not isinstance(manager, Foreign) else Data(NOTHING))
    return False


def _entered_perhaps(it: Interpreter, choice: Choice, entered: Value, mark: Mark) -> None:
    """Doubt what a manager set on objects since the mark: it was entered only if it is the one that was chosen."""
    for write in it.trail.writes(mark).values():
        if write.store is it.machine or not isinstance(write.old, Value) or not isinstance(write.new, Const):
            continue
        joined = join(write.old, write.new)
        if choice.test is not None:
            yes, no = (write.new, write.old) if entered is choice.options[0] else (write.old, write.new)
            joined = decided(joined if yes is write.old else join(yes, no), choice.test, yes, no)
        it.trail.set(write.store, write.key, joined)


def _inner(
    it: Interpreter,
    choice: Choice,
    others: list[Value],
    inside: Callable[[Value], Completion],
    value: Value,
    site: Site,
    swallows: list[bool],
) -> Completion:
    if not others:
        return inside(value)
    outcome: list[Completion] = []
    mark = it.trail.mark()

    def within(_: Value) -> Completion:
        _entered_perhaps(it, choice, others[0], mark)
        outcome.append(_inner(it, choice, others[1:], inside, value, site, swallows))
        return outcome[-1]

    swallows.append(enter(it, others[0], within, site))
    return outcome[-1] if outcome else Completion.NORMAL
