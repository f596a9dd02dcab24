from _training import share


def prepare_data_loader(dataloader, *args, **kwargs):
    return share(dataloader, "accelerate")


def skip_first_batches(dataloader, num_batches=0):
    return dataloader
