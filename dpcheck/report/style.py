"""Colours for a terminal, and text made safe and measured for one."""

from __future__ import annotations

import unicodedata

from dpcheck.rule import Severity

_SEVERITY = {Severity.ERROR: "1;31", Severity.WARNING: "1;33", Severity.NOTE: "1;36"}
_TAB = "    "


class Style:
    """Wraps text in colours, or leaves it as it is."""

    def __init__(self, color: bool) -> None:
        self.color = color

    def paint(self, code: str, text: str) -> str:
        return f"\033[{code}m{text}\033[0m" if self.color and text else text

    def bold(self, text: str) -> str:
        return self.paint("1", text)

    def faint(self, text: str) -> str:
        return self.paint("1;34", text)

    def severity(self, severity: Severity, text: str) -> str:
        return self.paint(_SEVERITY[severity], text)


def shown(text: str) -> str:
    """The text as a terminal may be given it: tabs widened, and nothing left that would steer the terminal."""
    return text if text.isascii() and text.isprintable() else "".join(map(_shown, text))


def _shown(char: str) -> str:
    if char == "\t":
        return _TAB
    if char < " ":
        return chr(0x2400 + ord(char))  # the control pictures: ␛ for escape
    # Category Cf holds what reorders text on screen, and the joiners that emoji and some scripts need.
    if char in "\u200c\u200d" or char.isprintable() or unicodedata.category(char) in ("Zs", "Cn", "Co"):
        return char
    return "\N{REPLACEMENT CHARACTER}"


def width(text: str) -> int:
    """How many columns the text takes once `shown`."""
    return sum(map(_width, shown(text)))


def _width(char: str) -> int:
    if unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1
