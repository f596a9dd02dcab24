"""OpenCV: images are arrays."""

from dpcheck_intrinsics import operation, read_from, tensor_function

INTER_LINEAR = 1
INTER_AREA = 3
INTER_CUBIC = 2
INTER_NEAREST = 0
COLOR_BGR2RGB = 4
COLOR_RGB2BGR = 4
COLOR_BGR2GRAY = 6
IMREAD_COLOR = 1
IMREAD_GRAYSCALE = 0
IMREAD_UNCHANGED = -1
BORDER_CONSTANT = 0


def imread(filename, flags=1):
    return read_from(filename, "tensor", even=True)


def imdecode(buf, flags=1):
    return read_from(buf, "tensor", even=True)


def resize(src, dsize, *args, **kwargs):
    return operation("relu", [src])


def cvtColor(src, code, *args):
    return operation("relu", [src])


def setNumThreads(nthreads):
    pass


def imwrite(filename, img, *args):
    pass


class ocl:
    @staticmethod
    def setUseOpenCL(flag):
        pass


def __getattr__(name):
    return tensor_function(name)
