#!/usr/bin/env python3
"""Turns pickled weights into safetensors, without running pickled code.

usage: scripts/convert_checkpoint.py DIR

DIR is a folder in diffusers layout, one of its parts, or a folder with an
original facebookresearch/DiT checkpoint (*.pt); there, a config.json is made
from the tensors' shapes. Of a part, the files diffusion_pytorch_model* and
pytorch_model* are converted; the second become model*.safetensors. Shards
become one file. No file is written over. Needs torch (>= 1.13).
"""
import argparse
import json
import os
import re
import struct
import sys
import tempfile

PARTS = re.compile(r"transformer|unet|vae|text_encoder(_\d+)?")
STEM = "diffusion_pytorch_model"
PICKLED = (".bin", ".pt", ".pth", ".ckpt")
# Name, variant. transformers calls its own files model*.safetensors.
WHOLE = re.compile(rf"({STEM}|pytorch_model)(\.\w+)?\.(?:bin|pt|pth|ckpt)")
SAFE = re.compile(rf"({STEM}|model)(\.\w+)?\.safetensors")
# The variant stands in one of three places.
INDEX = rf"(\.\w+)?\.{{}}(\.\w+)?\.index(\.\w+)?\.json"
PICKLED_INDEX = re.compile(rf"({STEM}|pytorch_model)" + INDEX.format("bin"))
SAFE_INDEX = re.compile(rf"({STEM}|model)" + INDEX.format("safetensors"))
SHARD = re.compile(r"-\d+-of-\d+")
GIT_POINTER = b"version https://git-lfs"
BAD_INPUT = 2


class Refusal(Exception):
    """What cannot be converted, and why: one line for the user."""


def first_line(error):
    """Without torch's advice to run the code in the file."""
    text = str(error).rpartition("WeightsUnpickler error:")[2].strip()
    return text.splitlines()[0] if text else type(error).__name__


def import_torch():
    try:
        import torch
    except ImportError as error:
        raise Refusal(f"torch is needed to read pickled weights ({first_line(error)}): "
                      "apt install python3-torch, or pip install torch") from error
    return torch


def check_link(path):
    """Errors: Refusal for a link to nothing."""
    if os.path.islink(path) and not os.path.exists(path):
        raise Refusal(f"{path}: a link to {os.readlink(path)}, which is not there: "
                      "download it again")


def check_file(path):
    """Errors: Refusal for what is not the file that it should be."""
    check_link(path)
    if not os.path.isfile(path):
        raise Refusal(f"{path}: no such file: download it")
    with open(path, "rb") as file:
        if file.read(len(GIT_POINTER)) == GIT_POINTER:
            raise Refusal(f"{path}: Git LFS left a pointer to the weights: run git lfs pull")


def load(path):
    """The tensors of a pickled file; code in it is refused by torch."""
    check_file(path)
    torch = import_torch()
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # of torch, pickle and zip, whatever the file holds
        raise Refusal(f"{path}: cannot be read as pickled tensors: "
                      f"{first_line(error)}") from error
    if isinstance(state, dict):
        for key in ("ema", "state_dict", "model"):
            if isinstance(state.get(key), dict):
                state = state[key]
                break
        tensors = {name: tensor for name, tensor in state.items()
                   if isinstance(name, str) and isinstance(tensor, torch.Tensor)}
        if tensors:
            return tensors
    raise Refusal(f"{path}: holds a {type(state).__name__}, expected tensors by name: "
                  "it is no checkpoint of weights")


def entry_of(path, name, tensor):
    """What the header of a safetensors file says of the tensor."""
    torch = import_torch()
    names = {torch.float64: "F64", torch.float32: "F32", torch.float16: "F16",
             torch.bfloat16: "BF16", torch.int64: "I64", torch.int32: "I32",
             torch.int16: "I16", torch.int8: "I8", torch.uint8: "U8", torch.bool: "BOOL"}
    if tensor.layout != torch.strided or tensor.dtype not in names:
        kind = tensor.dtype if tensor.layout == torch.strided else tensor.layout
        raise Refusal(f"{path}: tensor {name!r} is {kind}, which cannot be converted")
    return {"dtype": names[tensor.dtype], "shape": list(tensor.shape),
            "bytes": tensor.numel() * tensor.element_size()}


def bytes_of(tensor):
    torch = import_torch()
    flat = tensor.detach().contiguous().flatten()
    wide = {8: torch.int64, 4: torch.int32, 2: torch.int16,
            1: torch.uint8}[flat.element_size()]
    return flat.view(wide).numpy().tobytes()


