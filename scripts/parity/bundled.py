"""The bundled models' configurations, as diffusers' classes read them."""

import json
import pathlib
import subprocess
import sys
import tempfile

import torch

import models
import probes

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "bench"))
import pytorch_forward  # noqa: E402


def output_of(*command):
    return subprocess.run([probes.find("forward_probe"), *command], check=True,
                          stdout=subprocess.PIPE, text=True).stdout


def peer(name):
    """What bench_forward.sh times, with one block: they are alike."""
    config = json.loads(output_of("config", name))
    config["transformer"]["num_layers"] = 1
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(config, file)
        file.flush()
        return config["transformer"], pytorch_forward.build(None, file.name).eval()


def check_bundled(report, rng):
    for name in output_of("models").split():
        generator = torch.Generator().manual_seed(rng.getrandbits(31))
        torch.manual_seed(rng.getrandbits(31))
        config, model = peer(name)
        models.spread_weights(model, generator)
        kind = (models.PIXART if config["_class_name"].startswith("PixArt")
                else models.DIT)
        inputs = kind.inputs(config, rng, generator)
        with tempfile.TemporaryDirectory() as folder:
            model.save_pretrained(folder)
            models.compare_denoiser(report, kind, model, inputs, folder,
                                    f"{name}, one block")
