from dpcheck_intrinsics import certainly, counter


class tqdm:
    """A bar that is disabled counts nothing: its `n` stays where it began."""

    def __init__(self, iterable=None, *args, initial=0, disable=False, **kwargs):
        self.iterable = iterable
        self.initial = initial
        self.disable = disable

    def __iter__(self):
        yield from self.iterable

    def __len__(self):
        return len(self.iterable)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        return None

    @property
    def n(self):
        if certainly(not self.disable):
            return counter()
        return self.initial if self.disable else counter()

    total = None

    def update(self, n=1):
        pass

    def reset(self, total=None):
        pass

    def refresh(self):
        pass

    def clear(self):
        pass

    def display(self, *args, **kwargs):
        pass

    def unpause(self):
        pass

    @classmethod
    def pandas(cls, *args, **kwargs):
        pass

    def set_postfix(self, *args, **kwargs):
        pass

    def set_description(self, *args, **kwargs):
        pass

    def write(self, *args, **kwargs):
        pass

    def close(self):
        pass

    def set_postfix_str(self, *args, **kwargs):
        pass


def trange(*args, **kwargs):
    return range(*args)
