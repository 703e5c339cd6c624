"""The bundled models' configurations, as diffusers' classes read them."""

import json
import pathlib
import subprocess
import sys
import tempfile

import diffusers
import torch

import models
import probes

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "bench"))
import pytorch_forward  # noqa: E402


def output_of(*command):
    return subprocess.run([probes.find("forward_probe"), *command], check=True,
                          stdout=subprocess.PIPE, text=True).stdout


def is_unet(config):
    return config["_class_name"] == "UNet2DConditionModel"


def make_small(config):
    """One block of a transformer, they are alike; a UNet of fewer channels."""
    if not is_unet(config):
        config["num_layers"] = 1
        return
    config["layers_per_block"] = 1
    config["block_out_channels"] = [width // 8 * 4
                                    for width in config["block_out_channels"]]
    config["norm_num_groups"] = 4
    if "transformer_layers_per_block" in config:
        config["transformer_layers_per_block"] = 1


def peer(config):
    """What bench_forward.sh times, but smaller. config: of the whole model."""
    make_small(config["denoiser"])
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(config, file)
        file.flush()
        return pytorch_forward.build(None, pathlib.Path(file.name)).eval()


def check_bundled(report, rng):
    for name in output_of("models").split():
        generator = torch.Generator().manual_seed(rng.getrandbits(31))
        torch.manual_seed(rng.getrandbits(31))
        whole = json.loads(output_of("config", name))
        config = whole["denoiser"]
        if not hasattr(diffusers, config["_class_name"]):
            # Values are compared with the authors' code in tests/golden.
            print(f"parity: {name}: diffusers has no {config['_class_name']}")
            continue
        model = peer(whole)
        if is_unet(config):
            # That the class takes every key is enough here. Its passes are
            # compared in tests/golden/unet_* and parity_pipelines.sh.
            continue
        models.spread_weights(model, generator)
        kind = (models.PIXART if config["_class_name"].startswith("PixArt")
                else models.DIT)
        inputs = kind.inputs(config, rng, generator)
        with tempfile.TemporaryDirectory() as folder:
            model.save_pretrained(folder)
            models.compare_denoiser(report, kind, model, inputs, folder,
                                    f"{name}, one block")
