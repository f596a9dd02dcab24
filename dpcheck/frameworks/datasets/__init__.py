"""Hugging Face Datasets 2.x to 5.x. A data set is rows of which one stands for all; a column may have any name."""

from contextlib import contextmanager

from dpcheck_intrinsics import certainly, constant, drawn, kind_of, map_values, record, shuffled, unknown

from datasets.rows import batch_of, first_of, any_row, tensor_of
from numpy.random import Generator
from torch.utils import data as _torch_data

from datasets import distributed

__submodules__ = True


class Dataset(_torch_data.Dataset):
    """Rows that are indexed. It is not shared out among ranks unless `shard` or `split_dataset_by_node` is called."""

    features = constant()
    info = constant()
    split = constant("str")

    def __init__(self, rows=None):
        if rows is None:
            row = any_row()
            rows = [row for _ in range(constant("int"))]
        self.rows = rows

    def _made(self, rows):
        return Dataset(rows)

    @property
    def column_names(self):
        row = first_of(self.rows)
        return list(row.keys()) if kind_of(row) == "mapping" else constant()

    num_rows = property(lambda self: len(self.rows))
    shape = property(lambda self: (len(self.rows), constant("int")))

    def __len__(self):
        return len(self.rows)

    def __iter__(self):
        yield first_of(self.rows)

    def __getitem__(self, index):
        kind = kind_of(index)
        if kind == "text":
            return [row[index] for row in self.rows]
        if kind == "sequence":
            return batch_of(first_of(self.rows), self.rows)
        return self.rows[index]

    @classmethod
    def from_dict(cls, mapping, *args, **kwargs):
        columns = list(mapping.values())
        row = map_values(first_of, mapping)
        return cls([row for _ in columns[0]])

    @classmethod
    def from_list(cls, mapping, *args, **kwargs):
        return cls(mapping)

    @classmethod
    def from_generator(cls, generator, *args, gen_kwargs=None, **kwargs):
        row = first_of(generator(**({} if gen_kwargs is None else gen_kwargs)))
        return cls([row for _ in range(constant("int"))])

    @classmethod
    def from_pandas(cls, df, *args, **kwargs):
        return cls()

    @classmethod
    def load_from_disk(cls, path, *args, **kwargs):
        return cls()

    from_csv = load_from_disk
    from_json = load_from_disk
    from_parquet = load_from_disk
    from_text = load_from_disk

    def map(
        self,
        function=None,
        with_indices=False,
        with_rank=False,
        input_columns=None,
        batched=False,
        batch_size=1000,
        drop_last_batch=False,
        remove_columns=None,
        fn_kwargs=None,
        **kwargs,
    ):
        if function is None:
            return self
        row = first_of(self.rows)
        given = {} if fn_kwargs is None else fn_kwargs
        example = batch_of(row) if batched else row
        if input_columns is not None:
            made = function(unknown(example), **given)
        elif with_indices:
            made = function(example, constant("int"), **given)
        else:
            made = function(example, **given)
        if batched:
            made = map_values(first_of, made)
        if kind_of(made) != "mapping":
            return self._made([any_row() for _ in self.rows])
        row = made if remove_columns is not None else {**row, **made}
        return self._made([row for _ in self.rows])

    def filter(self, function=None, *args, **kwargs):
        return self._made(self.rows)

    def shuffle(self, seed=None, generator=None, *args, **kwargs):
        """Without a seed: in an order that is drawn from numpy's global random state."""
        if generator is None and seed is not None:
            generator = Generator(seed)
        shuffled("numpy", [], generator=generator)
        order = drawn("numpy", generator=generator, size=len(self.rows), permutation=True)
        row = self.rows[order]
        return self._made([row for _ in self.rows])

    def train_test_split(
        self,
        test_size=None,
        train_size=None,
        shuffle=True,
        stratify_by_column=None,
        seed=None,
        generator=None,
        **kwargs,
    ):
        if shuffle:
            if generator is None and seed is not None:
                generator = Generator(seed)
            record("split", self, generator=generator, library="numpy")
            order = drawn("numpy", generator=generator, size=len(self.rows), permutation=True)
            row = self.rows[order]
            made = self._made([row for _ in self.rows])
            return DatasetDict({"train": made, "test": made})
        return DatasetDict({"train": self._made(self.rows), "test": self._made(self.rows)})

    def select(self, indices, *args, **kwargs):
        return self._made([self.rows[index] for index in indices])

    def shard(self, num_shards, index, contiguous=True, *args, **kwargs):
        made = self._made(self.rows[index::num_shards])
        record("shard", made, num_replicas=num_shards, rank=index)
        return made

    def take(self, n):
        return self._made(self.rows)

    skip = take
    repeat = take

    def sort(self, *args, **kwargs):
        return self

    def flatten(self, *args, **kwargs):
        return self

    flatten_indices = flatten
    cast = flatten
    cast_column = flatten
    class_encode_column = flatten

    def remove_columns(self, column_names, *args, **kwargs):
        names = [column_names] if isinstance(column_names, str) else column_names
        row = first_of(self.rows)
        if kind_of(row) != "mapping" or kind_of(names) != "sequence":
            return self
        return self._made([{key: value for key, value in row.items() if key not in names} for _ in self.rows])

    def select_columns(self, column_names, *args, **kwargs):
        row = first_of(self.rows)
        names = [column_names] if isinstance(column_names, str) else column_names
        return self._made([{name: row[name] for name in names} for _ in self.rows])

    def rename_column(self, original_column_name, new_column_name, *args, **kwargs):
        return self.rename_columns({original_column_name: new_column_name})

    def rename_columns(self, column_mapping, *args, **kwargs):
        row = first_of(self.rows)
        renamed = {new: row[old] for old, new in column_mapping.items()}
        return self._made([{**row, **renamed} for _ in self.rows])

    def add_column(self, name, column, *args, **kwargs):
        row = first_of(self.rows)
        return self._made([{**row, name: first_of(column)} for _ in self.rows])

    def with_format(self, type=None, columns=None, *args, **kwargs):
        if type == "torch" or type == "numpy" or type == "pt":
            row = map_values(tensor_of, first_of(self.rows))
            return self._made([row for _ in self.rows])
        return self

    def set_format(self, type=None, columns=None, *args, **kwargs):
        self.rows = self.with_format(type, columns).rows

    def reset_format(self):
        pass

    @contextmanager
    def formatted_as(self, *args, **kwargs):
        yield

    def with_transform(self, transform, *args, **kwargs):
        made = self.map(transform, batched=True, remove_columns=[])
        return made

    def set_transform(self, transform, *args, **kwargs):
        self.rows = self.with_transform(transform).rows

    def to_iterable_dataset(self, num_shards=1):
        return IterableDataset(self.rows)

    def to_pandas(self, *args, **kwargs):
        return unknown()

    def to_list(self):
        return self.rows

    def to_dict(self):
        return batch_of(first_of(self.rows), self.rows)

    def unique(self, column):
        return [row[column] for row in self.rows]

    def save_to_disk(self, *args, **kwargs):
        pass

    def push_to_hub(self, *args, **kwargs):
        pass

    def train_test(self, *args, **kwargs):
        return self

    def cleanup_cache_files(self):
        pass


