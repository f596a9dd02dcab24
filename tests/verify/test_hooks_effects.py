"""What a script does to the world is listed, and the world is left as it was."""

from __future__ import annotations

import json
from pathlib import Path

from dpcheck.verify.recording import Recording
from tests.verify.hooked import Hooked, hooked

__all__ = ["hooked"]


def alone(hooked: Hooked, source: str, *, private: bool = True) -> Recording:
    return hooked.run(source, ranks=1, private=private).recordings[0]


def names(paths: list[str]) -> list[str]:
    return [Path(path).name for path in paths]


def test_files_that_are_written_or_removed(hooked: Hooked) -> None:
    recording = alone(
        hooked,
        """
        import os, pathlib, shutil, sqlite3, tempfile, torch
        here = pathlib.Path(__file__).parent
        open("appended.txt", "a").close()
        open("appended.txt", "a").close()
        pathlib.Path("made").mkdir()
        torch.save({}, "made/model.pt")
        os.rename("appended.txt", here / "renamed.txt")
        open(here / "renamed.txt").read()
        os.close(os.open("low.bin", os.O_CREAT | os.O_WRONLY))
        shutil.rmtree("made")
        sqlite3.connect("runs.db").close()
        with tempfile.TemporaryFile() as scratch:
            scratch.write(b"x")
        open("/dev/null", "w").close()
        """,
    )
    assert names(recording.written) == [
        "appended.txt", "model.pt", "renamed.txt", "low.bin", "made", "runs.db",
    ]  # fmt: skip
    assert all(Path(path).is_absolute() for path in recording.written)
    assert recording.notes == []


def test_programs_that_are_started(hooked: Hooked) -> None:
    recording = alone(
        hooked,
        """
        import os, subprocess, sys
        subprocess.run(["true", "--flag"])
        subprocess.run(["true", "--flag"])
        os.system("true; true")
        os.posix_spawn("/bin/true", ["/bin/true", "x"], os.environ)
        """,
    )
    assert recording.started == ["true --flag", "true; true", "/bin/true x"]


def test_the_network_is_refused_with_a_reason(hooked: Hooked) -> None:
    recording = alone(
        hooked,
        """
        import socket, urllib.request, urllib.error
        for attempt in (
            lambda: socket.create_connection(("192.0.2.1", 80), timeout=5),
            lambda: socket.create_connection(("2001:db8::1", 80), timeout=5),
            lambda: socket.socket().connect_ex(("192.0.2.2", 80)),
            lambda: socket.getaddrinfo("hub.example.org", 443),
            lambda: socket.gethostbyname("other.example.org"),
            lambda: socket.gethostbyaddr("192.0.2.3"),
            lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("192.0.2.4", 53)),
        ):
            try:
                attempt()
            except OSError as error:
                assert "without a network" in str(error), error
            else:
                raise AssertionError("it was let through")
        try:
            urllib.request.urlopen("https://hub.example.org/model")
        except urllib.error.URLError as error:
            assert "hub.example.org:443 was refused" in str(error)
        """,
    )
    assert recording.connected == [
        "192.0.2.1:80", "2001:db8::1:80", "192.0.2.2:80", "hub.example.org:443", "other.example.org", "192.0.2.3",
        "192.0.2.4:53",
    ]  # fmt: skip
    assert {note.kind for note in recording.notes} == {"network"}
    assert recording.notes[0].text == "the script asked for the network: 192.0.2.1:80"
    assert recording.notes[0].place.line == 4


def test_this_machine_is_free(hooked: Hooked) -> None:
    recording = alone(
        hooked,
        """
        import os, socket
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
            socket.create_connection(("localhost", port)).close()
            socket.create_connection(("127.0.0.1", port)).close()
        try:
            socket.gethostbyname(socket.gethostname())
        except socket.gaierror as error:
            assert "refused" not in str(error)
        socket.getaddrinfo("192.0.2.1", 80)  # no name: nobody is asked
        probe = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            probe.connect(("192.0.2.1", 80))  # sends nothing: which is my own address?
        except OSError as error:
            assert "refused" not in str(error)
        left, right = socket.socketpair()
        left.send(b"x")
        path = os.path.join(os.environ["TMPDIR"], "socket")
        unix = socket.socket(socket.AF_UNIX)
        unix.bind(path)
        unix.listen()
        socket.socket(socket.AF_UNIX).connect(path)
        """,
    )
    assert recording.connected == []
    assert recording.notes == []


def test_a_forked_child_has_no_network_and_lists_nothing(hooked: Hooked) -> None:
    recording = alone(
        hooked,
        """
        import os, socket
        child = os.fork()
        if child == 0:
            status = 1
            try:
                open("by_the_child.txt", "w").close()
                socket.create_connection(("192.0.2.1", 80), timeout=5)
            except OSError as error:
                status = 0 if "without a network" in str(error) else 2
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        """,
    )
    assert recording.connected == []
    assert recording.written == []


