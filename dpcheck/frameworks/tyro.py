from dpcheck_intrinsics import call_with_options, unknown


def cli(f, *args, default=None, **kwargs):
    return call_with_options(f)


class _Settings:
    def __getattr__(self, name):
        return lambda *args, **kwargs: unknown()

    def __getitem__(self, key):
        return key


conf = _Settings()
extras = _Settings()
MISSING = None
