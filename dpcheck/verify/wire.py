"""Values as JSON, on the way between the processes and in their files."""

from __future__ import annotations

import json
from typing import TypeVar

import msgspec

_T = TypeVar("_T")


def encode(value: object) -> bytes:
    """The value as JSON. Names of files, arguments and variables of the environment need not be UTF-8."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return json.dumps(msgspec.to_builtins(value)).encode()  # bytes that are no text stand as lone surrogates


def decode(data: bytes | str, kind: type[_T]) -> _T:
    """What `encode` wrote. Raises `msgspec.MsgspecError` or `ValueError` for anything else."""
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:
        return msgspec.convert(json.loads(data), kind, str_keys=True)  # it alone reads lone surrogates
