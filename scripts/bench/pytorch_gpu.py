"""Times on a GPU, in PyTorch, what tests/probes/gpu_probe and forward_probe time in Troupe.

Prints one JSON line per case: median milliseconds of eager and of torch.compile, which
records CUDA graphs.
  python pytorch_gpu.py --configs FILE
      [--cases dit-xl-2-256,dit-xl-2-512,flux-stack,vae-512,pixart-sigma-xl-2,sd15,sdxl]
      [--mode max-autotune] [--no-compile]
FILE holds what `forward_probe config NAME` prints, by name, of the bundled models.
Needs torch 2 with CUDA and diffusers. bf16 throughout; inputs are random.
"""

import argparse
import functools
import json
import statistics

import torch
import torch.nn.functional as F
from torch import nn


def dit(config, samples):
    from diffusers import DiTTransformer2DModel
    model = DiTTransformer2DModel.from_config(config).to("cuda", torch.bfloat16).eval()
    rows = 2 * samples  # a pair cond, uncond per sample
    side = config["sample_size"]
    latents = torch.randn(rows, config["in_channels"], side, side, device="cuda",
                          dtype=torch.bfloat16)
    timesteps = torch.full((rows,), 500, device="cuda")
    labels = torch.tensor([1, config["num_embeds_ada_norm"]] * samples, device="cuda")
    return model, (latents, timesteps, labels), lambda out: out.sample


class FluxSizeBlock(nn.Module):
    """adaLN, QK norm, rotary embedding and an MLP of FLUX's widths: what gpu_probe's stack computes."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.head_dim = heads, width // heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)
        self.q_weight = nn.Parameter(torch.ones(self.head_dim))
        self.k_weight = nn.Parameter(torch.ones(self.head_dim))

    def rotate(self, x, weight, cos, sin):
        x = F.rms_norm(x.float(), (self.head_dim,), weight.float(), 1e-6)
        pairs = x.unflatten(-1, (-1, 2))
        even, odd = pairs[..., 0], pairs[..., 1]
        turned = torch.stack([even * cos - odd * sin, even * sin + odd * cos], -1)
        return turned.flatten(-2).to(torch.bfloat16)

    def forward(self, x, modulation, cos, sin):
        shift_1, scale_1, gate_1, shift_2, scale_2, gate_2 = modulation.chunk(6, -1)
        normed = F.layer_norm(x, x.shape[-1:]) * (1 + scale_1) + shift_1
        q, k, v = (self.qkv(normed.to(torch.bfloat16)).unflatten(-1, (3, self.heads, -1))
                   .permute(2, 0, 3, 1, 4))
        q, k = self.rotate(q, self.q_weight, cos, sin), self.rotate(k, self.k_weight, cos, sin)
        attended = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(-2)
        x = x + gate_1 * self.out(attended)
        normed = F.layer_norm(x, x.shape[-1:]) * (1 + scale_2) + shift_2
        return x + gate_2 * self.down(F.gelu(self.up(normed.to(torch.bfloat16)), approximate="tanh"))


class Stack(nn.Module):
    def __init__(self, blocks, width, heads):
        super().__init__()
        self.blocks = nn.ModuleList(FluxSizeBlock(width, heads) for _ in range(blocks))

    def forward(self, x, modulation, cos, sin):
        for block in self.blocks:
            x = block(x, modulation, cos, sin)
        return x


def flux_stack(blocks=8, width=3072, heads=24, tokens=4608):
    model = Stack(blocks, width, heads).to("cuda", torch.bfloat16).eval()
    x = torch.randn(1, tokens, width, device="cuda")  # the residual stream stays f32, as ours
    modulation = 0.1 * torch.randn(1, 1, 6 * width, device="cuda")
    angle = torch.rand(tokens, width // heads // 2, device="cuda") * 6.28
    return model, (x, modulation, angle.cos(), angle.sin()), lambda out: out


def vae(config, side=512):
    from diffusers import AutoencoderKL
    model = AutoencoderKL.from_config(config).to(
        "cuda", torch.bfloat16).eval().to(memory_format=torch.channels_last)
    latents = torch.randn(1, config["latent_channels"], side // 8, side // 8, device="cuda",
                          dtype=torch.bfloat16)
    return model.decode, (latents,), lambda out: out.sample


def prompted(config):
    """PixArt-Sigma or a UNet of Stable Diffusion, a pair of rows at the size of its training."""
    import diffusers
    from pytorch_forward import conditions_of
    model = getattr(diffusers, config["_class_name"]).from_config(config)
    model = model.to("cuda", torch.bfloat16).eval().to(memory_format=torch.channels_last)
    side = config["sample_size"]
    latents = torch.randn(2, config["in_channels"], side, side, device="cuda",
                          dtype=torch.bfloat16).to(memory_format=torch.channels_last)
    given = to_cuda(conditions_of(model.config, torch.bfloat16))
    given["timestep"] = torch.full((2,), 500, device="cuda")
    return functools.partial(model, **given), (latents,), lambda out: out.sample


def to_cuda(given):
    return {key: to_cuda(value) if isinstance(value, dict) else value.to("cuda")
            for key, value in given.items()}


CASES = {
    "dit-xl-2-256": lambda configs: dit(configs["dit-xl-2-256"]["denoiser"], 1),
    "dit-xl-2-512": lambda configs: dit(configs["dit-xl-2-512"]["denoiser"], 8),
    "flux-stack": lambda _: flux_stack(),
    "vae-512": lambda configs: vae(configs["dit-xl-2-512"]["vae"]),
    "pixart-sigma-xl-2": lambda configs: prompted(configs["pixart-sigma-xl-2"]["denoiser"]),
    "sd15": lambda configs: prompted(configs["sd15"]["denoiser"]),
    "sdxl": lambda configs: prompted(configs["sdxl"]["denoiser"]),
}


def median_ms(call, repeats):
    for _ in range(5):
        call()
    torch.cuda.synchronize()
    times = []
    for _ in range(repeats):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        call()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end))
    return statistics.median(times)


@torch.inference_mode()
def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--configs", metavar="FILE", required=True)
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument("--mode", default="max-autotune", help="of torch.compile")
    parser.add_argument("--no-compile", action="store_true")
    args = parser.parse_args()
    names = args.cases.split(",")
    unknown = [name for name in names if name not in CASES]
    if unknown:
        parser.error(f"--cases: got {', '.join(unknown)}, expected of {', '.join(CASES)}")
    with open(args.configs, encoding="utf-8") as file:
        configs = json.load(file)
    for name in names:
        torch.manual_seed(0)
        torch.compiler.reset()
        model, inputs, result_of = CASES[name](configs)
        row = {"case": name, "torch": torch.__version__,
               "eager_ms": median_ms(lambda: result_of(model(*inputs)), args.repeats)}
        if not args.no_compile:
            compiled = torch.compile(model, mode=args.mode)
            row["compile_ms"] = median_ms(lambda: result_of(compiled(*inputs)), args.repeats)
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
