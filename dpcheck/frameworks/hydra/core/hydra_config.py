from dpcheck_intrinsics import constant


class HydraConfig:
    @classmethod
    def get(cls):
        return constant()

    @classmethod
    def initialized(cls):
        return constant("bool")
