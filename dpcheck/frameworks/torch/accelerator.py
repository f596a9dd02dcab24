"""The accelerator of the machine, whichever it is."""

from dpcheck_intrinsics import constant, device_count as _device_count


def is_available():
    return True


def device_count():
    return _device_count()


def current_accelerator(check_available=False):
    return constant("device")


def set_device_index(device):
    pass


set_device_idx = set_device_index


def current_device_index():
    return constant("int")


def synchronize(device=None):
    pass


def __getattr__(name):
    return lambda *args, **kwargs: constant()
