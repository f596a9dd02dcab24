class tqdm:
    def __init__(self, iterable=None, *args, **kwargs):
        self.iterable = iterable

    def __iter__(self):
        yield from self.iterable

    def __len__(self):
        return len(self.iterable)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        return None

    n = 0
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
