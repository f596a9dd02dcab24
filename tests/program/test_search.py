from __future__ import annotations

from pathlib import Path

import libcst as cst
import pytest

from dpcheck.program.lower import lower
from dpcheck.program.search import additions


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    for folder in ("lib", "tools/lib", "tools/scripts", "vendor/a", "vendor/b"):
        (tmp_path / folder).mkdir(parents=True)
    return tmp_path


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import sys\nsys.path.append('lib')", ["lib"]),
        ("import sys\nsys.path.append('.')", ["tools/scripts", "."]),
        ("import sys\nsys.path.insert(0, '..')", ["tools"]),
        ("import sys\nsys.path.insert(0, '../lib')", ["tools/lib"]),
        ("import sys as s\ns.path.extend(['lib', 'vendor/a'])", ["lib", "vendor/a"]),
        ("import sys\nsys.path += ['vendor/a', 'nowhere', 'vendor/b']", ["vendor/a", "vendor/b"]),
        ("import sys\nsys.path = ['lib'] + sys.path", ["lib"]),
        ("from sys import path\npath.append('lib')", ["lib"]),
        ("from sys import path as p\np.append('lib')", ["lib"]),
        ("import site\nsite.addsitedir('vendor/a')", ["vendor/a"]),
        ("import os, sys\nsys.path.append(os.path.dirname(os.path.abspath(__file__)))", ["tools/scripts"]),
        ("import os, sys\nsys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))", ["tools"]),
        ("import os, sys\nsys.path.append(os.path.join(os.path.dirname(__file__), '..', 'lib'))", ["tools/lib"]),
        ("import os, sys\nsys.path.append(os.path.join(os.path.dirname(__file__), os.pardir, os.pardir))", ["."]),
        (
            "import os.path as osp, sys\nhere = osp.dirname(__file__)\nsys.path.insert(0, osp.join(here, '..'))",
            ["tools"],
        ),
        (
            "from os.path import *\nimport sys\nsys.path.append(join(dirname(realpath(__file__)), '../lib'))",
            ["tools/lib"],
        ),
        ("import sys\nfrom pathlib import Path\nsys.path.append(str(Path(__file__).parent))", ["tools/scripts"]),
        ("import sys, pathlib\nsys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / 'lib'))", ["lib"]),
        (
            "import sys\nfrom pathlib import *\nF = Path(__file__).resolve()\nsys.path.append(str(F.parents[1]))",
            ["tools"],
        ),
        (
            "import sys\nfrom pathlib import *\nsys.path.append(Path(__file__).joinpath('..', '..', '..').as_posix())",
            ["."],
        ),
        ("import sys\nfrom pathlib import Path\nsys.path.append(f'{Path(__file__).parent.parent}/lib')", ["tools/lib"]),
        ("import sys, os\nsys.path.append(os.path.dirname(__file__) + '/../lib')", ["tools/lib"]),
        ("import sys, os\nsys.path.append(os.getcwd())", ["tools/scripts", "."]),
        ("import sys, os\nsys.path.append(os.path.split(os.path.abspath(sys.argv[0]))[0])", ["tools/scripts"]),
        ("import sys, os\nsys.path.append(os.path.join(sys.path[0], '..'))", ["tools"]),
        (
            "import sys, os, inspect\nsys.path.append(os.path.dirname(inspect.getfile(inspect.currentframe())))",
            ["tools/scripts"],
        ),
        ("try:\n    import x\nexcept ImportError:\n    import sys\n    sys.path.append('lib')", ["lib"]),
        ("import sys\nif True:\n  with x:\n    sys.path.append('lib')", ["lib"]),
        ("import sys\nsys.path.append(unknown())", []),
        ("import sys\nsys.path.append(sys.argv[1])", []),
        ("import sys\ndef f(): sys.path.append('lib')", []),
        ("import sys\ndef f(): sys.path.append('lib')\nf()", ["lib"]),
        ("import sys\ndef f(path):\n  if path not in sys.path:\n    sys.path.insert(0, path)\nf('lib')", ["lib"]),
        ("import sys\ndef f(x): sys.path.append(x)\ny = 'vendor/'\nf(y + 'a')\nf(y + 'b')", ["vendor/a", "vendor/b"]),
        ("import sys\ndef f(x):\n  sys.path.append(x)\n  f(x)\nf('lib')", ["lib"]),
        ("x.path.append('lib')", []),
        ("import sys\nx = x + 'a'\nsys.path.append(x)", []),
        ("import sys\nsys.path.remove('lib')", []),
    ],
)
def test_additions(repository: Path, text: str, expected: list[str]) -> None:
    module = lower(cst.parse_module(text))
    found = additions(module, repository / "tools" / "scripts" / "train.py", repository)
    assert [path.relative_to(repository).as_posix() for path in found] == expected
