"""What lets a script written for GPUs, nccl and launchers of its own run unchanged: on CPU and gloo, in one precision.

Torch's functions are replaced directly: a `TorchFunctionMode` sees neither modules nor generators, other threads or
what torch calls inside its own functions. The notes of the recording tell what was changed. Their kinds:

    autocast, grad-scaler, low-precision, mixed-precision, compile, comm-hook, approximating-hook, randomness,
    data-parallel, launcher, world-size, rank, lightning
"""

from __future__ import annotations

from dpcheck.verify.session import Session


def install(session: Session) -> None:
    """Put the shim in place. torch is imported, and nothing of the script or of other libraries has run."""
    from dpcheck.verify.shim import (
        amp,
        attention,
        batchnorm,
        comm_hooks,
        compiling,
        cuda,
        data_parallel,
        devices,
        gloo,
        huggingface,
        importing,
        launchers,
        lightning,
        optimizers,
        precision,
        process_groups,
        randomness,
        torchvision,
        wrappers,
    )
    from dpcheck.verify.shim.accelerator import Accelerator
    from dpcheck.verify.shim.factories import factories
    from dpcheck.verify.shim.patching import Patches

    patches = Patches()
    finder = importing.install()
    on_cpu = session.job.device == "cpu"
    torchvision.install(finder)
    accelerator = Accelerator(session)
    made = factories()
    if on_cpu:
        devices.install(patches, accelerator, made)
    precise = precision.install(session, patches, made)
    if on_cpu:
        cuda.install(session, patches, accelerator)
        batchnorm.install(patches)
        optimizers.install(patches)
        attention.install(patches, finder)
    if session.job.backend == "gloo":
        gloo.install(patches, finder)
    process_groups.install(session, patches, finder)
    amp.install(session, patches)
    wrappers.install(session, patches, finder, precise)
    comm_hooks.install(session, patches, finder)
    data_parallel.install(session, patches)
    compiling.install(session, patches)
    randomness.install(session, patches)
    launchers.install(session, patches, finder)
    lightning.install(session, finder)
    huggingface.install(session, finder)
    patches.spread()
