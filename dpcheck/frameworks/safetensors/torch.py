from dpcheck_intrinsics import read_from, record


def load_file(filename, *args, **kwargs):
    record("read", None, path=filename)
    return read_from(filename)


def load_model(model, filename, *args, **kwargs):
    record("read", None, path=filename)
    model.load_state_dict(read_from(filename))


def save_file(tensors, filename, *args, **kwargs):
    record("write", tensors, path=filename)


save_model = save_file
