"""Losses and functions. What is not here is an elementwise tensor operation."""

from dpcheck_intrinsics import embedding as _embedding, layer, operation, pooled, reduce_targets, tensor_function


def named_reduction(size_average, reduce, reduction):
    """The reduction, by the older flags where one is given."""
    if size_average is None and reduce is None:
        return reduction
    if reduce is not None and not reduce:
        return "none"
    return "mean" if size_average is None or size_average else "sum"


def reduce_loss(input, target, reduction="mean"):
    """A loss with one value for each element."""
    return reduce_targets(input, target, reduction)


def cross_entropy(
    input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean", label_smoothing=0.0
):
    """One value for each target; the mean divides by the targets that are not ignored, or by their class weights."""
    reduction = named_reduction(size_average, reduce, reduction)
    return reduce_targets(input, target, reduction, classes=True, ignore_index=ignore_index, weight=weight)


def nll_loss(input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean"):
    reduction = named_reduction(size_average, reduce, reduction)
    return reduce_targets(input, target, reduction, classes=True, ignore_index=ignore_index, weight=weight)


def mse_loss(input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    reduction = named_reduction(size_average, reduce, reduction)
    return reduce_loss(input, target, reduction)


def l1_loss(input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    reduction = named_reduction(size_average, reduce, reduction)
    return reduce_loss(input, target, reduction)


def smooth_l1_loss(input, target, size_average=None, reduce=None, reduction="mean", beta=1.0):
    reduction = named_reduction(size_average, reduce, reduction)
    return reduce_loss(input, target, reduction)


def huber_loss(input, target, reduction="mean", delta=1.0, weight=None):
    return reduce_loss(input, target, reduction)


def binary_cross_entropy(input, target, weight=None, size_average=None, reduce=None, reduction="mean"):
    reduction = named_reduction(size_average, reduce, reduction)
    return reduce_loss(input, target, reduction)


def binary_cross_entropy_with_logits(
    input, target, weight=None, size_average=None, reduce=None, reduction="mean", pos_weight=None
):
    reduction = named_reduction(size_average, reduce, reduction)
    return reduce_loss(input, target, reduction)


def kl_div(input, target, size_average=None, reduce=None, reduction="mean", log_target=False):
    reduction = named_reduction(size_average, reduce, reduction)
    return reduce_loss(input, target, reduction)


def poisson_nll_loss(
    input, target, log_input=True, full=False, size_average=None, eps=1e-08, reduce=None, reduction="mean"
):
    reduction = named_reduction(size_average, reduce, reduction)
    return reduce_loss(input, target, reduction)


def gaussian_nll_loss(input, target, var, full=False, eps=1e-06, reduction="mean"):
    return reduce_loss(input, target, reduction)


def soft_margin_loss(input, target, size_average=None, reduce=None, reduction="mean"):
    reduction = named_reduction(size_average, reduce, reduction)
    return reduce_loss(input, target, reduction)


def multilabel_soft_margin_loss(input, target, weight=None, size_average=None, reduce=None, reduction="mean"):
    reduction = named_reduction(size_average, reduce, reduction)
    return reduce_loss(pooled(input), pooled(target), reduction)


def cosine_embedding_loss(input1, input2, target, margin=0, size_average=None, reduce=None, reduction="mean"):
    reduction = named_reduction(size_average, reduce, reduction)
    return reduce_loss(pooled(input1, input2), target, reduction)


def triplet_margin_loss(
    anchor, positive, negative, margin=1.0, p=2, eps=1e-06, swap=False, size_average=None, reduce=None, reduction="mean"
):
    reduction = named_reduction(size_average, reduce, reduction)
    return reduce_loss(pooled(anchor, positive), pooled(negative), reduction)


def ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=0, reduction="mean", zero_infinity=False):
    """One value for each sequence, divided by its own length before the mean."""
    return reduce_loss(layer(target_lengths, log_probs), target_lengths, reduction)


def cosine_similarity(x1, x2, dim=1, eps=1e-08):
    return operation("norm", [x1 * x2, 2, dim])


def pairwise_distance(x1, x2, p=2.0, eps=1e-06, keepdim=False):
    return operation("norm", [x1 - x2, 2, -1])


def normalize(input, p=2.0, dim=1, eps=1e-12, out=None):
    return operation("relu", [input])


def linear(input, weight, bias=None):
    return layer(input)


def conv2d(input, weight, *args, **kwargs):
    return layer(input)


def conv1d(input, weight, *args, **kwargs):
    return layer(input)


def embedding(input, weight, *args, **kwargs):
    return _embedding(input)


def layer_norm(input, *args, **kwargs):
    return layer(input)


def dropout(input, p=0.5, training=True, inplace=False):
    return input


def scaled_dot_product_attention(query, key, value, *args, **kwargs):
    return operation("relu", [query])


def interpolate(input, *args, **kwargs):
    return operation("relu", [input])


def adaptive_avg_pool2d(input, output_size):
    return pooled(input)


def avg_pool2d(input, *args, **kwargs):
    return operation("relu", [input])


def max_pool2d(input, *args, **kwargs):
    return operation("relu", [input])


def softmax(input, dim=None, **kwargs):
    return operation("softmax", [input])


def log_softmax(input, dim=None, **kwargs):
    return operation("log_softmax", [input])


def gumbel_softmax(logits, *args, **kwargs):
    return operation("softmax", [logits])


def __getattr__(name):
    return tensor_function(name)
