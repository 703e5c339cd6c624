"""Times one guided forward pass of a bundled model in PyTorch (diffusers' class).

Prints one JSON line: median seconds of eager and of torch.compile.
  python pytorch_forward.py --config FILE --dtype bf16 --threads 2
  python pytorch_forward.py --folder models/demo --dtype f32 --no-compile
FILE is what `forward_probe config NAME` prints of a bundled model; its weights
are random.
"""

import argparse
import json
import pathlib
import statistics
import time

import diffusers
import torch

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}


PROMPT_TOKENS = 300  # of a transformer's conditional row; the other has one
UNET_TOKENS = 77


def build(folder, config_file):
    if folder:
        folder = next(folder / name for name in ("transformer", "unet")
                      if (folder / name).is_dir())
        config = json.loads((folder / "config.json").read_text())
    else:
        config = json.loads(config_file.read_text())["denoiser"]
    network = getattr(diffusers, config["_class_name"])
    if folder:
        return network.from_pretrained(folder)
    model, unused = network.from_config(config, return_unused_kwargs=True)
    unknown = sorted(key for key in unused if not key.startswith("_"))
    if unknown:
        raise SystemExit(f"pytorch_forward: {config_file}: diffusers' class has no "
                         + ", ".join(unknown))
    return model


def conditions_of(config, dtype):
    """Keyword arguments of a pair of rows."""
    if config.get("cross_attention_dim") and config.get("block_out_channels"):
        given = {"encoder_hidden_states": torch.randn(
            2, UNET_TOKENS, config.cross_attention_dim).to(dtype)}
        if config.addition_embed_type == "text_time":
            width = config.projection_class_embeddings_input_dim
            given["added_cond_kwargs"] = {
                "text_embeds": torch.randn(
                    2, width - 6 * config.addition_time_embed_dim).to(dtype),
                "time_ids": torch.tensor([[512., 512, 0, 0, 512, 512]] * 2)}
        return given
    if config.get("caption_channels"):
        lengths = torch.tensor([PROMPT_TOKENS, 1])
        mask = torch.arange(PROMPT_TOKENS)[None] < lengths[:, None]
        return {"encoder_hidden_states": torch.randn(
                    2, PROMPT_TOKENS, config.caption_channels).to(dtype),
                "encoder_attention_mask": mask.to(dtype)}
    return {"class_labels": torch.tensor([1 % config.num_embeds_ada_norm,
                                          config.num_embeds_ada_norm])}


def median_seconds(call, repeats):
    for _ in range(2):
        call()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


@torch.inference_mode()
def measure(args):
    torch.set_num_threads(args.threads)
    dtype = DTYPES[args.dtype]
    model = build(args.folder, args.config).to(dtype).eval()
    config = model.config
    side = args.side or config.sample_size
    latents = torch.randn(2, config.in_channels, side, side).to(dtype)
    given = {"timestep": torch.tensor([500, 500]), **conditions_of(config, dtype)}
    result = {"torch": torch.__version__, "dtype": args.dtype,
              "threads": args.threads}
    result["eager_s"] = median_seconds(
        lambda: model(latents, **given).sample, args.repeats)
    if not args.no_compile:
        compiled = torch.compile(model)
        result["compile_s"] = median_seconds(
            lambda: compiled(latents, **given).sample, args.repeats)
    return result


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--config", metavar="FILE", type=pathlib.Path)
    source.add_argument("--folder", metavar="DIR", type=pathlib.Path)
    parser.add_argument("--side", type=int, help="of the latents")
    parser.add_argument("--dtype", choices=DTYPES, default="bf16")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--no-compile", action="store_true")
    args = parser.parse_args()
    print(json.dumps(measure(args)), flush=True)


if __name__ == "__main__":
    main()
