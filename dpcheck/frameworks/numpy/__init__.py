"""Arrays are tensors here: what is not below is the tensor operation of that name."""

from dpcheck_intrinsics import operation, read_from, record, tensor_function

from numpy import random

pi = 3.141592653589793
e = 2.718281828459045
inf = float("inf")
nan = float("nan")
newaxis = None
__version__ = "2.0.0"


class ndarray:
    pass


class generic:
    pass


class number(generic):
    pass


class integer(number):
    pass


class floating(number):
    pass


def _number(x=0):
    return operation("float", [x])


float16 = _number
float32 = _number
float64 = _number
float_ = _number
int8 = _number
int16 = _number
int32 = _number
int64 = _number
int_ = _number
uint8 = _number
uint16 = _number
uint32 = _number
uint64 = _number
bool_ = "bool"


class finfo:
    def __init__(self, dtype):
        self.eps = 1e-6
        self.max = 1e30
        self.min = -1e30


iinfo = finfo


def memmap(filename, dtype=None, mode="r", offset=0, shape=None, order="C"):
    return read_from(filename, "tensor")


def load(file, *args, **kwargs):
    record("read", None, path=file)
    return read_from(file, "tensor")


def loadtxt(fname, *args, **kwargs):
    record("read", None, path=fname)
    return read_from(fname, "tensor")


genfromtxt = loadtxt
fromfile = loadtxt


def frombuffer(buffer, *args, **kwargs):
    return read_from(buffer, "tensor")


def save(file, arr, **kwargs):
    record("write", arr, path=file)


def savez(file, *args, **kwargs):
    record("write", None, path=file)


savez_compressed = savez
savetxt = save


def ascontiguousarray(a, dtype=None):
    return a


def copy(a, order="K", subok=False):
    return operation("clone", [a])


def array_split(ary, indices_or_sections, axis=0):
    return operation("tensor_split", [ary, indices_or_sections])


def set_printoptions(*args, **kwargs):
    pass


def seterr(**kwargs):
    pass


def __getattr__(name):
    return tensor_function(name)
