"""What torch does, as far as a data-parallel run depends on it. Functions that are not here are tensor operations."""

from dpcheck_intrinsics import constant, is_tensor as _is_tensor, named_like, no_grad as _no_grad, read_from, record, seed as _seed, state_dict, tensor_function, unknown

from torch import cuda, nn, optim, distributed, multiprocessing, utils
from torch import amp, backends, autograd

float16 = "float16"
bfloat16 = "bfloat16"
float32 = "float32"
float64 = "float64"
float = "float32"
half = "float16"
double = "float64"
long = "int64"
int64 = "int64"
int32 = "int32"
int = "int32"
int8 = "int8"
uint8 = "uint8"
bool = "bool"
inf = 1e9
pi = 3.14159
__version__ = "2.13.0"
strided = "strided"


class Tensor:
    pass


class Size:
    pass


OutOfMemoryError = cuda.OutOfMemoryError


class dtype:
    pass


class device:
    def __init__(self, type=None, index=None):
        self.type = type
        self.index = index


class Generator:
    def __init__(self, device=None):
        self.seed_value = None

    def manual_seed(self, seed):
        self.seed_value = seed
        return self

    def seed(self):
        self.fresh = True
        self.seed_value = None

    def initial_seed(self):
        return self.seed_value

    def get_state(self):
        return constant()

    def set_state(self, state):
        self.seed_value = unknown()


class _GradMode:
    """Gradients are off (or on) inside; as a decorator, during each call."""

    def __init__(self, off):
        self.off = off

    def __enter__(self):
        self.before = _no_grad(self.off)

    def __exit__(self, *exception):
        _no_grad(self.before)

    def __call__(self, function):
        def wrapper(*args, **kwargs):
            before = _no_grad(self.off)
            result = function(*args, **kwargs)
            _no_grad(before)
            return result

        return named_like(wrapper, function)


def no_grad(function=None):
    if function is not None:
        return _GradMode(True)(function)
    return _GradMode(True)


def inference_mode(mode=True):
    if callable(mode):
        return _GradMode(True)(mode)
    return _GradMode(mode)


def enable_grad():
    return _GradMode(False)


def set_grad_enabled(mode):
    return _GradMode(not mode)


class autocast:
    def __init__(self, *args, **kwargs):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        return None

    def __call__(self, function):
        return function


def manual_seed(seed):
    _seed("torch", seed)


def seed():
    _seed("torch", None)


def initial_seed():
    return unknown()


def get_rng_state():
    return constant()


def set_rng_state(state):
    _seed("torch", unknown(state))


def is_tensor(value):
    return _is_tensor(value)


def save(obj, f, *args, **kwargs):
    record("write", obj, path=f)


def load(f, *args, **kwargs):
    record("read", None, path=f)
    return read_from(f)


def compile(model=None, *args, **kwargs):
    if model is None:
        return lambda model: model
    return model


def set_float32_matmul_precision(precision):
    pass


def set_default_dtype(dtype):
    pass


def set_num_threads(count):
    pass


def use_deterministic_algorithms(*args, **kwargs):
    pass


def is_grad_enabled():
    return True


def __getattr__(name):
    return tensor_function(name)