def test_trackers_are_muted_after_their_import(hooked: Hooked) -> None:
    recording = alone(
        hooked,
        """
        import pathlib, sys
        pathlib.Path("wandb").mkdir()
        pathlib.Path("wandb", "__init__.py").write_text("def init(project=None, mode='online'):\\n    return mode\\n")
        pathlib.Path("comet_ml.py").write_text(
            "class Experiment:\\n    def __init__(self, key, disabled=False):\\n        self.disabled = disabled\\n"
        )
        pathlib.Path("mlflow.py").write_text("uri = 'file'\\ndef set_tracking_uri(to):\\n    global uri; uri = to\\n")
        import wandb
        from comet_ml import Experiment
        import mlflow
        assert wandb.init("p", mode="online") == "disabled"
        assert Experiment("key").disabled
        mlflow.set_tracking_uri("https://example.org")
        assert mlflow.uri == "file"
        mlflow.set_tracking_uri("file:runs")
        assert mlflow.uri == "file:runs"
        assert wandb.__spec__.loader.get_source("wandb").startswith("def init")
        assert sys.modules["wandb"].__loader__ is wandb.__spec__.loader
        """,
    )
    assert [(note.kind, note.text) for note in recording.notes] == [
        ("tracker", "wandb.init was called and kept from the network"),
        ("tracker", "comet_ml.Experiment.__init__ was called and kept from the network"),
        ("tracker", "mlflow was kept from its server"),
    ]


def test_nothing_is_uploaded_to_a_hub(hooked: Hooked) -> None:
    source = """
        import importlib.util, json
        if importlib.util.find_spec("huggingface_hub") is None:
            print("missing")
            raise SystemExit
        from huggingface_hub import HfApi, create_repo, upload_folder
        assert create_repo("somebody/model", exist_ok=True).repo_id == "somebody/model"
        api = HfApi()
        assert api.create_repo(repo_id="model").repo_id.endswith("/model")
        assert upload_folder(repo_id="somebody/model", folder_path=".").oid == "0" * 40
        future = api.upload_file(
            path_or_fileobj=b"x", path_in_repo="x", repo_id="somebody/model", run_as_future=True
        )
        assert future.result().oid == "0" * 40
        """
    ran = hooked.run(source, ranks=1, codes=None if has_hub() else [1])
    if has_hub():
        assert [note.text for note in ran.recordings[0].notes] == [
            "create_repo was called and nothing uploaded",
            "create_repo was called and nothing uploaded",
            "upload_folder was called and nothing uploaded",
            "upload_file was called and nothing uploaded",
        ]
        assert ran.recordings[0].connected == []


def has_hub() -> bool:
    import importlib.util

    return importlib.util.find_spec("huggingface_hub") is not None


SAVES = """
import os, pathlib, torch
pathlib.Path("saved.pt").write_bytes(b"precious")
torch.save({"step": 1}, "saved.pt")
assert torch.load("saved.pt") == {"step": 1}
torch.save({"step": 2}, pathlib.Path("new.pt"))
assert os.path.exists("new.pt") and pathlib.Path("new.pt").is_file()
os.replace("new.pt", "best.pt")
assert torch.load("best.pt") == {"step": 2}
assert not os.path.exists("new.pt")
os.remove("best.pt")
assert not os.path.exists("best.pt")
assert pathlib.Path("saved.pt").read_bytes() == b"precious"
inside = pathlib.Path(os.environ["TMPDIR"], "own.pt")
torch.save({}, inside)
assert inside.stat().st_size > 0
try:
    torch.save({}, "no/such/folder.pt")
except RuntimeError:
    pass
else:
    raise AssertionError
"""


def test_without_a_sandbox_checkpoints_go_elsewhere(hooked: Hooked) -> None:
    recording = alone(hooked, SAVES, private=False)
    script = Path(recording.written[0]).parent
    assert names(recording.written)[:2] == ["saved.pt", "new.pt"]
    assert sorted(path.name for path in script.iterdir()) == ["saved.pt", "train.py"]


def test_ranks_share_what_is_saved(hooked: Hooked) -> None:
    ran = hooked.run(
        """
        import torch, torch.distributed as dist
        dist.init_process_group("gloo")
        if dist.get_rank() == 0:
            torch.save([1, 2], "shared.pt")
        dist.barrier()
        assert torch.load("shared.pt") == [1, 2]
        """,
        private=False,
    )
    assert [names(recording.written) for recording in ran.recordings] == [["shared.pt"], []]


def test_lists_are_bounded(hooked: Hooked) -> None:
    recording = alone(
        hooked,
        """
        for number in range(1500):
            open(f"{number}.txt", "w").close()
        """,
    )
    assert len(recording.written) == 1000
    assert json.dumps(recording.written)
