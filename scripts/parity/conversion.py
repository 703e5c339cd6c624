"""Pickled checkpoints through scripts/convert_checkpoint.py, then through Troupe."""

import math
import pathlib
import subprocess
import sys
import tempfile

import torch
import torch.nn.functional as F
from diffusers import DiTTransformer2DModel

import probes
from models import F32_LIMIT, dit_forward, dit_inputs, random_dit_config
from report import relative_l2

CONVERT = pathlib.Path(__file__).resolve().parents[1] / "convert_checkpoint.py"


def convert(folder):
    subprocess.run([sys.executable, CONVERT, folder], check=True,
                   stdout=subprocess.DEVNULL)


def check_pickled_folder(report, rng):
    """A diffusers folder whose weights are a .bin."""
    config = random_dit_config(rng)
    torch.manual_seed(rng.getrandbits(31))
    model = DiTTransformer2DModel(**config).eval()
    generator = torch.Generator().manual_seed(rng.getrandbits(31))
    inputs = dit_inputs(config, rng, generator)
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder, safe_serialization=False)
        convert(folder)
        sent = {**inputs, "timesteps": inputs["timesteps"].float()}
        report.add("converted .bin, f32", str(config),
                   relative_l2(probes.forward("dit", folder, sent),
                               dit_forward(model, inputs)), F32_LIMIT)


def original_tensors(rng, width, layers, side, classes):
    """Random weights under the names of facebookresearch/DiT."""
    generator = torch.Generator().manual_seed(rng.getrandbits(31))
    shapes = {"x_embedder.proj": (width, 4, 2, 2), "t_embedder.mlp.0": (width, 256),
              "t_embedder.mlp.2": (width, width),
              "final_layer.adaLN_modulation.1": (2 * width, width),
              "final_layer.linear": (32, width)}
    for i in range(layers):
        shapes |= {f"blocks.{i}.adaLN_modulation.1": (6 * width, width),
                   f"blocks.{i}.attn.qkv": (3 * width, width),
                   f"blocks.{i}.attn.proj": (width, width),
                   f"blocks.{i}.mlp.fc1": (4 * width, width),
                   f"blocks.{i}.mlp.fc2": (width, 4 * width)}
    state = {"pos_embed": position_table(width, side // 2)[None]}
    for name, shape in shapes.items():
        fan_in = math.prod(shape[1:])
        state[f"{name}.weight"] = torch.randn(shape, generator=generator) / fan_in**0.5
        state[f"{name}.bias"] = 0.1 * torch.randn(shape[0], generator=generator)
    state["y_embedder.embedding_table.weight"] = torch.randn(
        classes + 1, width, generator=generator)
    return state


def position_table(width, grid):
    """Sines, then cosines, of the column; then of the row (MAE, arXiv:2111.06377)."""
    frequency = 10000.0 ** (-torch.arange(width // 4).double() / (width // 4))
    angle = torch.arange(grid).double()[:, None] * frequency
    line = torch.cat([angle.sin(), angle.cos()], 1)
    return torch.cat([line[None].expand(grid, -1, -1),
                      line[:, None].expand(-1, grid, -1)], 2).reshape(
                          grid * grid, width).float()


def original_forward(w, heads, latents, timesteps, labels):
    """Peebles & Xie's network, with diffusers' two departures: the spacing of
    the timestep's frequencies and the second norm's eps."""
    def linear(x, name):
        return F.linear(x, w[f"{name}.weight"], w[f"{name}.bias"])

    def modulate(x, shift, scale, eps):
        return (F.layer_norm(x, x.shape[-1:], eps=eps) * (1 + scale[:, None])
                + shift[:, None])

    frequency = torch.exp(-math.log(10000.0) * torch.arange(128) / 127)
    angle = timesteps[:, None].float() * frequency
    t = linear(torch.cat([angle.cos(), angle.sin()], 1), "t_embedder.mlp.0")
    c = F.silu(linear(F.silu(t), "t_embedder.mlp.2")
               + w["y_embedder.embedding_table.weight"][labels])
    x = F.conv2d(latents, w["x_embedder.proj.weight"], w["x_embedder.proj.bias"],
                 stride=2).flatten(2).transpose(1, 2) + w["pos_embed"]
    b, n, d = x.shape
    for i in range(sum(name.endswith("attn.qkv.weight") for name in w)):
        block = f"blocks.{i}"
        m = linear(c, f"{block}.adaLN_modulation.1").chunk(6, 1)
        q, k, v = (linear(modulate(x, m[0], m[1], 1e-6), f"{block}.attn.qkv")
                   .view(b, n, 3, heads, d // heads).permute(2, 0, 3, 1, 4))
        mixed = ((q * (d // heads)**-0.5) @ k.transpose(-1, -2)).softmax(-1) @ v
        x = x + m[2][:, None] * linear(mixed.transpose(1, 2).reshape(b, n, d),
                                       f"{block}.attn.proj")
        hidden = F.gelu(linear(modulate(x, m[3], m[4], 1e-5), f"{block}.mlp.fc1"),
                        approximate="tanh")
        x = x + m[5][:, None] * linear(hidden, f"{block}.mlp.fc2")
    shift, scale = linear(c, "final_layer.adaLN_modulation.1").chunk(2, 1)
    x = linear(modulate(x, shift, scale, 1e-6), "final_layer.linear")
    side = int(n**0.5)
    return (x.view(b, side, side, 2, 2, 8).permute(0, 5, 1, 3, 2, 4)
            .reshape(b, 8, 2 * side, 2 * side))


def check_original(report, rng):
    """A .pt under the authors' own names, with an average of the weights."""
    side, classes = 2 * rng.randint(2, 5), rng.choice([10, 1000])
    state = original_tensors(rng, 384, rng.randint(1, 3), side, classes)
    generator = torch.Generator().manual_seed(rng.getrandbits(31))
    latents = torch.randn(2, 4, side, side, generator=generator)
    timesteps, labels = torch.tensor([980, 3]), torch.tensor([1, classes])
    with tempfile.TemporaryDirectory() as folder:
        torch.save({"ema": state}, pathlib.Path(folder) / "model.pt")
        convert(folder)
        ours = probes.forward("dit", folder, {
            "latents": latents, "timesteps": timesteps.float(), "labels": labels})
    report.add("converted original .pt, f32", f"side {side}, {classes} classes",
               relative_l2(ours, original_forward(state, 6, latents, timesteps,
                                                  labels)), F32_LIMIT)


def check_conversion(report, rng, count):
    with torch.no_grad():
        for _ in range(count):
            check_pickled_folder(report, rng)
            check_original(report, rng)
