#!/usr/bin/env python3
"""Makes the small fixtures in tests/golden from diffusers' own classes.

usage: scripts/make_golden.py [--out DIR] [--random N] [--seed S]

Each fixture is a component folder (config.json, weights) and golden.safetensors
with inputs and diffusers' outputs in float32. --random N draws N fresh
configurations into DIR instead; point the tests at them with
TROUPE_GOLDEN=DIR. Needs torch, diffusers and safetensors.
"""
import argparse
import copy
import json
import os
import random
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                "parity"))
import torch
import torch_compat  # noqa: F401  (before diffusers)
from diffusers import (AutoencoderKL, DiTTransformer2DModel,
                       PixArtTransformer2DModel, UNet2DConditionModel)
from safetensors.torch import save_file

WEIGHTS = "diffusion_pytorch_model.safetensors"
FEED_FORWARDS = ["gelu", "gelu-approximate", "geglu", "geglu-approximate",
                 "swiglu", "linear-silu"]
UP_BLOCKS = ["UpDecoderBlock2D", "UpDecoderBlock2D", "AttnUpDecoderBlock2D"]
VAE_ACTIVATIONS = ["silu", "swish", "relu", "gelu", "mish"]


def save(folder, model, golden, keep=lambda name: True):
    os.makedirs(folder, exist_ok=True)
    model.save_config(folder)
    state = {k: v.detach().contiguous() for k, v in model.state_dict().items()
             if keep(k)}
    save_file(state, os.path.join(folder, WEIGHTS))
    save_file({k: v.contiguous() for k, v in golden.items()},
              os.path.join(folder, "golden.safetensors"))
    print("wrote", folder)


def shake(model):
    """Default initialisation leaves biases and norms too plain to test."""
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.05 * torch.randn_like(p))


@torch.no_grad()
def make_dit(folder, seed, shared_embedder=False, **config):
    torch.manual_seed(seed)
    model = DiTTransformer2DModel(**config).eval()
    shake(model)
    if shared_embedder:
        first = model.transformer_blocks[0].norm1.emb.state_dict()
        for block in model.transformer_blocks[1:]:
            block.norm1.emb.load_state_dict(first)
    c = model.config
    rows = 3
    latents = torch.randn(rows, c.in_channels, c.sample_size, c.sample_size)
    timesteps = torch.tensor([999, 501, 0])
    labels = torch.tensor([0, c.num_embeds_ada_norm, 1])
    output = model(latents, timesteps, labels).sample
    bf16 = copy.deepcopy(model).to(torch.bfloat16)(
        latents.bfloat16(), timesteps, labels).sample.float()
    save(folder, model, {"latents": latents, "timesteps": timesteps,
                         "labels": labels, "output": output,
                         "output_bf16": bf16})


def prompt_mask(lengths, tokens):
    """[B, L]: 1 for a token, 0 for padding."""
    return (torch.arange(tokens)[None] < torch.tensor(lengths)[:, None]).float()


@torch.no_grad()
def make_pixart(folder, seed, lengths, tokens, side=None, **config):
    torch.manual_seed(seed)
    model = PixArtTransformer2DModel(**config).eval()
    shake(model)
    c = model.config
    rows = len(lengths)
    height, width = side or (c.sample_size, c.sample_size)
    latents = torch.randn(rows, c.in_channels, height, width)
    timesteps = torch.tensor([999.0, 501.5, 0.0][:rows])
    prompts = torch.randn(rows, tokens, c.caption_channels)
    mask = prompt_mask(lengths, tokens)
    output = model(latents, prompts, timesteps,
                   encoder_attention_mask=mask).sample
    bf16 = copy.deepcopy(model).to(torch.bfloat16)(
        latents.bfloat16(), prompts.bfloat16(), timesteps,
        encoder_attention_mask=mask).sample.float()
    save(folder, model, {"latents": latents, "timesteps": timesteps,
                         "prompt_embeds": prompts,
                         "lengths": torch.tensor(lengths), "output": output,
                         "output_bf16": bf16})


def unet_levels(attention):
    """Types of the blocks of each level; True: with attention."""
    return {"down_block_types": ["CrossAttnDownBlock2D" if a else "DownBlock2D"
                                 for a in attention],
            "up_block_types": ["CrossAttnUpBlock2D" if a else "UpBlock2D"
                               for a in reversed(attention)]}


