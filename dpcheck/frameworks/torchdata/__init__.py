"""torchdata: loaders and samplers whose place in the data can be saved."""
