#!/usr/bin/env python3
"""Makes the fixtures uvit_* in tests/golden: U-ViTs with inputs and outputs.

usage: scripts/golden_uvit.py [--out DIR]

diffusers has no such class. This is an independent reference of the authors'
arithmetic (Bao et al. 2023, arXiv:2209.12152; baofff/U-ViT libs/uvit.py) over
their names of tensors, for label-conditioned networks without mlp_time_embed.
Timesteps of the fixtures are diffusers'. The authors' begin with 1
(eval_ldm_discrete.py), so the reference is given the next one. Needs torch.
"""
import argparse
import json
import math
import os
import struct

import torch
import torch.nn.functional as F

EXTRAS = 2  # a class and a timestep
TYPES = {torch.float32: "F32", torch.int64: "I64"}


def save_safetensors(tensors, path):
    header, data = {}, b""
    for name, tensor in tensors.items():
        tensor = tensor.contiguous()
        begin = len(data)
        data += tensor.numpy().tobytes()
        header[name] = {"dtype": TYPES[tensor.dtype],
                        "shape": list(tensor.shape),
                        "data_offsets": [begin, len(data)]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def sinusoids(timesteps, width):
    half = width // 2
    frequencies = torch.exp(
        -math.log(10000) * torch.arange(half, dtype=torch.float32) / half)
    angles = timesteps.float()[:, None] * frequencies
    return F.pad(torch.cat([angles.cos(), angles.sin()], 1), (0, width % 2))


class Reference:
    """Runs weights (a state dict) of one dtype."""

    def __init__(self, config, weights):
        self.config = config
        self.weights = weights

    def layer(self, name, x):
        return F.linear(x, self.weights[name + ".weight"],
                        self.weights.get(name + ".bias"))

    def norm(self, name, x):
        return F.layer_norm(x, x.shape[-1:], self.weights[name + ".weight"],
                            self.weights[name + ".bias"])

    def attention(self, name, x):
        heads = self.config["num_heads"]
        rows, tokens, width = x.shape
        q, k, v = (part.view(rows, tokens, heads, -1).transpose(1, 2)
                   for part in self.layer(name + ".qkv", x).split(width, -1))
        weights = (q @ k.mT * (width // heads) ** -0.5).softmax(-1)
        return self.layer(name + ".proj",
                          (weights @ v).transpose(1, 2).reshape(x.shape))

    def block(self, name, x, skip=None):
        if skip is not None:
            x = self.layer(name + ".skip_linear", torch.cat([x, skip], -1))
        x = x + self.attention(name + ".attn", self.norm(name + ".norm1", x))
        hidden = F.gelu(self.layer(name + ".mlp.fc1",
                                   self.norm(name + ".norm2", x)))
        return x + self.layer(name + ".mlp.fc2", hidden)

    def __call__(self, latents, timesteps, labels):
        c, weights = self.config, self.weights
        p = c["patch_size"]
        patches = F.conv2d(latents, weights["patch_embed.proj.weight"],
                           weights["patch_embed.proj.bias"], stride=p)
        times = sinusoids(timesteps, c["embed_dim"]).to(latents.dtype)
        x = torch.cat([weights["label_emb.weight"][labels][:, None],
                       times[:, None], patches.flatten(2).mT], 1)
        x = x + weights["pos_embed"]
        skips = []
        for i in range(c["depth"] // 2):
            x = self.block(f"in_blocks.{i}", x)
            skips.append(x)
        x = self.block("mid_block", x)
        for i in range(c["depth"] // 2):
            x = self.block(f"out_blocks.{i}", x, skips.pop())
        x = self.layer("decoder_pred", self.norm("norm", x))[:, EXTRAS:]
        side, channels = c["img_size"] // p, c["in_chans"]
        x = x.view(-1, side, side, p, p, channels).permute(0, 5, 1, 3, 2, 4)
        x = x.reshape(latents.shape)
        if c["conv"]:
            x = F.conv2d(x, weights["final_layer.weight"],
                         weights["final_layer.bias"], padding=1)
        return x


def random_weights(c):
    weights = {}
    width, p, channels = c["embed_dim"], c["patch_size"], c["in_chans"]

    def table(name, *shape):
        weights[name] = torch.randn(shape)

    def layer(name, *shape, bias=True):
        inputs = math.prod(shape[1:])
        weights[name + ".weight"] = torch.randn(shape) / math.sqrt(inputs)
        if bias:
            weights[name + ".bias"] = 0.1 * torch.randn(shape[0])

    def norm(name):
        weights[name + ".weight"] = 1 + 0.1 * torch.randn(width)
        weights[name + ".bias"] = 0.1 * torch.randn(width)

    def block(name, takes_skip):
        norm(name + ".norm1")
        layer(name + ".attn.qkv", 3 * width, width, bias=c["qkv_bias"])
        layer(name + ".attn.proj", width, width)
        norm(name + ".norm2")
        hidden = int(width * c["mlp_ratio"])
        layer(name + ".mlp.fc1", hidden, width)
        layer(name + ".mlp.fc2", width, hidden)
        if takes_skip:
            layer(name + ".skip_linear", width, 2 * width)

    table("pos_embed", 1, EXTRAS + (c["img_size"] // p) ** 2, width)
    layer("patch_embed.proj", width, channels, p, p)
    table("label_emb.weight", c["num_classes"], width)
    for i in range(c["depth"] // 2):
        block(f"in_blocks.{i}", False)
    block("mid_block", False)
    for i in range(c["depth"] // 2):
        block(f"out_blocks.{i}", True)
    norm("norm")
    layer("decoder_pred", p * p * channels, width)
    if c["conv"]:
        layer("final_layer", channels, channels, 3, 3)
    return weights


@torch.no_grad()
def make(folder, seed, **config):
    torch.manual_seed(seed)
    weights = random_weights(config)
    side = config["img_size"]
    latents = torch.randn(3, config["in_chans"], side, side)
    timesteps = torch.tensor([999, 501, 0])
    labels = torch.tensor([0, config["num_classes"] - 1, 1])

    def run(dtype):
        cast = {name: tensor.to(dtype) for name, tensor in weights.items()}
        return Reference(config, cast)(latents.to(dtype), timesteps + 1,
                                       labels).float()

    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump({"_class_name": "UViT", **config}, file, indent=2)
        file.write("\n")
    save_safetensors(weights, os.path.join(
        folder, "diffusion_pytorch_model.safetensors"))
    save_safetensors({"latents": latents, "timesteps": timesteps,
                      "labels": labels, "output": run(torch.float32),
                      "output_bf16": run(torch.bfloat16)},
                     os.path.join(folder, "golden.safetensors"))
    print("wrote", folder)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    parser.add_argument("--out", default=os.path.join(root, "tests", "golden"))
    out = parser.parse_args().out
    torch.set_num_threads(1)
    make(os.path.join(out, "uvit_default"), 21, img_size=8, patch_size=2,
         in_chans=4, embed_dim=16, depth=4, num_heads=2, mlp_ratio=4,
         qkv_bias=False, mlp_time_embed=False, num_classes=6, conv=False,
         skip=True)
    make(os.path.join(out, "uvit_unusual"), 22, img_size=5, patch_size=1,
         in_chans=3, embed_dim=15, depth=5, num_heads=3, mlp_ratio=2.5,
         qkv_bias=True, mlp_time_embed=False, num_classes=4, conv=True,
         skip=True)


if __name__ == "__main__":
    main()
