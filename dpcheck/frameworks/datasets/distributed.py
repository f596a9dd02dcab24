from dpcheck_intrinsics import record


def split_dataset_by_node(dataset, rank, world_size):
    """This rank's rows."""
    made = dataset._made(dataset.rows[rank::world_size])
    record("shard", made, num_replicas=world_size, rank=rank)
    return made
