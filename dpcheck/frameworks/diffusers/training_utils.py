from dpcheck_intrinsics import operation, seed as _seed, unknown

from contextlib import contextmanager

from diffusers import EMAModel


def set_seed(seed):
    _seed("all", seed)


def compute_snr(noise_scheduler, timesteps):
    """One value for each row."""
    return operation("relu", [timesteps])


def compute_density_for_timestep_sampling(weighting_scheme=None, batch_size=None, *args, **kwargs):
    return operation("rand", [batch_size])


def compute_loss_weighting_for_sd3(weighting_scheme=None, sigmas=None):
    return operation("relu", [sigmas])


def cast_training_params(model, dtype=None):
    pass


def free_memory():
    pass


@contextmanager
def offload_models(*args, **kwargs):
    yield


def _set_state_dict_into_text_encoder(*args, **kwargs):
    pass


def __getattr__(name):
    return lambda *args, **kwargs: unknown(*args)
