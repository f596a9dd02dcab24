from dpcheck_intrinsics import constant, read_from, tensor_function


def load(path, *args, **kwargs):
    return read_from(path, "tensor"), constant("int")


def __getattr__(name):
    return tensor_function(name)
