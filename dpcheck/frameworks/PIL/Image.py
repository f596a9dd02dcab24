from dpcheck_intrinsics import constant, read_from, record


class Image:
    def __init__(self, source=None):
        setattr(self, "%facts", read_from(source, "tensor", even=True))

    mode = "RGB"
    size = (8, 8)
    width = 8
    height = 8
    info = {}

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        return None

    def convert(self, *args, **kwargs):
        return self

    resize = convert
    crop = convert
    copy = convert
    rotate = convert
    transpose = convert
    filter = convert
    point = convert
    thumbnail = convert
    quantize = convert
    getchannel = convert

    def split(self):
        return (self, self, self)

    def load(self):
        pass

    def save(self, fp, *args, **kwargs):
        record("write", self, path=fp)

    def close(self):
        pass

    def getdata(self):
        return read_from(self, "tensor")

    def getexif(self):
        return constant()


def open(fp, mode="r", formats=None):
    return Image(fp)


def fromarray(obj, mode=None):
    return Image(obj)


def new(mode, size, color=0):
    return Image(constant())


class Resampling:
    NEAREST = 0
    BILINEAR = 2
    BICUBIC = 3
    LANCZOS = 1


BILINEAR = 2
BICUBIC = 3
LANCZOS = 1
NEAREST = 0
ANTIALIAS = 1
FLIP_LEFT_RIGHT = 0
MAX_IMAGE_PIXELS = 0


def __getattr__(name):
    return 0
