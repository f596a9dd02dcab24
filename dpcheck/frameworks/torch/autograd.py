from dpcheck_intrinsics import backward as _backward, certainly, hand_written, unknown


class Function:
    @classmethod
    def apply(cls, *args):
        context = _Context()

        def forward():
            if certainly(hasattr(cls, "setup_context")):
                return cls.forward(*args)
            return cls.forward(context, *args)

        return hand_written(forward, lambda *gradients: cls.backward(context, *gradients), args)


class _Context:
    def save_for_backward(self, *tensors):
        self.saved_tensors = tensors

    def mark_dirty(self, *tensors):
        pass


class _Engine:
    def queue_callback(self, function):
        function()


class Variable:
    _execution_engine = _Engine()

    def __new__(cls, data, *args, **kwargs):
        return data


def backward(tensors, *args, **kwargs):
    _backward(tensors)


def grad(outputs, inputs, *args, **kwargs):
    return [unknown(outputs)]


def set_detect_anomaly(mode, check_nan=True):
    pass
