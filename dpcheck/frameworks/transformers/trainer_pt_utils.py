from dpcheck_intrinsics import gather_stacked, local_index, record, unknown


def nested_detach(tensors):
    return tensors


def distributed_concat(tensor, num_total_examples=None):
    return gather_stacked(tensor)


class LengthGroupedSampler:
    def __init__(self, batch_size, dataset=None, lengths=None, **kwargs):
        self.dataset = dataset

    def __iter__(self):
        yield local_index()

    def __len__(self):
        return len(self.dataset)


class DistributedLengthGroupedSampler(LengthGroupedSampler):
    def __init__(self, batch_size, dataset=None, num_replicas=None, rank=None, **kwargs):
        self.dataset = dataset
        record("shard", self, num_replicas=num_replicas, rank=rank)

    def __iter__(self):
        yield local_index(sharded=True)


def get_parameter_names(model, *args):
    return ["weight"]


class LabelSmoother:
    def __init__(self, epsilon=0.1, ignore_index=-100):
        pass

    def __call__(self, model_output, labels, shift_labels=False, **kwargs):
        return unknown(model_output.logits, labels)


def __getattr__(name):
    return lambda *args, **kwargs: unknown(*args)
