#!/usr/bin/env python3
"""Turns pickled weights into safetensors, without running pickled code.

usage: scripts/convert_checkpoint.py DIR

DIR is a diffusers folder, one of its component folders, or a folder with an
original facebookresearch/DiT checkpoint (*.pt); there, a config.json is made
from the tensors' shapes. Needs torch (>= 1.13).
"""
import argparse
import json
import os
import re
import struct
import sys

import torch

NAMES = {torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16",
         torch.int64: "I64", torch.uint8: "U8"}
STEM = "diffusion_pytorch_model"


def load(path):
    """The tensors of a pickled file; code in it is refused by torch."""
    state = torch.load(path, map_location="cpu", weights_only=True)
    for key in ("ema", "state_dict", "model"):
        if isinstance(state.get(key), dict):
            state = state[key]
            break
    return {k: v for k, v in state.items() if isinstance(v, torch.Tensor)}


def save(tensors, path):
    """Writes the safetensors format (temporary name, then rename)."""
    header, offset, order = {}, 0, sorted(
        tensors, key=lambda k: (-tensors[k].element_size(), k))
    for name in order:
        t = tensors[name]
        end = offset + t.numel() * t.element_size()
        header[name] = {"dtype": NAMES[t.dtype], "shape": list(t.shape),
                        "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    temporary = path + ".tmp"
    with open(temporary, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        for name in order:
            flat = tensors[name].detach().contiguous().flatten()
            wide = {4: torch.int32, 2: torch.int16, 8: torch.int64,
                    1: torch.uint8}[flat.element_size()]
            out.write(flat.view(wide).numpy().tobytes())
        out.flush()
        os.fsync(out.fileno())
    os.replace(temporary, path)
    print("wrote", path)


def is_original_dit(state):
    return "x_embedder.proj.weight" in state and "pos_embed" in state


def convert_original_dit(state):
    """facebookresearch/DiT names to diffusers names, and the config."""
    num_layers = 1 + max(int(m.group(1)) for m in
                         (re.match(r"blocks\.(\d+)\.", k) for k in state) if m)
    width, in_channels, patch, _ = state["x_embedder.proj.weight"].shape
    out, shared = {}, {
        "timestep_embedder.linear_1": "t_embedder.mlp.0",
        "timestep_embedder.linear_2": "t_embedder.mlp.2"}

    def linear(new, old):
        for part in ("weight", "bias"):
            out[f"{new}.{part}"] = state[f"{old}.{part}"]

    linear("pos_embed.proj", "x_embedder.proj")
    for i in range(num_layers):
        new, old = f"transformer_blocks.{i}", f"blocks.{i}"
        for a, b in shared.items():
            linear(f"{new}.norm1.emb.{a}", b)
        out[f"{new}.norm1.emb.class_embedder.embedding_table.weight"] = \
            state["y_embedder.embedding_table.weight"]
        linear(f"{new}.norm1.linear", f"{old}.adaLN_modulation.1")
        for part in ("weight", "bias"):
            for name, piece in zip("qkv", state[f"{old}.attn.qkv.{part}"]
                                   .chunk(3, dim=0)):
                out[f"{new}.attn1.to_{name}.{part}"] = piece
        linear(f"{new}.attn1.to_out.0", f"{old}.attn.proj")
        linear(f"{new}.ff.net.0.proj", f"{old}.mlp.fc1")
        linear(f"{new}.ff.net.2", f"{old}.mlp.fc2")
    linear("proj_out_1", "final_layer.adaLN_modulation.1")
    linear("proj_out_2", "final_layer.linear")
    side = int(state["pos_embed"].shape[1] ** 0.5) * patch
    # Heads are not in the tensors; the published sizes fix them.
    heads = {384: 6, 768: 12, 1024: 16, 1152: 16}.get(width)
    if heads is None:
        sys.exit(f"unknown DiT width {width}: write config.json by hand")
    config = {
        "_class_name": "DiTTransformer2DModel", "num_attention_heads": heads,
        "attention_head_dim": width // heads, "in_channels": in_channels,
        "out_channels": out["proj_out_2.weight"].shape[0] // patch ** 2,
        "num_layers": num_layers, "sample_size": side, "patch_size": patch,
        "num_embeds_ada_norm":
            state["y_embedder.embedding_table.weight"].shape[0] - 1,
        "activation_fn": "gelu-approximate", "attention_bias": True,
        "norm_type": "ada_norm_zero"}
    return out, config


def convert_folder(folder):
    """Converts one folder; returns the number of files written."""
    names = sorted(os.listdir(folder))
    if any(n.endswith(".safetensors") for n in names):
        return 0
    done = 0
    index = f"{STEM}.bin.index.json"
    if index in names:
        with open(os.path.join(folder, index)) as f:
            shards = sorted(set(json.load(f)["weight_map"].values()))
        state = {}
        for shard in shards:
            if os.path.basename(shard) != shard:
                sys.exit(f"{index}: shard name {shard!r} is a path")
            state.update(load(os.path.join(folder, shard)))
        save(state, os.path.join(folder, f"{STEM}.safetensors"))
        return 1
    for name in names:
        stem, extension = os.path.splitext(name)
        if extension not in (".bin", ".pt", ".pth", ".ckpt"):
            continue
        state = load(os.path.join(folder, name))
        target = stem if stem.startswith(STEM) else STEM
        if is_original_dit(state):
            state, config = convert_original_dit(state)
            path = os.path.join(folder, "config.json")
            if not os.path.exists(path):
                with open(path, "w") as f:
                    json.dump(config, f, indent=2)
                print("wrote", path)
        save(state, os.path.join(folder, f"{target}.safetensors"))
        done += 1
    return done


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", metavar="DIR")
    folder = parser.parse_args().folder
    if not os.path.isdir(folder):
        sys.exit(f"{folder}: no such folder")
    done = convert_folder(folder)
    for part in ("transformer", "unet", "vae"):
        if os.path.isdir(os.path.join(folder, part)):
            done += convert_folder(os.path.join(folder, part))
    if done == 0:
        sys.exit(f"{folder}: no pickled weights that need converting")


if __name__ == "__main__":
    main()
