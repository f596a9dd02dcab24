from dpcheck_intrinsics import constant


def run(main, argv=None, **kwargs):
    main([constant("str")])


class UsageError:
    def __init__(self, *args):
        pass
