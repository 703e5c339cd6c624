"""Runs the C++ probes of a build (PARITY_PRESET) on files."""

import functools
import json
import os
import pathlib
import subprocess
import tempfile

from safetensors.torch import load_file, save_file

BUILD = pathlib.Path(__file__).resolve().parents[2] / "build" / \
    os.environ.get("PARITY_PRESET", "release")


def find(name):
    matches = [p for p in BUILD.rglob(name) if p.is_file()]
    if not matches:
        raise SystemExit(f"parity: no {name} below {BUILD}: build it first")
    return matches[0]


@functools.cache
def has_bf16():
    """Whether Troupe can multiply in bf16 here. Where it cannot, for want of
    AVX-512, neither can Debian's torch."""
    done = subprocess.run([find("troupe"), "doctor", "--json"],
                          stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)["isa"].startswith("avx512")


def forward(kind, model_dir, tensors, dtype="f32"):
    """model_probe: one forward pass; returns its output tensor."""
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / "in.safetensors"
        target = pathlib.Path(folder) / "out.safetensors"
        save_file({k: v.contiguous() for k, v in tensors.items()}, source)
        subprocess.run([find("model_probe"), kind, str(model_dir), dtype,
                        str(source), str(target)], check=True)
        return load_file(target)["output"]


def troupe(verb, arguments):
    """A verb of the program; returns the summary that --json prints."""
    done = subprocess.run([find("troupe"), verb, "--json", "-q",
                           *map(str, arguments)],
                          capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"parity: troupe {verb} failed: {done.stdout}"
                         f"{done.stderr}")
    # Not splitlines(): a prompt may have other ends of lines in it.
    return json.loads(done.stdout.strip().split("\n")[-1])


def sample(arguments):
    return troupe("sample", arguments)
