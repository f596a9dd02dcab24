from dpcheck_intrinsics import operation


def _flatten_dense_tensors(tensors):
    return operation("cat", [tensors])


def _unflatten_dense_tensors(flat, tensors):
    return [flat for _ in tensors]


def _take_tensors(tensors, size_limit):
    return [tensors]
