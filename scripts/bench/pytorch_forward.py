"""Times one guided forward pass of a DiT in PyTorch (diffusers' class).

Prints one JSON line: median seconds of eager and of torch.compile.
  python pytorch_forward.py --model dit-xl-2-256 --dtype bf16 --threads 2
  python pytorch_forward.py --folder models/demo --dtype f32 --no-compile
"""

import argparse
import json
import statistics
import time

import torch
from diffusers import DiTTransformer2DModel

SIZES = {
    "dit-xl-2-256": dict(num_attention_heads=16, attention_head_dim=72,
                         num_layers=28, sample_size=32),
    "dit-s-2": dict(num_attention_heads=6, attention_head_dim=64,
                    num_layers=12, sample_size=32),
}


def build(args, dtype):
    if args.folder:
        model = DiTTransformer2DModel.from_pretrained(
            args.folder + "/transformer")
    else:
        model = DiTTransformer2DModel(in_channels=4, out_channels=8,
                                      **SIZES[args.model])
    return model.to(dtype).eval()


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
def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=SIZES, default="dit-xl-2-256")
    parser.add_argument("--folder")
    parser.add_argument("--dtype", choices=["f32", "bf16"], default="bf16")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--no-compile", action="store_true")
    args = parser.parse_args()

    torch.set_num_threads(args.threads)
    dtype = {"f32": torch.float32, "bf16": torch.bfloat16}[args.dtype]
    model = build(args, dtype)
    config = model.config
    latents = torch.randn(2, config.in_channels, config.sample_size,
                          config.sample_size).to(dtype)
    timesteps = torch.tensor([500, 500])
    labels = torch.tensor([1 % config.num_embeds_ada_norm,
                           config.num_embeds_ada_norm])
    result = {"torch": torch.__version__, "dtype": args.dtype,
              "threads": args.threads}
    result["eager_s"] = median_seconds(
        lambda: model(latents, timesteps, labels).sample, args.repeats)
    if not args.no_compile:
        compiled = torch.compile(model)
        result["compile_s"] = median_seconds(
            lambda: compiled(latents, timesteps, labels).sample, args.repeats)
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