@torch.no_grad()
def make_unet(folder, seed, tokens, rows=2, side=None, **config):
    torch.manual_seed(seed)
    model = UNet2DConditionModel(**config).eval()
    shake(model)
    c = model.config
    latents = torch.randn(rows, c.in_channels, *(side or (c.sample_size,) * 2))
    timesteps = torch.tensor([999.0, 501.5, 0.0][:rows])
    golden = {"latents": latents, "timesteps": timesteps,
              "prompt_embeds": torch.randn(rows, tokens, c.cross_attention_dim),
              "lengths": torch.tensor([tokens] * rows)}
    added = {}
    if c.addition_embed_type == "text_time":
        pooled = (c.projection_class_embeddings_input_dim
                  - 6 * c.addition_time_embed_dim)
        golden["pooled"] = added["text_embeds"] = torch.randn(rows, pooled)
        golden["size_ids"] = added["time_ids"] = torch.tensor(
            [[1024., 768., 0., 16., 1024., 1024.]] * rows)

    def run(network, dtype):
        return network(
            latents.to(dtype), timesteps, golden["prompt_embeds"].to(dtype),
            added_cond_kwargs={k: v.to(dtype) for k, v in added.items()}
        ).sample.float()
    golden["output"] = run(model, torch.float32)
    golden["output_bf16"] = run(copy.deepcopy(model).to(torch.bfloat16),
                                torch.bfloat16)
    save(folder, model, golden)


@torch.no_grad()
def make_vae(folder, seed, side=(4, 4), legacy=False, tiled_side=None,
             **config):
    torch.manual_seed(seed)
    blocks = len(config["block_out_channels"])
    config.setdefault("up_block_types", ["UpDecoderBlock2D"] * blocks)
    model = AutoencoderKL(down_block_types=["DownEncoderBlock2D"] * blocks,
                          **config).eval()
    shake(model)
    c = model.config

    def decode(latents):
        if c.latents_mean is not None:
            mean, std = (torch.tensor(values).view(-1, 1, 1)
                         for values in (c.latents_mean, c.latents_std))
            z = latents * std / c.scaling_factor + mean
        else:
            z = latents / c.scaling_factor + (c.shift_factor or 0.0)
        return model.decode(z[None]).sample[0]
    latents = torch.randn(c.latent_channels, *side)
    golden = {"latents": latents, "picture": decode(latents)}
    if tiled_side:
        model.enable_tiling()
        golden["tiled_latents"] = torch.randn(c.latent_channels, *tiled_side)
        golden["tiled_picture"] = decode(golden["tiled_latents"])
    save(folder, model, golden,
         lambda name: name.startswith(("decoder.", "post_quant")))
    if legacy:
        from safetensors.torch import load_file
        path = os.path.join(folder, WEIGHTS)
        renamed = {}
        for name, tensor in load_file(path).items():
            for now, old in ((".to_q.", ".query."), (".to_k.", ".key."),
                             (".to_v.", ".value."),
                             (".to_out.0.", ".proj_attn.")):
                name = name.replace(now, old)
            renamed[name] = tensor
        save_file(renamed, path)


