"""Who takes part, with which environment, in which workloads, and how the environments are made.

PyTorch is one version for all; where a package asks for another one it is installed without its dependencies, plus what it
imports. `fedtier` stands for the environment this runs in.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ENVS = Path(__file__).parent / ".envs"
TORCH = "torch==2.13.0"
OURS = "fedtier"
ON_ALL_CORES = ("-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={len(os.sched_getaffinity(0))}")


class Peer(NamedTuple):
    name: str
    script: str  # in peers/
    env: str
    workloads: str  # those it can do, as shipped or as is natural in it
    title: str
    threads: int | None = None  # of the C loop and of NumPy's BLAS
    launcher: tuple[str, ...] = ()  # between python and the script


PEERS = {
    peer.name: peer
    for peer in (
        Peer(OURS, "fedtier_compiled", OURS, "W1 W2 W3 W4 W5", "fedtier"),
        Peer("c-2", "c_loop", "numpy", "W1 W2 W3", "C, register-blocked, 2 threads", threads=2),
        Peer("c-1", "c_loop", "numpy", "W1 W2 W3", "C, register-blocked, 1 thread", threads=1),
        Peer("numpy", "numpy_loop", "numpy", "W1 W2 W3 W4", "NumPy, 1 thread", threads=1),
        Peer("torch-batched", "torch_batched", "torch", "W1 W2 W3 W4 W5", "PyTorch, batched by hand"),
        Peer("fedjax", "fedjax_jit", "fedjax", "W1 W2", "FedJAX"),
        Peer("fluke", "fluke_central", "fluke", "W1 W2 W3", "fluke"),
        Peer("torch-loop", "torch_loop", "torch", "W1 W2 W3 W5", "PyTorch, typical loop"),
        Peer("torch-objects", "torch_objects", "torch", "W1 W2", "PyTorch, clients as objects (PFLlib's style)"),
        Peer("pfl", "pfl_research", "pfl", "W1 W2", "pfl-research", launcher=ON_ALL_CORES),
        Peer("fedlab", "fedlab_serial", "fedlab", "W1 W2 W3", "FedLab"),
        Peer("flower", "flower_simulation", "flower", "W1 W2 W5", "Flower"),
    )
}

INSTALLS: dict[str, tuple[tuple[str, ...], ...]] = {
    "numpy": (("numpy==2.4.6",),),
    "torch": ((TORCH, "numpy==2.4.6"),),
    "fedjax": (("fedjax==0.0.17", "jax==0.5.3", "jaxlib==0.5.3", "dm-haiku==0.0.17"),),  # jax.tree_map is gone from 0.6 on
    "flower": ((TORCH,), ("flwr[simulation]==1.41.0",)),
    "pfl": ((TORCH, "pfl==0.6.0"),),
    "fedlab": (
        (TORCH, "numpy==2.4.6", "pandas", "scikit-learn", "pynvml", "tqdm", "munch", "pillow", "setuptools", "wheel"),
        ("--no-deps", "--no-build-isolation", "fedlab==1.3.0"),
    ),
    "fluke": (  # all it asks for but torchvision, which would bring another PyTorch
        (
            TORCH,
            "numpy==2.4.6",
            "pandas",
            "scikit-learn",
            "torchmetrics",
            "rich",
            "typer",
            "wandb",
            "datasets",
            "psutil",
            "tensorboard",
            "clearml",
            "matplotlib",
            "seaborn",
            "diskcache",
            "opacus",
            "cerberus",
            "hydra-core",
            "requests",
            "pyyaml",
            "omegaconf",
        ),
        ("--no-deps", "fluke-fl==0.8.1"),
    ),
}


def python(env: str) -> str:
    return sys.executable if env == OURS else str(ENVS / env / "bin" / "python")


def prepare(env: str) -> None:
    """Makes the environment unless it is there; CalledProcessError when pip fails."""
    done = ENVS / env / "installed"
    if env == OURS or (done.exists() and done.read_text() == repr(INSTALLS[env])):
        return
    print(f"installing {env}", file=sys.stderr)
    subprocess.run([sys.executable, "-m", "venv", str(ENVS / env)], check=True, capture_output=True)
    for packages in INSTALLS[env]:
        command = [python(env), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages]
        subprocess.run(command, check=True, capture_output=True, text=True)
    done.write_text(repr(INSTALLS[env]))