def new_file(path, write):
    """Lets `write` fill a file, which then gets its name: never half of it. What is
    there already stays."""
    try:
        handle, temporary = tempfile.mkstemp(prefix=".converting-",
                                             dir=os.path.dirname(path))
    except OSError as error:
        raise Refusal(f"{path}: cannot be written: {error.strerror}") from error
    try:
        with open(handle, "wb") as out:
            write(out)
            out.flush()
            os.fsync(out.fileno())
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)
        if os.path.lexists(path):
            raise Refusal(f"{path}: is there by now, and left as it is")
        os.rename(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    print("wrote", path)


def check_complete(index, weight_map, found):
    """Errors: Refusal for a tensor that the index names and no shard has. The libraries
    take every tensor of every shard that is named, whichever shard the index says."""
    missing = sorted(set(weight_map) - set(found))
    if missing:
        more = f" (and {len(missing) - 1} more)" if missing[1:] else ""
        raise Refusal(f"{index}: tensor {missing[0]!r}{more} is not in "
                      f"{weight_map[missing[0]]}: download the shard and its index again")


def save(sources, path, check=lambda found: None):
    """Joins the tensors of files in the safetensors format. One of the files is in
    memory at a time. sources: (file, function that gives its tensors). `check` sees the
    names of the tensors before anything is written."""
    entries, owners, held = [], {}, None
    for source, tensors_of in sources:
        held = tensors_of()
        for name in sorted(held, key=lambda k: (-held[k].element_size(), k)):
            if name in owners:
                raise Refusal(f"{source}: tensor {name!r} is in {owners[name]}, too")
            owners[name] = source
            entries.append((name, entry_of(source, name, held[name])))
    check(owners)

    def write(out):
        header, offset = {}, 0
        for name, entry in entries:
            end = offset + entry["bytes"]
            header[name] = {"dtype": entry["dtype"], "shape": entry["shape"],
                            "data_offsets": [offset, end]}
            offset = end
        text = json.dumps(header, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        out.write(struct.pack("<Q", len(text)) + text)
        for source, tensors_of in sources:
            tensors = held if len(sources) == 1 else tensors_of()
            for name, _ in entries:
                if owners[name] == source:
                    out.write(bytes_of(tensors[name]))

    new_file(path, write)


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
        raise Refusal(f"unknown DiT width {width}: write config.json by hand")
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


def target_of(match):
    """The name of the safetensors file with the weights of a file or an index."""
    stem, *variants = match.groups()
    variant = next((v for v in variants if v), "")
    return f"{STEM if stem == STEM else 'model'}{variant}.safetensors"


def read_index(index):
    """The weight_map of an index, and the paths of the shards that it names."""
    check_file(index)
    try:
        with open(index, encoding="utf-8") as file:
            weight_map = json.load(file)["weight_map"]
        shards = sorted(set(weight_map.values()))
        plain = all(os.path.basename(shard) == shard for shard in shards)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Refusal(f"{index}: is no index of shards: {first_line(error)}") from error
    if not shards or not plain:
        raise Refusal(f"{index}: names no shards in its folder")
    paths = [os.path.join(os.path.dirname(index), shard) for shard in shards]
    for path in paths:
        check_file(path)
    return weight_map, paths


def names_in_safetensors(path):
    try:
        with open(path, "rb") as file:
            size, = struct.unpack("<Q", file.read(8))
            if size > os.path.getsize(path):
                raise ValueError("its header is cut off")
            return set(json.loads(file.read(size)))
    except (ValueError, TypeError, RecursionError, struct.error) as error:
        raise Refusal(f"{path}: cannot be read as safetensors: {first_line(error)}: "
                      "download it again") from error


def check_safe(path):
    """Errors: Refusal for safetensors that cannot stand in for pickled weights: a link
    to nothing, or an index whose shards do not have all of its tensors."""
    check_file(path)
    if path.endswith(".json"):
        weight_map, shards = read_index(path)
        check_complete(path, weight_map, set().union(*map(names_in_safetensors, shards)))


def weights_in(names):
    """(name to write, file or index to read), in the order in which the libraries
    look for them: diffusers for an index first, transformers for a whole file."""
    found = []
    for name in names:
        whole, index = WHOLE.fullmatch(name), PICKLED_INDEX.fullmatch(name)
        if whole or index:
            target = target_of(whole or index)
            found.append((target, target.startswith(STEM) == bool(whole), name))
    return [(target, name) for target, _, name in sorted(found)]


def convert_part(folder):
    """Converts the weights of one part. Returns how many files have been written or
    were there."""
    check_link(folder)
    names = sorted(os.listdir(folder))
    done = {target_of(match): match.string for match in
            (SAFE.fullmatch(name) or SAFE_INDEX.fullmatch(name) for name in names)
            if match}
    count = 0
    for target, name in weights_in(names):
        path = os.path.join(folder, name)
        count += 1
        if target in done:
            check_safe(os.path.join(folder, done[target]))
            print(f"{path}: left as it is, as {target} is there")
            continue
        weight_map, files = read_index(path) if name.endswith(".json") else ({}, [path])
        save([(file, lambda file=file: load(file)) for file in files],
             os.path.join(folder, target),
             lambda found, path=path, weight_map=weight_map:
             check_complete(path, weight_map, found))
        done[target] = target
    pickled = [name for name in names if name.endswith(PICKLED)]
    if pickled and not count and not done:
        shards = SHARD.search(pickled[0])
        raise Refusal(f"{folder}: no weights to convert: got {pickled[0]}, expected "
                      + (f"the index of the shards, too ({STEM}.bin.index.json or "
                         "pytorch_model.bin.index.json): download it" if shards else
                         f"{STEM}.bin or pytorch_model.bin"))
    return count


def dit_in(folder, names):
    """Name and tensors of the one original DiT checkpoint among the files."""
    found, refusals = [], []
    for name in names:
        path = os.path.join(folder, name)
        try:
            state = load(path)
            if is_original_dit(state):
                found.append((name, state))
            else:
                refusals.append(f"{path}: no checkpoint of DiT: got tensors such as "
                                f"{next(iter(state))!r}: diffusers makes a folder of it: "
                                "from_single_file(FILE), then save_pretrained(DIR)")
        except Refusal as error:
            refusals.append(str(error))
        if len(found) > 1:
            raise Refusal(f"{folder}: several checkpoints: got {found[0][0]} and {name}, "
                          "expected one: put each in a folder of its own")
    if not found:
        raise Refusal(refusals[0])
    return found[0]


def convert_original(folder, names):
    name, state = dit_in(folder, names)
    try:
        tensors, config = convert_original_dit(state)
    except (KeyError, ValueError, IndexError) as error:
        raise Refusal(f"{os.path.join(folder, name)}: not all of a DiT checkpoint: "
                      f"{first_line(error)}") from error
    config_path = os.path.join(folder, "config.json")
    if not os.path.lexists(config_path):
        new_file(config_path, lambda out: out.write(json.dumps(config, indent=2).encode()))
    save([(name, lambda: tensors)], os.path.join(folder, f"{STEM}.safetensors"))
    return 1


def convert(folder):
    """Returns how many files have been written or were there, and what could not be
    converted. A part that fails keeps no other from being converted."""
    if not os.path.isdir(folder):
        raise Refusal(f"{folder}: no such folder")
    names = sorted(os.listdir(folder))
    paths = [os.path.join(folder, name) for name in names if PARTS.fullmatch(name)]
    parts = [path for path in paths if os.path.isdir(path) or not os.path.exists(path)]
    pickled = [name for name in names if name.endswith(PICKLED)]
    # Single files beside the parts are other forms of the whole pipeline.
    is_original = (not parts and "model_index.json" not in names and pickled
                   and not weights_in(names) and not any(map(SHARD.search, pickled))
                   and not any(map(SAFE.fullmatch, names)))
    count, failures = 0, []
    for part in parts or [folder]:
        try:
            count += convert_original(part, pickled) if is_original else convert_part(part)
        except Refusal as error:
            failures.append(str(error))
        except OSError as error:
            failures.append(f"{error.filename or part}: {error.strerror or error}")
        except MemoryError:
            failures.append(f"{part}: not enough memory for its weights")
    return count, failures


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", metavar="DIR")
    folder = parser.parse_args().folder
    try:
        count, failures = convert(folder)
    except (Refusal, OSError) as error:
        count, failures = 0, [str(error)]
    except KeyboardInterrupt:
        sys.exit(130)
    if not count and not failures:
        failures.append(f"{folder}: no pickled weights that need converting")
    for failure in failures:
        print(f"convert_checkpoint.py: {failure}", file=sys.stderr)
    sys.exit(BAD_INPUT if failures else 0)


if __name__ == "__main__":
    main()
