from timm.optim import create_optimizer, create_optimizer_v2, optimizer_kwargs


def add_weight_decay(model, weight_decay=1e-5, skip_list=()):
    return [{"params": model.parameters()}]


param_groups_weight_decay = add_weight_decay
param_groups_layer_decay = add_weight_decay