class IterableDataset(_torch_data.IterableDataset, Dataset):
    """A stream: every rank gets all of it unless `split_dataset_by_node` or `shard` divides it."""

    n_shards = constant("int")
    num_shards = constant("int")

    def _made(self, rows):
        return IterableDataset(rows)

    def __iter__(self):
        yield first_of(self.rows)

    def set_epoch(self, epoch):
        record("set epoch", self, epoch=epoch)

    def batch(self, batch_size, drop_last_batch=False):
        row = batch_of(first_of(self.rows))
        return IterableDataset([row for _ in self.rows])

    def state_dict(self):
        return {}

    def load_state_dict(self, state_dict):
        pass


class DatasetDict:
    def __init__(self, table=None, make=None):
        self.table = {} if table is None else dict(table)
        self.make = Dataset if make is None else make

    def __getitem__(self, name):
        if not certainly(name == name):
            name = "train"  # any of the splits: they are alike
        if name not in self.table:
            self.table[name] = self.make()
        return self.table[name]

    def __setitem__(self, name, dataset):
        self.table[name] = dataset

    def __contains__(self, name):
        return name in self.table if name in self.table else constant("bool")

    def __iter__(self):
        yield from self.table

    def _each(self, method, *args, **kwargs):
        """Every split is made anew; those nobody has asked for yet are like the training split."""
        if len(self.table) == 0:
            self["train"]
        made = {name: getattr(dataset, method)(*args, **kwargs) for name, dataset in self.table.items()}
        like = list(made.values())[0]
        return DatasetDict(made, lambda: like._made(like.rows))

    column_names = property(lambda self: {name: dataset.column_names for name, dataset in self.table.items()})
    num_rows = property(lambda self: {name: len(dataset) for name, dataset in self.table.items()})

    def keys(self):
        return self.table.keys()

    def values(self):
        return self.table.values()

    def items(self):
        return self.table.items()

    def get(self, name, default=None):
        return self[name]

    def pop(self, name, default=None):
        return self[name]

    def map(self, *args, **kwargs):
        return self._each("map", *args, **kwargs)

    def filter(self, *args, **kwargs):
        return self._each("filter", *args, **kwargs)

    def shuffle(self, *args, **kwargs):
        return self._each("shuffle", *args, **kwargs)

    def remove_columns(self, *args, **kwargs):
        return self._each("remove_columns", *args, **kwargs)

    def rename_column(self, *args, **kwargs):
        return self._each("rename_column", *args, **kwargs)

    def rename_columns(self, *args, **kwargs):
        return self._each("rename_columns", *args, **kwargs)

    def select_columns(self, *args, **kwargs):
        return self._each("select_columns", *args, **kwargs)

    def cast_column(self, *args, **kwargs):
        return self

    def with_format(self, *args, **kwargs):
        return self._each("with_format", *args, **kwargs)

    def with_transform(self, *args, **kwargs):
        return self._each("with_transform", *args, **kwargs)

    def set_format(self, *args, **kwargs):
        for dataset in self.table.values():
            dataset.set_format(*args, **kwargs)

    def save_to_disk(self, *args, **kwargs):
        pass

    @classmethod
    def load_from_disk(cls, path, *args, **kwargs):
        return cls()


class IterableDatasetDict(DatasetDict):
    pass


def load_dataset(path, name=None, *args, split=None, streaming=False, **kwargs):
    make = IterableDataset if streaming else Dataset
    if split is None:
        return DatasetDict({}, make)
    if kind_of(split) == "sequence":
        return [make() for _ in split]
    return make()


def load_from_disk(dataset_path, *args, **kwargs):
    return DatasetDict({}, Dataset)


def concatenate_datasets(dsets, *args, **kwargs):
    rows = [first_of(dataset.rows) for dataset in dsets]
    first = dsets[0]
    return first._made([first_of(rows) for _ in first.rows])


def interleave_datasets(datasets, probabilities=None, seed=None, *args, **kwargs):
    return concatenate_datasets(datasets)


def Features(*args, **kwargs):
    return constant()


def __getattr__(name):
    return lambda *args, **kwargs: unknown(*args)
