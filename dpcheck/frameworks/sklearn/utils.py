from sklearn.model_selection import _order


def shuffle(*arrays, random_state=None, n_samples=None):
    order = _order(arrays[0], random_state)
    made = [array[order] for array in arrays]
    return made[0] if len(made) == 1 else made
