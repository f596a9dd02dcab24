"""Diffusers: networks by the pattern of their names, noise schedules, an average of weights."""

from dpcheck_intrinsics import constant, layer, load_state, no_grad, operation, parameter, unknown

from torch.nn import Module

from transformers.configuration import PretrainedConfig

__version__ = "0.35.0"
__submodules__ = True


class _Output:
    """What a network returns: its sample by name or by position."""

    def __init__(self, sample):
        self.sample = sample
        self.latent_dist = self

    def mode(self):
        return self.sample

    def kl(self, *args):
        return unknown(self.sample)

    def rsample(self):
        return self.sample

    def __call__(self, *args, **kwargs):
        return self.sample

    def __getitem__(self, index):
        return self.sample

    def __iter__(self):
        yield self.sample

    def __getattr__(self, name):
        return unknown(self.sample)


class ModelMixin(Module):
    def __init__(self, *args, **kwargs):
        super().__init__()
        self.config = PretrainedConfig()
        self.weight = parameter(drawn=True)

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path=None, *args, **kwargs):
        made = cls()
        load_state(made, constant())
        return made

    @classmethod
    def from_config(cls, config=None, *args, **kwargs):
        return cls()

    from_unet = from_pretrained
    from_transformer = from_pretrained
    load_config = from_config

    device = property(lambda self: constant("device"))
    dtype = property(lambda self: constant())

    def forward(self, sample=None, *args, **kwargs):
        given = (sample, *args, *kwargs.values())
        for one in given:
            if one is not None:
                return _Output(layer(one, given))
        return _Output(unknown())

    def encode(self, x, *args, **kwargs):
        made = _Output(layer(x))
        made.latent_dist = _Distribution(made.sample)
        return made

    def decode(self, z, *args, **kwargs):
        return _Output(layer(z))

    def enable_gradient_checkpointing(self):
        pass

    def enable_xformers_memory_efficient_attention(self, *args):
        pass

    def disable_xformers_memory_efficient_attention(self):
        pass

    def enable_slicing(self):
        pass

    def enable_tiling(self):
        pass

    def add_adapter(self, *args, **kwargs):
        pass

    def set_adapter(self, *args, **kwargs):
        pass

    def set_attn_processor(self, *args, **kwargs):
        pass

    def save_pretrained(self, *args, **kwargs):
        pass

    def register_to_config(self, **kwargs):
        pass

    def load_state_dict(self, state_dict, *args, **kwargs):
        load_state(self, state_dict)


class _Distribution:
    def __init__(self, value):
        self.mean = value

    def sample(self, *args, **kwargs):
        return operation("relu", [self.mean])

    def mode(self):
        return self.mean

    def kl(self, *args):
        return unknown(self.mean)


class SchedulerMixin:
    """A schedule of noise: the same on every rank."""

    def __init__(self, *args, **kwargs):
        self.config = PretrainedConfig()
        self.timesteps = constant("tensor")
        self.sigmas = constant("tensor")
        self.alphas_cumprod = constant("tensor")
        self.betas = constant("tensor")
        self.init_noise_sigma = constant("number")

    @classmethod
    def from_pretrained(cls, *args, **kwargs):
        return cls()

    from_config = from_pretrained

    def add_noise(self, original_samples, noise, timesteps):
        return operation("relu", [original_samples + noise])

    def get_velocity(self, sample, noise, timesteps):
        return operation("relu", [noise - sample])

    def set_timesteps(self, *args, **kwargs):
        pass

    def register_to_config(self, **kwargs):
        pass

    def scale_model_input(self, sample, timestep=None):
        return sample

    def scale_noise(self, sample, timestep=None, noise=None):
        return operation("relu", [sample + noise])

    def step(self, model_output, timestep, sample, *args, **kwargs):
        return _Output(operation("relu", [sample + model_output]))

    def save_pretrained(self, *args, **kwargs):
        pass


class DiffusionPipeline:
    def __init__(self, *args, **kwargs):
        pass

    @classmethod
    def from_pretrained(cls, *args, **kwargs):
        return cls()

    def to(self, *args, **kwargs):
        return self

    def __call__(self, *args, **kwargs):
        before = no_grad(True)
        result = unknown(*args)
        no_grad(before)
        return result

    @classmethod
    def lora_state_dict(cls, *args, **kwargs):
        return {}, {}

    @classmethod
    def save_lora_weights(cls, *args, **kwargs):
        pass

    def __getattr__(self, name):
        return lambda *args, **kwargs: unknown(*args)


class EMAModel:
    """An average of the weights: they are the same on every rank, and so is it."""

    def __init__(self, parameters=None, *args, **kwargs):
        self.cur_decay_value = constant("number")
        self.optimization_step = constant("int")

    @classmethod
    def from_pretrained(cls, *args, **kwargs):
        return cls()

    def step(self, parameters):
        pass

    def store(self, parameters):
        pass

    def copy_to(self, parameters):
        pass

    def restore(self, parameters):
        pass

    def to(self, *args, **kwargs):
        pass

    def pin_memory(self):
        pass

    def state_dict(self):
        return {}

    def load_state_dict(self, state_dict):
        pass

    def save_pretrained(self, *args, **kwargs):
        pass


class VaeImageProcessor:
    def __init__(self, *args, **kwargs):
        pass

    def __getattr__(self, name):
        return lambda *args, **kwargs: unknown(*args)


def __getattr__(name):
    if name.startswith("Autoencoder") or name.endswith("Model") or name.endswith("Model2D") or name.endswith("Net"):
        return ModelMixin
    if name.startswith("UNet") or name.startswith("ControlNet") or name.endswith("Adapter") or name.endswith("VQGAN"):
        return ModelMixin
    if name.endswith("Scheduler"):
        return SchedulerMixin
    if "Pipeline" in name:
        return DiffusionPipeline
    if name.startswith("is_"):
        return lambda *args, **kwargs: constant("bool")
    return lambda *args, **kwargs: unknown(*args)
