"""Modules. A layer keeps the rows of its input; its weights carry gradient and are drawn when it is made."""

from dpcheck_intrinsics import constant, embedding, initialise, layer, load_state, module_call, submodules, operation, parameter, parameter_name, parameters as _parameters, pooled, record, reduce_targets, set_attributes, state_dict as _state_dict, train_mode, unknown

from torch.nn import functional, init, utils
from torch.nn import parallel
from torch.nn.functional import reduce_loss


class Parameter:
    def __new__(cls, data=None, requires_grad=True):
        return parameter(data)


class UninitializedParameter(Parameter):
    pass


def Buffer(tensor, persistent=True):
    return tensor


class Module:
    training = True

    def __init__(self, *args, **kwargs):
        set_attributes(self, {"%buffers": False})

    def __call__(self, *args, **kwargs):
        return module_call(self, self.forward, args, kwargs)

    def forward(self, *args):
        return layer(*args)

    def parameters(self, recurse=True):
        return _parameters(self)

    def named_parameters(self, *args, **kwargs):
        return [(parameter_name(), p) for p in _parameters(self)]

    def buffers(self, recurse=True):
        return [unknown()]

    def named_buffers(self, *args, **kwargs):
        return [(constant("str"), unknown())]

    def modules(self):
        return submodules(self)

    def named_modules(self, *args, **kwargs):
        return [(constant("str"), each) for each in submodules(self)]

    def children(self):
        return submodules(self)[1:]

    def named_children(self):
        return [(constant("str"), each) for each in submodules(self)[1:]]

    def state_dict(self, *args, **kwargs):
        return _state_dict(self)

    def load_state_dict(self, state_dict, strict=True, assign=False):
        load_state(self, state_dict)
        return unknown()

    def register_buffer(self, name, tensor, persistent=True):
        set_attributes(self, {"%buffers": True})
        setattr(self, name, tensor)

    def register_parameter(self, name, param):
        setattr(self, name, param)

    def add_module(self, name, module):
        setattr(self, name, module)

    register_module = add_module

    def register_forward_hook(self, hook, **kwargs):
        pass

    def register_full_backward_hook(self, hook, **kwargs):
        pass

    def get_submodule(self, target):
        return unknown(self)

    def apply(self, function):
        for each in submodules(self):
            function(each)
        record("apply", self)
        return self

    def train(self, mode=True):
        train_mode(self, mode)
        return self

    def eval(self):
        train_mode(self, False)
        return self

    def to(self, *args, **kwargs):
        return self

    def cuda(self, device=None):
        return self

    def cpu(self):
        return self

    def half(self):
        return self

    def float(self):
        return self

    def double(self):
        return self

    def bfloat16(self):
        return self

    def type(self, dtype):
        return self

    def to_empty(self, *args, **kwargs):
        return self

    def requires_grad_(self, requires_grad=True):
        record("requires grad", self, value=requires_grad)
        return self

    def zero_grad(self, set_to_none=True):
        record("zero grad", self)

    def compile(self, *args, **kwargs):
        pass

    def extra_repr(self):
        return ""


class _Layer(Module):
    """A layer with drawn weights."""

    def __init__(self, *args, **kwargs):
        self.weight = parameter(drawn=True)
        self.bias = parameter(drawn=True)
        if args:
            self.in_features = args[0]

    def forward(self, *args, **kwargs):
        return layer(*args)

    def reset_parameters(self):
        initialise(self.weight)


class _Plain(Module):
    """A layer without weights."""

    def __init__(self, *args, **kwargs):
        pass

    def forward(self, input, *args):
        return operation("relu", [input])


class Identity(_Plain):
    def forward(self, input, *args):
        return input


class Dropout(Identity):
    pass


class Dropout2d(Dropout):
    pass


class Flatten(Module):
    def __init__(self, start_dim=1, end_dim=-1):
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input):
        return operation("flatten", [input, self.start_dim])


class Linear(_Layer):
    pass


class LazyLinear(_Layer):
    pass


class Bilinear(_Layer):
    pass


class Conv1d(_Layer):
    pass


class Conv2d(_Layer):
    pass


class Conv3d(_Layer):
    pass


class ConvTranspose1d(_Layer):
    pass


class ConvTranspose2d(_Layer):
    pass


class LayerNorm(_Layer):
    pass


class RMSNorm(_Layer):
    pass


class GroupNorm(_Layer):
    pass


class InstanceNorm2d(_Layer):
    pass


class _BatchNorm(_Layer):
    def __init__(self, *args, **kwargs):
        self.weight = parameter()
        self.bias = parameter()
        self.batch_statistics = True