def fixed(out):
    def path(name):
        return os.path.join(out, name)
    make_dit(path("dit_default"), 1, num_attention_heads=2,
             attention_head_dim=8, num_layers=2, sample_size=8, patch_size=2,
             num_embeds_ada_norm=5, out_channels=8)
    make_dit(path("dit_unusual"), 2, num_attention_heads=3,
             attention_head_dim=4, num_layers=3, sample_size=5, patch_size=1,
             num_embeds_ada_norm=3, in_channels=3, activation_fn="gelu",
             attention_bias=False, norm_eps=1e-2, shared_embedder=True)
    make_vae(path("vae_default"), 3, block_out_channels=[8, 8],
             layers_per_block=1, norm_num_groups=4, latent_channels=4)
    make_vae(path("vae_unusual"), 4, side=(3, 5), block_out_channels=[4, 8],
             layers_per_block=2, norm_num_groups=2, latent_channels=3,
             use_post_quant_conv=False, use_quant_conv=False,
             shift_factor=0.0609, scaling_factor=1.5305,
             mid_block_add_attention=False)
    make_vae(path("vae_legacy"), 5, side=(5, 3), block_out_channels=[8],
             layers_per_block=1, norm_num_groups=4, latent_channels=4,
             latents_mean=[0.1, -0.2, 0.3, 0.0], latents_std=[1., 2., .5, 1.5],
             legacy=True)
    make_dit(path("dit_geglu"), 6, num_attention_heads=1,
             attention_head_dim=8, num_layers=2, sample_size=4, patch_size=1,
             num_embeds_ada_norm=2, activation_fn="geglu",
             norm_elementwise_affine=True, norm_eps=1e-3)
    make_dit(path("dit_swiglu"), 7, num_attention_heads=2,
             attention_head_dim=4, num_layers=1, sample_size=4, patch_size=2,
             num_embeds_ada_norm=2, activation_fn="swiglu")
    make_dit(path("dit_sigmoid_gelu"), 8, num_attention_heads=1,
             attention_head_dim=8, num_layers=1, sample_size=4, patch_size=2,
             num_embeds_ada_norm=2, activation_fn="geglu-approximate",
             norm_elementwise_affine=True)
    make_dit(path("dit_silu"), 9, num_attention_heads=2,
             attention_head_dim=4, num_layers=1, sample_size=4, patch_size=2,
             num_embeds_ada_norm=2, activation_fn="linear-silu")
    make_vae(path("vae_attentive"), 10, side=(3, 4), block_out_channels=[4, 8],
             layers_per_block=1, norm_num_groups=2, latent_channels=2,
             up_block_types=["UpDecoderBlock2D", "AttnUpDecoderBlock2D"],
             act_fn="mish")
    make_vae(path("vae_relu"), 11, side=(4, 4), block_out_channels=[8],
             layers_per_block=1, norm_num_groups=4, latent_channels=2,
             up_block_types=["AttnUpDecoderBlock2D"], act_fn="relu",
             mid_block_add_attention=False, legacy=True)
    make_vae(path("vae_gelu"), 12, side=(4, 4), block_out_channels=[4],
             layers_per_block=1, norm_num_groups=2, latent_channels=2,
             act_fn="GELU")
    make_pixart(path("pixart_default"), 13, [7, 1, 4], 7,
                num_attention_heads=2, attention_head_dim=8, num_layers=2,
                sample_size=8, patch_size=2, cross_attention_dim=16,
                caption_channels=12)
    make_pixart(path("pixart_unusual"), 14, [3, 5], 6, side=(4, 10),
                num_attention_heads=3, attention_head_dim=4, num_layers=3,
                sample_size=6, patch_size=2, cross_attention_dim=12,
                in_channels=3, out_channels=None, caption_channels=5,
                activation_fn="geglu", attention_bias=False, norm_eps=1e-3,
                interpolation_scale=2)
    make_unet(path("unet_default"), 15, 5, side=(4, 8), sample_size=8,
              **unet_levels([True, False]), block_out_channels=[8, 16],
              layers_per_block=1, norm_num_groups=4, attention_head_dim=2,
              cross_attention_dim=6)
    make_unet(path("unet_sizes"), 16, 3, sample_size=4,
              **unet_levels([False, True]), block_out_channels=[8, 16],
              layers_per_block=1, norm_num_groups=4, attention_head_dim=[1, 2],
              transformer_layers_per_block=[1, 2], cross_attention_dim=10,
              use_linear_projection=True, addition_embed_type="text_time",
              addition_time_embed_dim=4,
              projection_class_embeddings_input_dim=31)
    make_unet(path("unet_unusual"), 17, 4, rows=3, sample_size=8,
              **unet_levels([True, True, False]), block_out_channels=[4, 4, 8],
              layers_per_block=2, norm_num_groups=2, norm_eps=1e-4,
              attention_head_dim=[1, 2, 4], cross_attention_dim=5,
              in_channels=3, out_channels=2, act_fn="gelu",
              time_embedding_dim=12)
    make_unet(path("unet_odd"), 19, 3, side=(7, 10), sample_size=9,
              **unet_levels([False, True, True]), block_out_channels=[4, 4, 8],
              layers_per_block=1, norm_num_groups=2, attention_head_dim=1,
              cross_attention_dim=5, time_embedding_dim=8)
    make_vae(path("vae_tiled"), 18, side=(8, 5), sample_size=16,
             tiled_side=(15, 22), block_out_channels=[4, 8],
             layers_per_block=1, norm_num_groups=2, latent_channels=3)


