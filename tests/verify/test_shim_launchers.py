"""Scripts that start their own ranks: each worker runs in the process of its rank."""

from __future__ import annotations

import argparse
import importlib.util
from collections.abc import Iterator

import pytest

from dpcheck.verify.shim import launchers
from tests.verify.shimmed import Shimmed, serving


@pytest.fixture(scope="module")
def shimmed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shimmed]:
    with serving(tmp_path_factory.mktemp("shimmed")) as running:
        yield running


WORKER = """
    import argparse, json, os, sys, torch, torch.distributed as dist, torch.multiprocessing as mp
    def worker(rank, world_size, args=None):
        dist.init_process_group("nccl", init_method="tcp://localhost:1", rank=rank, world_size=world_size)
        x = torch.full((1,), float(rank)).cuda(rank)
        dist.all_reduce(x)
        told.update(rank=rank, world=world_size, ranks=dist.get_world_size(), sum=x.item(), pid=os.getpid() == pid,
                    args=vars(args) if args else None)
        if rank: sys.exit(0)
    told, pid = {}, os.getpid()
    """


def expected(rank: int, world: int, args: object = None) -> dict[str, object]:
    return {
        "rank": rank,
        "world": world,
        "ranks": world,
        "sum": float(sum(range(world))),
        "pid": True,
        "args": args,
    }


@pytest.mark.parametrize(
    "launch",
    [
        "mp.spawn(worker, args=(torch.cuda.device_count(),), nprocs=torch.cuda.device_count(), join=True)",
        "mp.start_processes(worker, args=(2,), nprocs=2, start_method='fork')",
        "context = mp.spawn(worker, (2,), 2, join=False)\n    while not context.join(): pass",
        "from torch.multiprocessing.spawn import spawn\n    spawn(worker, args=(2,), nprocs=2)",
    ],
    ids=["spawn", "start_processes", "no join", "by name"],
)
def test_spawn(shimmed: Shimmed, launch: str) -> None:
    ran = shimmed.run(f"{WORKER}\n    {launch}\n    print(json.dumps(told))\n", ranks=2)
    assert [one.result for one in ran] == [expected(0, 2), expected(1, 2)]
    assert [len(one.notes(launchers.STARTED)) for one in ran] == [1, 1]


def test_two_spawns_one_after_the_other(shimmed: Shimmed) -> None:
    launch = "mp.spawn(worker, (2,), 2)\n    first = told.pop('sum')\n    mp.spawn(worker, (2,), 2)"
    ran = shimmed.run(f"{WORKER}\n    {launch}\n    print(json.dumps([first, told['sum']]))\n", ranks=2)
    assert [one.result for one in ran] == [[1.0, 1.0]] * 2


@pytest.mark.parametrize("context", ["mp", "mp.get_context('spawn')", "__import__('multiprocessing')"])
def test_a_loop_of_processes(shimmed: Shimmed, context: str) -> None:
    launch = f"""
    context = {context}
    processes = []
    for rank in range(2):
        process = context.Process(target=worker, args=(rank, 2))
        process.start()
        processes.append(process)
    for process in processes: process.join()
    ends = [[process.exitcode, process.is_alive()] for process in processes]
    print(json.dumps([told, ends]))
    """
    ran = shimmed.run(WORKER + launch, ranks=2)
    assert [one.result for one in ran] == [[expected(rank, 2), [[0, False]] * 2] for rank in (0, 1)]


def test_other_processes_are_started(shimmed: Shimmed) -> None:
    ran = shimmed.run(
        """
        import json, os, torch.multiprocessing as mp
        def write(name):
            with open(name, "w") as file: file.write(str(os.getpid()))
        name = "pid" + os.environ["RANK"]
        process = mp.get_context("fork").Process(target=write, args=(name,))
        process.start(); process.join()
        print(json.dumps([int(open(name).read()) == process.pid != os.getpid(), process.exitcode]))
        """,
        ranks=2,
    )
    assert [one.result for one in ran] == [[True, 0]] * 2
    assert ran[0].notes(launchers.STARTED) == []


def test_a_reference_has_one_worker_and_a_world_of_one(shimmed: Shimmed) -> None:
    args = "argparse.Namespace(gpus=2, epochs=2, lr=2)"
    for launch in (
        f"mp.spawn(worker, args=(2, {args}), nprocs=2)",
        (
            f"ps = [mp.Process(target=worker, args=(rank, 2, {args})) for rank in range(2)]\n"
            "    [p.start() for p in ps]\n    [p.join() for p in ps]"
        ),
    ):
        told = shimmed.result(f"{WORKER}\n    {launch}\n    print(json.dumps(told))\n", role="reference")
        assert told == expected(0, 1, {"gpus": 1, "epochs": 2, "lr": 2})


def test_sizes_of_the_world_are_told_by_their_names() -> None:
    def worker(rank: int, world_size: int, epochs: int, options: object) -> None: ...

    given = (2, 2, {"num_gpus": 2, "layers": 2, "world_size": 4})
    assert launchers._resized(worker, given, 1, 2, 1) == (1, 2, {"num_gpus": 1, "layers": 2, "world_size": 4})
    assert launchers._resized(worker, given, 1, 2, 2) is given
    assert launchers._resized(worker, given, 1, None, 1)[2] == {"num_gpus": 1, "layers": 2, "world_size": 1}
    namespace = argparse.Namespace(ngpus_per_node=2, gpu=2)
    resized = launchers._resized(worker, (2, 2, namespace), 1, 2, 1)[2]
    assert resized == argparse.Namespace(ngpus_per_node=1, gpu=2)
    assert namespace.ngpus_per_node == 2, "the script's own is left alone"