class BatchNorm1d(_BatchNorm):
    pass


class BatchNorm2d(_BatchNorm):
    pass


class BatchNorm3d(_BatchNorm):
    pass


class SyncBatchNorm(_BatchNorm):
    @classmethod
    def convert_sync_batchnorm(cls, module, process_group=None):
        record("sync batchnorm", module)
        return module


class Embedding(_Layer):
    def forward(self, input):
        return embedding(input)

    @classmethod
    def from_pretrained(cls, embeddings, *args, **kwargs):
        return cls()


class EmbeddingBag(_Layer):
    def forward(self, input, *args, **kwargs):
        return pooled(input)


class _Recurrent(_Layer):
    def forward(self, input, *args):
        return layer(input), layer(input)


class GRU(_Recurrent):
    pass


class LSTM(_Recurrent):
    def forward(self, input, *args):
        return layer(input), (layer(input), layer(input))


class RNN(_Recurrent):
    pass


class GRUCell(_Layer):
    pass


class LSTMCell(_Layer):
    def forward(self, input, *args):
        return layer(input), layer(input)


class RNNCell(_Layer):
    pass


class MultiheadAttention(_Layer):
    def forward(self, query, key, value, *args, **kwargs):
        return layer(query, key, value), layer(query, key, value)


class TransformerEncoderLayer(_Layer):
    def forward(self, src, *args, **kwargs):
        return layer(src)


class TransformerEncoder(_Layer):
    def forward(self, src, *args, **kwargs):
        return layer(src)


class TransformerDecoderLayer(_Layer):
    def forward(self, tgt, memory, *args, **kwargs):
        return layer(tgt, memory)


class TransformerDecoder(TransformerDecoderLayer):
    pass


class Transformer(_Layer):
    def forward(self, src, tgt, *args, **kwargs):
        return layer(tgt, src)


class ReLU(_Plain):
    pass


class GELU(_Plain):
    pass


class SiLU(_Plain):
    pass


class Tanh(_Plain):
    pass


class Sigmoid(_Plain):
    pass


class Softmax(_Plain):
    pass


class LogSoftmax(_Plain):
    pass


class LeakyReLU(_Plain):
    pass


class ELU(_Plain):
    pass


class Hardswish(_Plain):
    pass


class PReLU(_Layer):
    pass


class Upsample(_Plain):
    pass


class _Pool(_Plain):
    def forward(self, input, *args):
        return operation("relu", [input])


class MaxPool1d(_Pool):
    pass


class MaxPool2d(_Pool):
    pass


class AvgPool1d(_Pool):
    pass


class AvgPool2d(_Pool):
    pass


class _AdaptivePool(_Plain):
    def forward(self, input, *args):
        return pooled(input)


class AdaptiveAvgPool1d(_AdaptivePool):
    pass


class AdaptiveAvgPool2d(_AdaptivePool):
    pass


class AdaptiveMaxPool1d(_AdaptivePool):
    pass


class AdaptiveMaxPool2d(_AdaptivePool):
    pass


class CosineSimilarity(Module):
    def __init__(self, dim=1, eps=1e-8):
        self.dim = dim

    def forward(self, x1, x2):
        return functional.cosine_similarity(x1, x2, self.dim)


class PairwiseDistance(CosineSimilarity):
    pass


class Sequential(Module):
    def __init__(self, *args):
        self.layers = list(args)

    def forward(self, input):
        for each in self.layers:
            input = each(input)
        return input

    def append(self, module):
        _put(self, module)
        self.layers.append(module)
        return self

    def __getitem__(self, index):
        return self.layers[index]

    def __setitem__(self, index, module):
        _put(self, module)
        self.layers[index] = module

    def __iter__(self):
        yield from self.layers

    def __len__(self):
        return len(self.layers)


def _put(container, module):
    record("set module attribute", container, name="", value=module, fresh=False)


class ModuleList(Module):
    def __init__(self, modules=None):
        self.layers = list(modules) if modules is not None else []

    def append(self, module):
        _put(self, module)
        self.layers.append(module)
        return self

    def extend(self, modules):
        for module in modules:
            _put(self, module)
        self.layers.extend(modules)
        return self

    def insert(self, index, module):
        _put(self, module)
        self.layers.append(module)

    def __getitem__(self, index):
        return self.layers[index]

    def __setitem__(self, index, module):
        _put(self, module)
        self.layers[index] = module

    def __iter__(self):
        yield from self.layers

    def __len__(self):
        return len(self.layers)


