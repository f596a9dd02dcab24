from __future__ import annotations

import ast
import codecs
import os
from pathlib import Path

import pytest

from dpcheck.source.text import LARGEST, Unreadable, decode, load, position, read

HERE = Path("x.py")


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", ""),
        (b"x = 'a'", "x = 'a'"),
        ("x = 'ä€😀'\n".encode(), "x = 'ä€😀'\n"),
        (codecs.BOM_UTF8 + b"x = 1\r\n", "x = 1\r\n"),
        (codecs.BOM_UTF8 + b"# coding: utf-8\n", "# coding: utf-8\n"),
        (codecs.BOM_UTF8 + b"# coding: UTF_8-sig\n", "# coding: UTF_8-sig\n"),
        ("# -*- coding: latin-1 -*-\nx = 'ä'\n".encode("latin-1"), "# -*- coding: latin-1 -*-\nx = 'ä'\n"),
        ("#!/bin/python\n# vim: set fileencoding=cp1252 :\nx = '€'".encode("cp1252"), None),
        ("\n# coding: iso-8859-15\nx = '€'".encode("iso-8859-15"), None),
        ("# coding: shift_jis\nx = '日本'\n".encode("shift_jis"), None),
        (b"\x0c# coding: latin-1\nx = '\xe4'\n", "\x0c# coding: latin-1\nx = 'ä'\n"),
        ("x = 1\n# coding: latin-1\ny = 'ä'\n".encode(), "x = 1\n# coding: latin-1\ny = 'ä'\n"),
        ("\n\n# coding: latin-1\ny = 'ä'\n".encode(), "\n\n# coding: latin-1\ny = 'ä'\n"),
        ("x = 1 # coding: latin-1\ny = 'ä'\n".encode(), "x = 1 # coding: latin-1\ny = 'ä'\n"),
    ],
)
def test_decodes_as_python_does(data: bytes, text: str | None) -> None:
    source = decode(HERE, data)
    if text is not None:
        assert source.text == text
    assert source.data is data
    assert ast.dump(ast.parse(source.text)) == ast.dump(ast.parse(data))


@pytest.mark.parametrize(
    ("data", "reason", "line", "column"),
    [
        (b"x = 1\ny = '\xe4'\n", "cannot be decoded as utf-8", 2, 6),
        ("ä = '".encode() + b"\xff'", "cannot be decoded as utf-8", 1, 6),
        (b"x = 1\r\rab\0", "contains a null byte", 3, 3),
        (b"# coding: nonsense\n", "declares the unknown encoding nonsense", 1, 1),
        (b"# coding: hex\n", "declares the unknown encoding hex", 1, 1),
        (b"# coding: 0\n\n", "declares the unknown encoding 0", 1, 1),
        (
            codecs.BOM_UTF8 + b"# coding: latin-1\n",
            "has a UTF-8 byte order mark but declares the encoding latin-1",
            1,
            1,
        ),
        ("x = 1\n".encode("utf-16"), "cannot be decoded as utf-8", 1, 1),
        (b"# coding: ascii\nx = '\xe4'", "cannot be decoded as ascii", 2, 6),
    ],
)
def test_what_cannot_be_decoded(data: bytes, reason: str, line: int, column: int) -> None:
    with pytest.raises(Unreadable) as caught:
        decode(HERE, data)
    error = caught.value
    assert (error.path, error.reason, error.line, error.column) == (HERE, reason, line, column)
    with pytest.raises((SyntaxError, ValueError)):
        ast.parse(data)


def test_read(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(b"x = 1")
    assert read(path).text == "x = 1"
    with pytest.raises(Unreadable, match="cannot be read: No such file"):
        read(tmp_path / "b.py")
    with pytest.raises(Unreadable, match="is not a regular file"):
        read(tmp_path)


def test_how_much_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    with path.open("wb") as file:
        file.truncate(LARGEST)
    assert load(path)[1] == bytes(LARGEST)
    with path.open("ab") as file:
        file.truncate(LARGEST + 1)
    with pytest.raises(Unreadable, match="is larger than 4 MiB"):
        load(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names")
def test_what_has_no_end_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.py")
    with pytest.raises(Unreadable, match="is not a regular file"):
        load(tmp_path / "a.py")


def test_position() -> None:
    text = "a\nbc\r\nd\re"
    assert [position(text, text.index(char)) for char in "abcde"] == [(1, 1), (2, 1), (2, 2), (3, 1), (4, 1)]
