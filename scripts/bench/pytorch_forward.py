"""Times one guided forward pass of a bundled model in PyTorch (diffusers' class).

Prints one JSON line: median seconds of eager and of torch.compile.
  python pytorch_forward.py --config FILE --dtype bf16 --threads 2
  python pytorch_forward.py --folder models/demo --dtype f32 --no-compile
FILE is what `forward_probe config NAME` prints of a bundled model; its weights
are random.
"""

import argparse
import json
import statistics
import time

import diffusers
import torch

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}


PROMPT_TOKENS = 300  # of the conditional row; the other has one


def build(folder, config_file):
    file_name = folder + "/transformer/config.json" if folder else config_file
    with open(file_name, encoding="utf-8") as file:
        config = json.load(file)
    if not folder:
        config = config["transformer"]
    network = getattr(diffusers, config["_class_name"])
    if folder:
        return network.from_pretrained(folder + "/transformer")
    model, unused = network.from_config(config, return_unused_kwargs=True)
    unknown = sorted(key for key in unused if not key.startswith("_"))
    if unknown:
        raise SystemExit(f"pytorch_forward: {config_file}: diffusers' class has no "
                         + ", ".join(unknown))
    return model


def conditions_of(config, dtype):
    """Keyword arguments of a pair of rows."""
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
    source.add_argument("--config", metavar="FILE")
    source.add_argument("--folder", metavar="DIR")
    parser.add_argument("--side", type=int, help="of the latents")
    parser.add_argument("--dtype", choices=DTYPES, default="bf16")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--no-compile", action="store_true")
    args = parser.parse_args()
    print(json.dumps(measure(args)), flush=True)


if __name__ == "__main__":
    main()
