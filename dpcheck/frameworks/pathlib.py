"""Paths. A listing has no fixed order; what is read is the same on every rank where the path is."""

from dpcheck_intrinsics import constant, kind_of, read_from, record, unordered


class PurePath:
    def __init__(self, *parts):
        text = "/".join(parts) if len(parts) != 1 else parts[0]
        setattr(self, "%facts", text if kind_of(text) == "text" else read_from(text, "str"))

    def __truediv__(self, other):
        return Path(f"{self}{other}")

    def __rtruediv__(self, other):
        return Path(f"{other}{self}")

    def joinpath(self, *others):
        return Path(f"{self}{others}")

    def with_suffix(self, suffix):
        return self

    def with_name(self, name):
        return Path(f"{self}{name}")

    with_stem = with_name

    def relative_to(self, other):
        return self

    def as_posix(self):
        return str(self)

    def is_absolute(self):
        return constant("bool")

    def match(self, pattern):
        return constant("bool")

    @property
    def parent(self):
        return self

    @property
    def parents(self):
        return [self]

    @property
    def name(self):
        return str(self)

    @property
    def stem(self):
        return str(self)

    @property
    def suffix(self):
        return str(self)

    @property
    def parts(self):
        return [str(self)]


class Path(PurePath):
    @classmethod
    def cwd(cls):
        return Path(constant("str"))

    @classmethod
    def home(cls):
        return Path(constant("str"))

    def resolve(self, strict=False):
        return self

    absolute = resolve
    expanduser = resolve

    def exists(self):
        return read_from(self, "bool")

    is_dir = exists
    is_file = exists

    def iterdir(self):
        return [Path(each) for each in unordered()]

    def glob(self, pattern):
        return [Path(each) for each in unordered()]

    rglob = glob

    def read_text(self, *args, **kwargs):
        record("read", None, path=self)
        return read_from(self, "str")

    read_bytes = read_text

    def write_text(self, data, *args, **kwargs):
        record("write", data, path=self)

    write_bytes = write_text

    def open(self, mode="r", *args, **kwargs):
        return open(self, mode)

    def mkdir(self, mode=511, parents=False, exist_ok=False):
        pass

    def unlink(self, missing_ok=False):
        pass

    def touch(self, *args, **kwargs):
        pass

    def rename(self, target):
        return self

    def stat(self):
        return constant()


class PosixPath(Path):
    pass
