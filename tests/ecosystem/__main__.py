"""`python -m tests.ecosystem`: check the packages in packages.txt and compare with recorded.toml.

Wheels are fetched without their dependencies and unpacked outside the repository; none is installed or imported. Every
finding has a verdict there, read in the source. What appeared or vanished is printed, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HERE = Path(__file__).parent
PACKAGES = HERE / "packages.txt"
RECORDED = HERE / "recorded.toml"
VERDICTS = ("right", "wrong", "arguable")
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dpcheck-ecosystem"
TARGET = ["--implementation", "cp", "--python-version", "3.11", "--abi", "cp311", "--abi", "none"]
PLATFORMS = [f"--platform={name}" for name in ("any", "manylinux1_x86_64", "manylinux2014_x86_64")]
"""One Python and platform, whatever runs this: the wheels are read, and not run."""
DATA = re.compile(r"^[^/]+\.data/(?:purelib|platlib)/")
HEADER = """\
# The findings in the packages of packages.txt: `python -m tests.ecosystem --record` writes their places anew and keeps
# the verdicts (right, wrong, arguable) and reasons, which people write after reading the source.
"""


class Found(NamedTuple):
    """A finding; `at` is `path:line`."""

    package: str
    at: str
    code: str


class Verdict(NamedTuple):
    verdict: str = ""
    reason: str = ""


def name(pin: str) -> str:
    return pin.partition("==")[0]


def fetched(pin: str, keep: Path) -> Path:
    """The folder with the unpacked wheel of `name==version`."""
    folder = keep / pin.replace("==", "-")
    if not folder.exists():
        wheels = keep / "wheels" / folder.name
        command = ["download", "--quiet", "--no-deps", "--only-binary", ":all:", *TARGET, *PLATFORMS, "-d", str(wheels)]
        subprocess.run([sys.executable, "-m", "pip", *command, pin], check=True)
        (wheel,) = wheels.glob("*.whl")
        unpack(wheel, folder)
    return folder


def unpack(wheel: Path, folder: Path) -> None:
    """The Python files of a wheel, where an installation would put them. All of them, or no folder."""
    partial = folder.with_suffix(".partial")
    with zipfile.ZipFile(wheel) as archive:
        for member in archive.infolist():
            if member.filename.endswith(".py"):
                member.filename = DATA.sub("", member.filename)
                archive.extract(member, partial)
    partial.rename(folder)


def checked(pin: str, folder: Path) -> set[Found]:
    command = [sys.executable, "-m", "dpcheck", "check", ".", "--no-cache", "--exit-zero", "--output", "json"]
    run = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, check=True)
    findings = json.loads(run.stdout)["findings"]
    return {Found(name(pin), f"{each['path']}:{each['line']}", each["code"]) for each in findings}


def recorded() -> dict[Found, Verdict]:
    rows = tomllib.loads(RECORDED.read_text("utf-8")).get("finding", []) if RECORDED.exists() else []
    return {Found(row["package"], row["at"], row["code"]): Verdict(row["verdict"], row["reason"]) for row in rows}


def record(verdicts: dict[Found, Verdict]) -> None:
    text = HEADER
    for found, verdict in sorted(verdicts.items()):
        row = found._asdict() | verdict._asdict()
        text += "\n[[finding]]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in row.items())
    RECORDED.write_text(text, "utf-8")


def listed(title: str, findings: Iterable[Found], known: dict[Found, Verdict]) -> None:
    for found in sorted(findings):
        verdict = known.get(found, Verdict())
        print(f"{title}: {' '.join(found)}" + (f" ({verdict.verdict}: {verdict.reason})" if verdict.verdict else ""))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("packages", nargs="*", metavar="PACKAGE", help="only these of the packages in packages.txt")
    parser.add_argument("--keep", type=Path, default=CACHE, metavar="FOLDER", help=f"where they lie (default: {CACHE})")
    parser.add_argument("--record", action="store_true", help="write recorded.toml, with the verdicts that it has")
    args = parser.parse_args()
    args.keep.mkdir(parents=True, exist_ok=True)
    pins = [
        pin
        for pin in PACKAGES.read_text("utf-8").split()
        if not args.packages or pin.partition("==")[0] in args.packages
    ]
    known = recorded()
    seen: set[Found] = set()
    for pin in pins:
        started = time.perf_counter()
        found = checked(pin, fetched(pin, args.keep))
        seen |= found
        print(f"{pin}: {len(found)} findings ({time.perf_counter() - started:.1f} s)", flush=True)
    names = {name(pin) for pin in pins}
    expected = {found for found in known if found.package in names}
    if args.record:
        others = {found: verdict for found, verdict in known.items() if found.package not in names}
        record(others | {found: known.get(found, Verdict()) for found in seen})
    listed("appeared", seen - expected, known)
    listed("vanished", expected - seen, known)
    unjudged = {found for found in seen & expected if known[found].verdict not in VERDICTS}
    listed("without a verdict", unjudged, known)
    counts = {verdict: sum(known[found].verdict == verdict for found in seen & expected) for verdict in VERDICTS}
    print(f"{len(seen)} findings: " + ", ".join(f"{count} {verdict}" for verdict, count in counts.items()))
    return int(seen != expected or bool(unjudged))


if __name__ == "__main__":
    sys.exit(main())
