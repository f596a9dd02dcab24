"""How a statement ends, and how a path of execution does that goes no further."""

from __future__ import annotations

import enum


class Completion(enum.Enum):
    """`RAISE`: an exception. `ABSTRACT`: a NotImplementedError, in whose place a run has code of another class.
    `EXIT`: the process ends; what it did until then counts.
    """

    NORMAL = 0
    RETURN = 1
    BREAK = 2
    CONTINUE = 3
    RAISE = 4
    ABSTRACT = 5
    EXIT = 6

    @property
    def is_end(self) -> bool:
        """Does nothing follow, in this function or those that called it?"""
        return self.value >= Completion.RAISE.value


class PathEndedError(Exception):
    """A call that does not return, on any of its paths. The block around it ends, and what was to follow it."""

    def __init__(self, completion: Completion) -> None:
        super().__init__()
        self.completion = completion