class ParameterList(ModuleList):
    pass


class ModuleDict(Module):
    def __init__(self, modules=None):
        self.table = dict(modules) if modules is not None else {}

    def __getitem__(self, key):
        return self.table[key]

    def __setitem__(self, key, module):
        _put(self, module)
        self.table[key] = module

    def __contains__(self, key):
        return key in self.table

    def items(self):
        return self.table.items()

    def values(self):
        return self.table.values()

    def keys(self):
        return self.table.keys()

    def update(self, modules):
        self.table.update(modules)

    def __getattr__(self, name):
        return self.table[name]


class ParameterDict(ModuleDict):
    pass


class _Loss(Module):
    def __init__(self, size_average=None, reduce=None, reduction="mean"):
        self.reduction = functional.named_reduction(size_average, reduce, reduction)

    def __call__(self, *args, **kwargs):
        return self.forward(*args, **kwargs)

    def forward(self, input, target, *args):
        return reduce_loss(input, target, self.reduction)


class CrossEntropyLoss(_Loss):
    def __init__(self, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean", label_smoothing=0.0):
        self.weight = weight
        self.ignore_index = ignore_index
        self.reduction = functional.named_reduction(size_average, reduce, reduction)

    def forward(self, input, target):
        return functional.cross_entropy(input, target, weight=self.weight, ignore_index=self.ignore_index, reduction=self.reduction)


class NLLLoss(CrossEntropyLoss):
    pass


class NLLLoss2d(CrossEntropyLoss):
    pass


class MSELoss(_Loss):
    pass


class L1Loss(_Loss):
    pass


class SmoothL1Loss(_Loss):
    def __init__(self, size_average=None, reduce=None, reduction="mean", beta=1.0):
        self.reduction = functional.named_reduction(size_average, reduce, reduction)


class HuberLoss(_Loss):
    def __init__(self, reduction="mean", delta=1.0):
        self.reduction = reduction


class BCELoss(_Loss):
    def __init__(self, weight=None, size_average=None, reduce=None, reduction="mean"):
        self.reduction = functional.named_reduction(size_average, reduce, reduction)


class BCEWithLogitsLoss(_Loss):
    def __init__(self, weight=None, size_average=None, reduce=None, reduction="mean", pos_weight=None):
        self.reduction = functional.named_reduction(size_average, reduce, reduction)


class MultiLabelSoftMarginLoss(BCELoss):
    pass


class KLDivLoss(_Loss):
    def __init__(self, size_average=None, reduce=None, reduction="mean", log_target=False):
        self.reduction = functional.named_reduction(size_average, reduce, reduction)


class PoissonNLLLoss(_Loss):
    def __init__(self, log_input=True, full=False, size_average=None, eps=1e-08, reduce=None, reduction="mean"):
        self.reduction = functional.named_reduction(size_average, reduce, reduction)


class GaussianNLLLoss(_Loss):
    def __init__(self, *, full=False, eps=1e-06, reduction="mean"):
        self.reduction = reduction


class SoftMarginLoss(_Loss):
    pass


class CTCLoss(_Loss):
    """The mean over the batch of each sequence's loss divided by its own length: one value a row."""

    def __init__(self, blank=0, reduction="mean", zero_infinity=False):
        self.reduction = reduction

    def forward(self, log_probs, targets, input_lengths, target_lengths):
        return functional.ctc_loss(log_probs, targets, input_lengths, target_lengths, reduction=self.reduction)


class CosineEmbeddingLoss(_Loss):
    def __init__(self, margin=0.0, size_average=None, reduce=None, reduction="mean"):
        self.reduction = functional.named_reduction(size_average, reduce, reduction)

    def forward(self, input1, input2, target):
        return reduce_loss(pooled(input1, input2), target, self.reduction)


class TripletMarginLoss(_Loss):
    def __init__(self, margin=1.0, p=2.0, eps=1e-06, swap=False, size_average=None, reduce=None, reduction="mean"):
        self.reduction = functional.named_reduction(size_average, reduce, reduction)

    def forward(self, anchor, positive, negative):
        return reduce_loss(pooled(anchor, positive), pooled(negative), self.reduction)


class MarginRankingLoss(_Loss):
    def __init__(self, margin=0.0, size_average=None, reduce=None, reduction="mean"):
        self.reduction = functional.named_reduction(size_average, reduce, reduction)

    def forward(self, input1, input2, target):
        return reduce_loss(input1, input2, self.reduction)


modules = None


def __getattr__(name):
    return unknown()
