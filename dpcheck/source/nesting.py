"""How deep a text nests, found without parsing it.

libcst 1.9 kills the process (SIGSEGV) on some 1,500 nested brackets and on chains of 3,000 to 10,000 operators, calls
or attributes, takes minutes over far fewer, and parses `match` patterns in time that doubles with each bracket.
`compile` dies on 100,000 `for` clauses. So a text is measured before either sees it.
"""

from __future__ import annotations

import re

# CPython's own limit is 200 as well.
BRACKETS = 200
# Operators, attributes, calls, `elif`s … that hang on one another. Generated code has chains of a thousand.
CHAIN = 3000
# Brackets in a pattern, braces counted twice: 14 take libcst 60 ms, each further one twice the time.
PATTERN = 14
# What a level of indentation weighs: its parsing takes three times the stack that a bracket takes.
INDENT = 3

STRING = (
    r'"""[^"\\]*(?:(?:\\[\s\S]|"(?!""))[^"\\]*)*(?:"""|\Z)'
    r"|'''[^'\\]*(?:(?:\\[\s\S]|'(?!''))[^'\\]*)*(?:'''|\Z)"
    r'|"[^"\\\r\n]*(?:\\(?:\r\n|[\s\S])[^"\\\r\n]*)*"?'
    r"|'[^'\\\r\n]*(?:\\(?:\r\n|[\s\S])[^'\\\r\n]*)*'?"
    r"|#[^\r\n]*"
)
SYMBOL = r"[()\[\]{}.,;+\-*/%@&|^~]|\\(?:\r\n|[\s\S])"
LINE = r"[\r\n]+[ \t\f]*(?:case\b(?![ \t]*[=.,:)\]])|(?:elif|def|class|import|return|with|while|raise|try|del)\b)?"
WORD = r"\b(?:not|and|or|if|for|else|lambda|await)\b"
TOKENS = re.compile(f"{STRING}|{SYMBOL}|{LINE}|{WORD}")
# What stands in an f-string, where quotes and comments cannot be told from text.
INSIDE = re.compile(f"{SYMBOL}|[\r\n]|{WORD}")


def measure(text: str) -> tuple[int, int | None]:
    """How deep the text nests at most, and the offset at which that is too deep to be parsed, if it is.

    The depth is an upper bound: it counts what could hang on one another.
    """
    return scan(text, TOKENS)


def scan(text: str, tokens: re.Pattern[str], *, code: bool = True) -> tuple[int, int | None]:
    """`below` is the depth that the enclosing brackets add. At the current level, `terms` counts operators since the
    last comma, `factors` those that bind tighter than `+` since the last one that does not, and `postfix` the
    attributes, calls and adjacent strings since the last operator.

    Outside `code` (in an f-string), only what stands in braces counts.
    """
    deepest = 0
    stack: list[tuple[int, int, int, int]] = []
    below = terms = factors = postfix = 0
    widths: set[int] = set()  # of indentation: there are at least as many as levels
    elifs: dict[int, int] = {}  # by indentation: how many stand in a row
    pattern = PATTERN + 1  # what is left to a pattern; above PATTERN: the line is not one
    for match in tokens.finditer(text):
        start = match.start()
        char = text[start]
        if char == ".":
            postfix += 1
        elif char in "([{":
            stack.append((below, terms, factors, postfix + 1))
            below += terms + factors + postfix + 1
            terms = factors = postfix = 0
            if len(stack) > BRACKETS:
                return below, start
            if pattern <= PATTERN:
                pattern -= 2 if char == "{" else 1
                if pattern < 0:
                    return below, start
        elif char in ")]}":
            if stack:
                below, terms, factors, postfix = stack.pop()
                if pattern <= PATTERN:
                    pattern += 2 if char == "}" else 1
            continue
        elif char in ",;":
            terms = factors = postfix = 0
            continue
        elif char in "\r\n":
            line = match[0]
            word = line.lstrip("\r\n \t\f")
            if word and word not in ("elif", "case"):
                stack.clear()  # no such word stands inside brackets: an odd string has hidden a closing one
            if stack:
                continue
            below = terms = factors = postfix = 0
            pattern = PATTERN if word == "case" else PATTERN + 1
            indent = len(line.lstrip("\r\n")) - len(word)
            widths.add(indent)
            if not elifs and word != "elif":
                continue
            if not word and text[match.end() : match.end() + 1] in ("#", ""):
                continue
            for level in [level for level in elifs if level > indent or (level == indent and word != "elif")]:
                del elifs[level]
            if word == "elif":
                elifs[indent] = elifs.get(indent, 0) + 1
            below = sum(elifs.values())
        elif char in "\"'":
            postfix += 1
            if match.end() - start > BRACKETS and "f" in text[max(start - 2, 0) : start].lower():
                depth, offset = scan(match[0].replace("{{", "").replace("}}", ""), INSIDE, code=False)
                deepest = max(deepest, below + depth)
                if offset is not None:
                    return deepest, start
        elif char == "#" or char == "\\":
            continue
        elif char in "*/%@":
            factors += 1
            postfix = 0
        else:
            terms += 1
            factors = postfix = 0
        depth = below + terms + factors + postfix
        if depth > deepest and (code or stack):
            deepest = depth
            if deepest > CHAIN:
                return deepest, start
    return deepest + INDENT * len(widths), None
