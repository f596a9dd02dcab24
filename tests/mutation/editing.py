"""A module's tree: what stands where in it, and edits of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider

Node = TypeVar("Node", bound=cst.CSTNode)
Result = cst.CSTNode | cst.RemovalSentinel | cst.FlattenSentinel[cst.CSTNode]
Edit = Callable[[cst.CSTNode], Result]
"""Takes a node whose inside has been edited already and gives what stands in its place."""
Edits = Mapping[cst.CSTNode, Edit]
_HEADING = re.compile(r"\s*(#.*\n\s*)*([rR]?[\"']|from __future__)")


class Source:
    """One file of a program."""

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        wrapper = MetadataWrapper(cst.parse_module(text), unsafe_skip_copy=True)
        self.tree = wrapper.module
        self._positions = wrapper.resolve(PositionProvider)
        self.nodes: list[cst.CSTNode] = []
        self._parents: dict[cst.CSTNode, cst.CSTNode] = {}
        self._walk()
        self._imports = dict(self._imported())

    def _walk(self) -> None:
        waiting: list[cst.CSTNode] = [self.tree]
        while waiting:
            node = waiting.pop()
            self.nodes.append(node)
            children = node.children
            self._parents.update(dict.fromkeys(children, node))
            waiting += reversed(children)

    def _imported(self) -> Iterator[tuple[str, str]]:
        for node in self.nodes:
            if isinstance(node, (cst.Import, cst.ImportFrom)) and not isinstance(node.names, cst.ImportStar):
                within = f"{_dotted(node.module)}." if isinstance(node, cst.ImportFrom) and node.module else ""
                for name in node.names:
                    full = within + _dotted(name.name)
                    if name.asname is not None:
                        yield self.code(name.asname.name), full
                    else:
                        short = _dotted(name.name) if within else full.partition(".")[0]
                        yield short, full if within else short

    def code(self, node: cst.CSTNode) -> str:
        return self.tree.code_for_node(node).strip()

    def line(self, node: cst.CSTNode) -> int:
        return self._positions[node].start.line

    def find(self, kind: type[Node], within: cst.CSTNode | None = None) -> Iterator[Node]:
        """The nodes of that kind, in the order of the text."""
        for node in self.nodes:
            if isinstance(node, kind) and (within is None or self.inside(node, within)):
                yield node

    def calls(self, *names: str, within: cst.CSTNode | None = None) -> Iterator[cst.Call]:
        """The calls of what has one of these names, or ends with one."""
        for call in self.find(cst.Call, within):
            if self.name(call.func).rpartition(".")[2] in names:
                yield call

    def name(self, node: cst.CSTNode) -> str:
        """The dotted name with its import resolved, as `torch.nn.functional.mse_loss`; else empty."""
        first, dot, rest = _dotted(node).partition(".")
        return self._imports.get(first, first) + dot + rest

    def parent(self, node: cst.CSTNode) -> cst.CSTNode:
        return self._parents[node]

    def above(self, node: cst.CSTNode, kind: type[Node]) -> Iterator[Node]:
        """The nodes of that kind around this one, from the innermost."""
        while node in self._parents:
            node = self._parents[node]
            if isinstance(node, kind):
                yield node

    def inside(self, node: cst.CSTNode, other: cst.CSTNode) -> bool:
        while node is not other and node in self._parents:
            node = self._parents[node]
        return node is other

    def function(self, node: cst.CSTNode) -> cst.FunctionDef | cst.Module:
        return next(self.above(node, cst.FunctionDef), self.tree)

    def statement(self, node: cst.CSTNode) -> cst.SimpleStatementLine:
        """The line that holds the node. Raises StopIteration where it stands in the head of a block."""
        return next(self.above(node, cst.SimpleStatementLine))

    def siblings(self, statement: cst.CSTNode) -> list[cst.CSTNode]:
        """The statements of the block that a statement stands in."""
        block = self.parent(statement)
        return list(block.body) if isinstance(block, (cst.IndentedBlock, cst.Module)) else []

    def assigned(self, call: cst.CSTNode) -> str:
        """The one name or attribute that the statement around a node assigns to; else empty."""
        for assign in self.above(call, cst.Assign):
            if len(assign.targets) == 1 and self.inside(call, assign.value):
                return self.code(assign.targets[0].target)
        return ""

    def edited(self, edits: Edits) -> str:
        """The text after the edits, with the imports that they may need."""
        result = self.tree.visit(_Editor(edits))
        assert isinstance(result, cst.Module)
        for module in ("os", "torch"):
            if module not in self._imports and re.search(rf"(?<![\w.]){module}\.", result.code):
                first = next(each for each in result.body if not _HEADING.match(result.code_for_node(each)))
                place = result.body.index(first)
                body = [*result.body[:place], *statements(f"import {module}\n"), *result.body[place:]]
                result = result.with_changes(body=body)
        return result.code


class _Editor(cst.CSTTransformer):
    def __init__(self, edits: Edits) -> None:
        super().__init__()
        self._edits = edits

    def on_leave(self, original_node: cst.CSTNode, updated_node: cst.CSTNode) -> Result:  # type: ignore[override]
        edit = self._edits.get(original_node)
        return updated_node if edit is None else edit(updated_node)


def _dotted(node: cst.CSTNode | None) -> str:
    if isinstance(node, cst.Name):
        return node.value
    if isinstance(node, cst.Attribute):
        value = _dotted(node.value)
        return f"{value}.{node.attr.value}" if value else ""
    return ""


def statements(text: str) -> list[cst.CSTNode]:
    return list(cst.parse_module(text).body)


def removed(node: cst.CSTNode) -> Result:
    return cst.RemoveFromParent()


def to(text: str) -> Edit:
    """Another expression in its place, in parentheses: it may stand anywhere."""
    return lambda node: cst.parse_expression(f"({text})")


def around(before: str = "", after: str = "") -> Edit:
    """The statement between others."""
    return lambda node: cst.FlattenSentinel([*statements(before), node, *statements(after)])


def instead(text: str) -> Edit:
    """Another statement in its place."""
    (statement,) = statements(text)
    return lambda node: statement


def under(head: str) -> Edit:
    """The statement as the body of a compound one."""

    def edit(node: cst.CSTNode) -> Result:
        (outer,) = statements(f"{head}:\n    pass")
        assert isinstance(outer, (cst.If, cst.With))
        return outer.with_changes(body=cst.IndentedBlock([node]))  # type: ignore[list-item]

    return edit


def argument(call: cst.Call, keyword: str) -> cst.Arg | None:
    return next((arg for arg in call.args if arg.keyword is not None and arg.keyword.value == keyword), None)


def with_argument(keyword: str, text: str) -> Edit:
    """The call with this keyword argument, instead of the one it has."""

    def edit(node: cst.CSTNode) -> Result:
        assert isinstance(node, cst.Call)
        others = [arg for arg in node.args if arg.keyword is None or arg.keyword.value != keyword]
        equal = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
        new = cst.Arg(cst.parse_expression(text), keyword=cst.Name(keyword), equal=equal)
        return node.with_changes(args=[*map(_separated, others), new])

    return edit


def without_argument(keyword: str) -> Edit:
    def edit(node: cst.CSTNode) -> Result:
        assert isinstance(node, cst.Call)
        others = [arg for arg in node.args if arg.keyword is None or arg.keyword.value != keyword]
        return node.with_changes(args=[*map(_separated, others[:-1]), *others[-1:]])

    return edit


def _separated(arg: cst.Arg) -> cst.Arg:
    return arg.with_changes(comma=cst.Comma(whitespace_after=cst.SimpleWhitespace(" ")))


def both(*edits: Edit) -> Edit:
    """One edit after the other, of a single node."""

    def edit(node: cst.CSTNode) -> Result:
        for each in edits:
            result = each(node)
            assert isinstance(result, cst.CSTNode)
            node = result
        return node

    return edit
