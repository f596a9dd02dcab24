"""WebDataset: shards of samples. `split_by_node` or `resampled` gives each rank its own."""

from dpcheck_intrinsics import certainly, constant, many, operation, read_from, sharded, unknown

from torch.utils.data import IterableDataset


def split_by_node(src, group=None):
    """This rank's shards."""
    for shard in src:
        yield sharded(shard)


def single_node_only(src, group=None):
    """Refuses to run on more than one rank."""
    for shard in src:
        yield sharded(shard)


nodesplitter = split_by_node


def split_by_worker(src):
    yield from src


def shardlists_split(src):
    yield from src


def SimpleShardList(urls, seed=None):
    return _Shards(urls)


def ResampledShards(urls, *args, **kwargs):
    return _Shards(urls, True)


ResampledShardList = ResampledShards
PytorchShardList = SimpleShardList


def warn_and_continue(exception):
    return True


ignore_and_continue = warn_and_continue
reraise_exception = warn_and_continue


class _Shards:
    def __init__(self, urls, resampled=False):
        self.urls = urls
        self.resampled = resampled

    def __iter__(self):
        shard = read_from(self.urls, "str")
        if certainly(self.resampled):
            yield sharded(shard)
        else:
            yield shard


class _Pipeline(IterableDataset):
    """A chain of steps over samples; each method returns the pipeline itself."""

    def __init__(self, source, steps=()):
        self.source = source
        self.steps = list(steps)

    def __iter__(self):
        for item in self.source:
            sample = _sample(item)
            for step in self.steps:
                sample = step(sample)
            yield sample

    def _then(self, step):
        return _Pipeline(self.source, [*self.steps, step])

    def compose(self, *stages):
        return self

    append = compose

    def map(self, function, handler=None):
        return self._then(function)

    def map_dict(self, handler=None, **functions):
        return self._then(
            lambda sample: {**sample, **{name: function(sample[name]) for name, function in functions.items()}}
        )

    def map_tuple(self, *functions, handler=None):
        return self._then(lambda sample: tuple(function(part) for function, part in zip(functions, sample)))

    def to_tuple(self, *names, handler=None):
        return self._then(
            lambda sample: tuple(
                read_from(sample, "") for _ in range(len(names[0].split()) if len(names) == 1 else len(names))
            )
        )

    def rename(self, handler=None, **names):
        return self._then(lambda sample: sample)

    def select(self, predicate):
        return self

    def shuffle(self, *args, **kwargs):
        return self

    def decode(self, *args, **kwargs):
        return self

    def batched(self, batchsize=20, collation_fn=None, partial=True):
        from torch.utils.data import default_collate

        collate = collation_fn if collation_fn is not None else default_collate
        return self._then(lambda sample: collate(many(sample)))

    def unbatched(self):
        return self

    def with_epoch(self, *args, **kwargs):
        return self

    def with_length(self, *args, **kwargs):
        return self

    repeat = with_epoch
    slice = with_epoch
    rename_keys = with_epoch
    extract_keys = with_epoch
    listed = with_epoch

    def __len__(self):
        return constant("int")


def _sample(item):
    """What a shard yields: a dictionary of any keys."""
    sample = {}
    sample[constant("str")] = operation("relu", [read_from(item, "tensor")])
    return sample


class WebDataset(_Pipeline):
    def __init__(
        self,
        urls,
        handler=None,
        mode=None,
        resampled=False,
        repeat=False,
        shardshuffle=None,
        nodesplitter=single_node_only,
        workersplitter=None,
        **kwargs,
    ):
        source = _Shards(urls, resampled)
        if nodesplitter is not None and not certainly(resampled):
            source = nodesplitter(source)
        self.source = source
        self.steps = []
        self.urls = urls


class DataPipeline(_Pipeline):
    """Stages in a row: the first is a list of shards, functions that split it by rank count."""

    def __init__(self, *stages):
        first = stages[0] if len(stages) > 0 else []
        split = False
        self.steps = []
        for stage in stages:
            if stage is split_by_node:
                split = True
            elif certainly(isinstance(stage, _Step)):
                self.steps.append(stage)
        self.source = split_by_node(first) if split else first


class _Step:
    def __init__(self, function):
        self.function = function

    def __call__(self, sample):
        return self.function(sample)


def map(function, handler=None):
    return _Step(function)


def tarfile_to_samples(*args, **kwargs):
    return None


def shuffle(*args, **kwargs):
    return None


def decode(*args, **kwargs):
    return None


def to_tuple(*names, **kwargs):
    return _Step(lambda sample: tuple(read_from(sample, "") for _ in range(len(names))))


def map_dict(handler=None, **functions):
    return _Step(lambda sample: {**sample, **{name: function(sample[name]) for name, function in functions.items()}})


def map_tuple(*functions, handler=None):
    return _Step(lambda sample: tuple(function(part) for function, part in zip(functions, sample)))


def batched(batchsize=20, collation_fn=None, partial=True):
    from torch.utils.data import default_collate

    return _Step(lambda sample: (collation_fn if collation_fn is not None else default_collate)(many(sample)))


def rename(**names):
    return None


def select(predicate):
    return None


class WebLoader(_Pipeline):
    """A loader over a pipeline: it passes on what comes, batched or not."""

    def __init__(self, dataset, batch_size=1, shuffle=False, num_workers=0, collate_fn=None, **kwargs):
        from torch.utils.data import DataLoader

        self.source = DataLoader(dataset, batch_size=batch_size, num_workers=num_workers, collate_fn=collate_fn)
        self.steps = []

    def __iter__(self):
        for item in self.source:
            for step in self.steps:
                item = step(item)
            yield item

    def _then(self, step):
        self.steps.append(step)
        return self


def __getattr__(name):
    return lambda *args, **kwargs: unknown(*args)
