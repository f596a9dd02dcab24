"""Tables: what is read from a file is the same on every rank where the path is."""

from dpcheck_intrinsics import read_from, record, unknown


def read_csv(filepath_or_buffer, *args, **kwargs):
    record("read", None, path=filepath_or_buffer)
    return read_from(filepath_or_buffer)


read_table = read_csv
read_parquet = read_csv
read_json = read_csv
read_pickle = read_csv
read_excel = read_csv
read_feather = read_csv
read_hdf = read_csv


def __getattr__(name):
    return lambda *args, **kwargs: unknown(*args)