def drawn_unet(draw, path):
    """Widths, depths and kinds of any UNet that Troupe runs."""
    count = draw.randint(1, 3)
    groups = draw.choice([2, 4, 8])
    heads = [draw.choice([1, 2, 4]) for _ in range(count)]
    config = {}
    if draw.random() < 0.5:
        size = draw.choice([4, 8, 12])
        config = {"addition_embed_type": "text_time",
                  "addition_time_embed_dim": size,
                  "projection_class_embeddings_input_dim":
                      6 * size + draw.randint(1, 40)}
    most = 4 * 2 ** (count - 1)
    make_unet(path, draw.randrange(1 << 30), draw.randint(1, 77),
              rows=draw.randint(1, 3), sample_size=draw.randint(1, most),
              side=(draw.randint(1, most), draw.randint(1, most)),
              **unet_levels([draw.random() < 0.7 for _ in range(count)]),
              block_out_channels=[8 * h * groups * draw.randint(1, 2)
                                  for h in heads],
              layers_per_block=draw.randint(1, 3), norm_num_groups=groups,
              attention_head_dim=heads,
              transformer_layers_per_block=[draw.randint(1, 3)
                                            for _ in range(count)],
              cross_attention_dim=draw.randint(1, 64),
              use_linear_projection=draw.random() < 0.5,
              act_fn=draw.choice(["silu", "gelu", "mish"]),
              in_channels=draw.randint(1, 6), out_channels=draw.randint(1, 6),
              **config)


def drawn(out, count, seed):
    draw = random.Random(seed)
    for i in range(count):
        patch = draw.choice([1, 2, 4])
        heads, dim = draw.choice([(1, 4), (3, 12), (5, 8), (2, 36), (7, 4),
                                  (4, 72), (6, 64)])
        make_dit(os.path.join(out, f"dit_{i}"), draw.randrange(1 << 30),
                 shared_embedder=draw.random() < 0.5,
                 num_attention_heads=heads, attention_head_dim=dim,
                 num_layers=draw.randint(1, 6), patch_size=patch,
                 sample_size=patch * draw.randint(1, 12),
                 in_channels=draw.randint(1, 5),
                 out_channels=draw.choice([None, 3, 8]),
                 num_embeds_ada_norm=draw.randint(2, 40),
                 activation_fn=draw.choice(FEED_FORWARDS),
                 norm_elementwise_affine=draw.random() < 0.3,
                 attention_bias=draw.random() < 0.7,
                 norm_eps=draw.choice([1e-6, 1e-5, 1e-3]))
        groups = draw.choice([1, 2, 4])
        widths = [4 * groups * draw.randint(1, 6)
                  for _ in range(draw.randint(1, 4))]
        make_vae(os.path.join(out, f"vae_{i}"), draw.randrange(1 << 30),
                 side=(draw.randint(1, 9), draw.randint(1, 9)),
                 block_out_channels=widths,
                 up_block_types=[draw.choice(UP_BLOCKS) for _ in widths],
                 act_fn=draw.choice(VAE_ACTIVATIONS),
                 layers_per_block=draw.randint(1, 3), norm_num_groups=groups,
                 latent_channels=draw.randint(1, 16),
                 use_post_quant_conv=draw.random() < 0.5,
                 mid_block_add_attention=draw.random() < 0.7)
        drawn_unet(draw, os.path.join(out, f"unet_{i}"))


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    parser.add_argument("--out", default=os.path.join(root, "tests", "golden"))
    parser.add_argument("--random", type=int, default=0, metavar="N")
    parser.add_argument("--seed", type=int, default=None)
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.random:
        seed = random.randrange(1 << 30) if args.seed is None else args.seed
        print(json.dumps({"seed": seed, "torch": torch.__version__}))
        drawn(args.out, args.random, seed)
    else:
        fixed(args.out)


if __name__ == "__main__":
    main()
