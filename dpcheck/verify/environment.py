"""The environment variables of a rank: those that torchrun sets, and those that keep libraries off the network."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from dpcheck.verify.job import Job

_OTHER_LAUNCHERS = ("SLURM_", "OMPI_", "PMI_", "PMIX_", "MPI_", "MV2_", "PALS_", "JSM_", "TORCHELASTIC_")
"""Left over from what dpcheck itself may have been started by: frameworks would take their ranks from them."""

_RANKS = (
    "RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE GROUP_RANK GROUP_WORLD_SIZE ROLE_RANK ROLE_WORLD_SIZE ROLE_NAME "
    "MASTER_ADDR MASTER_PORT NODE_RANK LSB_JOBID PBS_JOBID"
).split()

_QUIET = {
    "WANDB_MODE": "disabled",
    "WANDB_SILENT": "true",
    "COMET_MODE": "DISABLED",
    "NEPTUNE_MODE": "debug",
    "CLEARML_OFFLINE_MODE": "1",
    "MLFLOW_TRACKING_URI": "file:mlruns",
    "DO_NOT_TRACK": "1",
    "HF_HUB_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "TOKENIZERS_PARALLELISM": "false",
}


def of_server(environment: Mapping[str, str], hash_seed: int) -> dict[str, str]:
    """What a fork server is started with: nothing of another launcher, one thread, and a hash seed of its own."""
    kept = {
        name: value
        for name, value in environment.items()
        if not name.startswith(_OTHER_LAUNCHERS) and name not in _RANKS
    }
    kept.setdefault("PYTHONHASHSEED", str(hash_seed))
    kept["OMP_NUM_THREADS"] = "1"
    return kept


def of_job(job: Job, temporary: str) -> dict[str, str]:
    """What is set on top of that in the process of a job, whose temporary files go to `temporary`."""
    loopback = "lo" if sys.platform == "linux" else "lo0"
    rank, ranks = str(job.rank), str(job.world_size)
    nodes = job.nodes if job.role == "rank" else 1
    local = job.world_size // nodes
    variables = {
        **_QUIET,
        "RANK": rank,
        "LOCAL_RANK": str(job.rank % local),
        "ROLE_RANK": rank,
        "GROUP_RANK": str(job.rank // local),
        "WORLD_SIZE": ranks,
        "LOCAL_WORLD_SIZE": str(local),
        "ROLE_WORLD_SIZE": ranks,
        "GROUP_WORLD_SIZE": str(nodes),
        "ROLE_NAME": "default",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(job.port),
        "TORCHELASTIC_RUN_ID": "dpcheck",
        "TORCHELASTIC_RESTART_COUNT": "0",
        "TORCHELASTIC_MAX_RESTARTS": "0",
        "TORCHELASTIC_USE_AGENT_STORE": "False",
        "GLOO_SOCKET_IFNAME": loopback,
        "NCCL_SOCKET_IFNAME": loopback,
        "TP_SOCKET_IFNAME": loopback,
        "TMPDIR": temporary,
    }
    if job.device == "cpu":
        variables["CUDA_VISIBLE_DEVICES"] = ""
        variables["ACCELERATE_USE_CPU"] = "true"
    return variables
