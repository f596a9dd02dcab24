from dpcheck_intrinsics import read_from


def load_file(filename, *args, **kwargs):
    return read_from(filename)


def load_model(model, filename, *args, **kwargs):
    model.load_state_dict(read_from(filename))


def save_file(*args, **kwargs):
    pass


save_model = save_file