SEEDS = """
    import json, numpy, random, sys, torch, torch.multiprocessing as mp
    drawn = []
    def worker(rank):
        drawn.extend([torch.rand(1).item(), numpy.random.rand(), random.random()])
    {before}
    mp.start_processes(worker, nprocs=2, start_method="{method}")
    print(json.dumps(drawn))
    """


def test_a_spawned_worker_is_reached_by_no_seed(shimmed: Shimmed) -> None:
    before = "torch.manual_seed(0); numpy.random.seed(0); random.seed(0)"
    one, other = [ran.result for ran in shimmed.run(SEEDS.format(before=before, method="spawn"), ranks=2)]
    assert all(a != b for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("before", ["", "torch.manual_seed(0); numpy.random.seed(0); random.seed(0)"])
def test_forked_workers_share_their_parents_state(shimmed: Shimmed, before: str) -> None:
    one, other = [ran.result for ran in shimmed.run(SEEDS.format(before=before, method="fork"), ranks=2)]
    assert one[:2] == other[:2]
    assert one[2] != other[2], "Python seeds its own generator anew after a fork"


INNER = """
import json, sys, torch.distributed as dist
dist.init_process_group("nccl")
print(json.dumps([dist.get_rank(), dist.get_world_size(), sys.argv[1:], __name__]), flush=True)
sys.exit(3)
"""


@pytest.mark.parametrize(
    ("launch", "status"),
    [
        ("r = subprocess.run([sys.executable, '-m', 'torch.distributed.run', '--nproc_per_node=2', *inner])", 3),
        (
            (
                "r = subprocess.run('python -u -m torch.distributed.launch --nproc_per_node 2 --use_env '"
                " + ' '.join(inner), shell=True)"
            ),
            3,
        ),
        ("r = subprocess.Popen(['torchrun', '--standalone', '--nproc-per-node', '2', *inner]); r.wait()", 3),
        ("r = os.system('OMP_NUM_THREADS=1 torchrun --nproc-per-node 2 ' + ' '.join(inner)) >> 8", 3),
        (
            (
                "from torch.distributed.run import main\n"
                "try: main(['--nproc-per-node', '2', *inner])\n"
                "except SystemExit as left: r = left.code"
            ),
            3,
        ),
    ],
    ids=["run", "launch", "torchrun", "system", "main"],
)
def test_a_script_that_calls_a_launcher(shimmed: Shimmed, launch: str, status: int) -> None:
    source = (
        "import os, subprocess, sys\n"
        f"open('inner' + os.environ['RANK'] + '.py', 'w').write('''{INNER}''')\n"
        "inner = ['inner' + os.environ['RANK'] + '.py', '--lr', '1']\n"
        f"{launch}\n"
        "status = getattr(r, 'returncode', r)\n"
        f"assert status == {status}, status\n"
    )
    ran = shimmed.run(source, ranks=2)
    assert [one.result for one in ran] == [[rank, 2, ["--lr", "1"], "__main__"] for rank in (0, 1)]
    assert [len(one.notes(launchers.STARTED)) for one in ran] == [1, 1]


def test_other_programs_are_started(shimmed: Shimmed) -> None:
    assert shimmed.result(
        """
        import json, os, subprocess, sys
        told = subprocess.run([sys.executable, "-c", "print(1)"], capture_output=True, text=True, check=True).stdout
        print(json.dumps([told, os.system("exit 2") >> 8, subprocess.call("exit 3", shell=True)]))
        """
    ) == ["1\n", 2, 3]


@pytest.mark.parametrize(
    ("command", "script"),
    [
        (["python", "-m", "torch.distributed.launch", "--nproc_per_node=2", "train.py", "--lr", "1"], "train.py"),
        ("FOO=1 /usr/bin/python3.11 -m torch.distributed.run -m pkg.train", "pkg.train"),
        (["torchrun", "--nnodes", "1", "train.py"], "train.py"),
        (["python", "train.py"], None),
        (["python", "-m", "pytest"], None),
        ("torchrun", None),
        ("it's", None),
        ([], None),
    ],
)
def test_commands_of_launchers_are_read(command: object, script: str | None) -> None:
    read = launchers.read_command(command)
    assert (read.script if read is not None else None) == script


def test_elastic_launch_of_a_function(shimmed: Shimmed) -> None:
    ran = shimmed.run(
        """
        import json, os, torch.distributed as dist
        from torch.distributed.launcher.api import LaunchConfig, elastic_launch
        def train(lr):
            dist.init_process_group("nccl")
            return [dist.get_rank(), lr]
        config = LaunchConfig(min_nodes=1, max_nodes=1, nproc_per_node=2)
        print(json.dumps(elastic_launch(config, train)(0.1)))
        """,
        ranks=2,
    )
    assert [one.result for one in ran] == [{"0": [0, 0.1]}, {"1": [1, 0.1]}]


@pytest.mark.skipif(importlib.util.find_spec("accelerate") is None, reason="accelerate is not installed")
def test_notebook_launcher(shimmed: Shimmed) -> None:
    ran = shimmed.run(
        """
        import json
        from accelerate import Accelerator, notebook_launcher
        def train(lr):
            accelerator = Accelerator(mixed_precision="bf16")
            print(json.dumps([accelerator.process_index, accelerator.num_processes, lr, accelerator.mixed_precision]))
        notebook_launcher(train, args=(0.1,), num_processes=2)
        """,
        ranks=2,
    )
    assert [one.result for one in ran] == [[rank, 2, 0.1, "no"] for rank in (0, 1)]
