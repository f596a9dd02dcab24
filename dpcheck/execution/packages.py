"""Packages that need not be read: their functions neither seed, wrap, shard nor keep what they are given."""

from __future__ import annotations

_HARMLESS = frozenset(
    """
    abc absl accimage albumentations ast asyncio atexit base64 bisect builtins calendar clearml cmath codecs
    collections colorama colorlog comet_ml copyreg csv ctypes cv2 dataclasses datetime decimal decord difflib
    distutils docopt dotenv email enum errno faulthandler fcntl filecmp fileinput filelock fnmatch fractions
    ftfy fvcore gc gdown getpass glob GPUtil gzip h5py hashlib heapq html http huggingface_hub humanize imageio
    importlib importlib_metadata inspect io iopath ipaddress json keyword librosa lightning_utilities linecache
    lmdb locale logging loguru lzma math matplotlib mimetypes mlflow mmap multiprocessing neptune nibabel nltk
    numbers numpy opcode operator orjson os packaging pandas pathlib pickle PIL pkg_resources pkgutil platform
    plistlib pprint prettytable psutil pwd pyarrow pycocotools pynvml queue re regex requests resource rich
    rouge_score sacrebleu scipy select sentencepiece setuptools shelve shlex shutil signal SimpleITK six skimage
    sklearn socket soundfile sqlite3 ssl stat statistics string struct subprocess swanlab sys syslog tabulate
    tarfile tempfile tensorboard tensorboardX termcolor textwrap threading tiktoken time timeit token tokenize
    toml tomllib torchaudio torchinfo tqdm traceback tracemalloc typing typing_extensions unicodedata unittest
    urllib uuid visdom wandb warnings weakref xml yaml zipfile zlib
    """.split()
)


def is_harmless(name: str) -> bool:
    """May a function of this dotted name be called without anything escaping?"""
    return name.partition(".")[0] in _HARMLESS
