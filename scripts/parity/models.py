"""One forward pass of DiT, PixArt and AutoencoderKL against diffusers."""

import copy
import tempfile
from typing import Callable, NamedTuple

import torch
from diffusers import (AutoencoderKL, DiTTransformer2DModel,
                       PixArtTransformer2DModel)

import probes
from report import DRAWS, relative_l2

F32_LIMIT = 2e-5
# Ours in bf16 may be at most this much further from diffusers' f32 than
# diffusers' own bf16 is.
BF16_LIMIT = 1.5
# A group norm divides two nearly equal values by nearly zero: then diffusers'
# f32 was up to 1.6e-3 from its f64 (ours 4e-5). Real decoders have large groups.
GROUP_VALUES = 16
FEED_FORWARDS = ["gelu-approximate", "gelu", "geglu", "geglu-approximate",
                 "swiglu", "linear-silu"]
UP_BLOCKS = ["UpDecoderBlock2D", "UpDecoderBlock2D", "AttnUpDecoderBlock2D"]


def random_heads(rng):
    heads = rng.randint(1, 5)
    head_dim = rng.choice([4, 8, 12, 20, 32, 36, 72])
    while heads * head_dim % 4 or heads * head_dim < 16:
        heads += 1
    return heads, head_dim


def random_dit_config(rng):
    heads, head_dim = random_heads(rng)
    channels = rng.choice([1, 3, 4])
    patch = rng.choice([1, 2, 4])
    return dict(
        num_attention_heads=heads, attention_head_dim=head_dim,
        in_channels=channels,
        out_channels=rng.choice([None, channels, 2 * channels]),
        num_layers=rng.randint(1, 4), patch_size=patch,
        sample_size=patch * rng.randint(2, 9),
        attention_bias=rng.random() < 0.8,
        activation_fn=rng.choice(FEED_FORWARDS),
        norm_elementwise_affine=rng.random() < 0.3,
        num_embeds_ada_norm=rng.choice([1, 10, 1000]),
        norm_eps=rng.choice([1e-6, 1e-5, 1e-3]))


def spread_weights(model, generator):
    """Random biases and gains too: fresh modules leave many at 0 or 1."""
    for name, parameter in model.named_parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        if parameter.ndim == 1:
            parameter.data.add_(0.1 * noise)


def dit_inputs(config, rng, generator):
    batch, side = rng.randint(1, 3), config["sample_size"]
    if rng.random() < 0.5:  # another square than it was trained with
        side = config["patch_size"] * rng.randint(1, 9)
    return {
        "latents": torch.randn(batch, config["in_channels"], side, side,
                               generator=generator),
        "timesteps": torch.tensor([rng.randint(0, 999)
                                   for _ in range(batch)]),
        "labels": torch.tensor([rng.randint(0, config["num_embeds_ada_norm"])
                                for _ in range(batch)]),
    }


def dit_forward(model, inputs):
    return model(inputs["latents"].to(model.dtype), inputs["timesteps"],
                 inputs["labels"]).sample.float()


def compare(report, kind, case, ours, theirs):
    """Adds one row per dtype. `ours(dtype)` and `theirs(dtype)` compute the
    same; theirs rounds its model to bf16 and is called with f32 first."""
    exact = theirs(torch.float32)
    report.add(f"{kind}, f32", case, relative_l2(ours("f32"), exact), F32_LIMIT)
    if not probes.has_bf16():
        return
    ratio = relative_l2(ours("bf16"), exact) / max(
        relative_l2(theirs(torch.bfloat16), exact), 1e-12)
    report.add(f"{kind}, bf16 (ratio)", case, ratio, BF16_LIMIT)


def random_pixart_config(rng):
    heads, head_dim = random_heads(rng)
    channels = rng.choice([1, 3, 4])
    patch = rng.choice([1, 2, 4])
    return dict(
        num_attention_heads=heads, attention_head_dim=head_dim,
        cross_attention_dim=heads * head_dim, in_channels=channels,
        out_channels=rng.choice([None, channels, 2 * channels]),
        num_layers=rng.randint(1, 4), patch_size=patch,
        sample_size=patch * rng.randint(2, 9),
        attention_bias=rng.random() < 0.8,
        activation_fn=rng.choice(FEED_FORWARDS),
        interpolation_scale=rng.choice([None, 0.5, 1, 2, 3]),
        caption_channels=rng.choice([3, 17, 32, 100, 257]),
        norm_eps=rng.choice([1e-6, 1e-5, 1e-3]))


def pixart_inputs(config, rng, generator):
    batch = rng.randint(1, 3)
    sides = [config["sample_size"]] * 2
    if rng.random() < 0.7:  # another rectangle than it was trained with
        sides = [config["patch_size"] * rng.randint(1, 9) for _ in range(2)]
    tokens = rng.choice([1, 2, 7, 64, 120, 300])
    lengths = [rng.choice([1, tokens, rng.randint(1, tokens)])
               for _ in range(batch)]
    return {
        "latents": torch.randn(batch, config["in_channels"], *sides,
                               generator=generator),
        "timesteps": torch.tensor([float(rng.randint(0, 999))
                                   for _ in range(batch)]),
        "prompt_embeds": torch.randn(batch, tokens, config["caption_channels"],
                                     generator=generator),
        "lengths": torch.tensor(lengths),
    }


def pixart_forward(model, inputs):
    prompts = inputs["prompt_embeds"]
    places = torch.arange(prompts.shape[1])[None]
    return model(inputs["latents"].to(model.dtype), prompts.to(model.dtype),
                 inputs["timesteps"],
                 encoder_attention_mask=(
                     places < inputs["lengths"][:, None]).to(model.dtype),
                 ).sample.float()


class Kind(NamedTuple):
    """A denoising network, as it is drawn and called."""
    name: str
    probe: str
    network: type
    config: Callable
    inputs: Callable
    forward: Callable


DIT = Kind("DiT", "dit", DiTTransformer2DModel, random_dit_config, dit_inputs,
           dit_forward)
PIXART = Kind("PixArt", "pixart", PixArtTransformer2DModel,
              random_pixart_config, pixart_inputs, pixart_forward)


def compare_denoiser(report, kind, model, inputs, folder, case):
    sent = {**inputs, "timesteps": inputs["timesteps"].float()}
    with torch.no_grad():
        compare(report, f"{kind.name} forward", case,
                lambda dtype: probes.forward(kind.probe, folder, sent, dtype),
                lambda dtype: kind.forward(model.to(dtype), inputs))


def check_denoiser(report, kind, rng, count):
    for _ in range(count):
        config = kind.config(rng)
        generator = torch.Generator().manual_seed(rng.getrandbits(31))
        torch.manual_seed(rng.getrandbits(31))
        model = kind.network(**config).eval()
        spread_weights(model, generator)
        inputs = kind.inputs(config, rng, generator)
        with tempfile.TemporaryDirectory() as folder:
            model.save_pretrained(folder)
            compare_denoiser(report, kind, model, inputs, folder,
                             f"{config}, latents {list(inputs['latents'].shape)}")


def check_dit(report, rng, count):
    check_denoiser(report, DIT, rng, count)


def check_pixart(report, rng, count):
    check_denoiser(report, PIXART, rng, count)


def random_vae_config(rng):
    groups = rng.choice([2, 4, 8])
    levels = rng.randint(1, 4)
    widths = sorted(groups * rng.randint(1, 4) for _ in range(levels))
    return dict(
        in_channels=3, out_channels=3, block_out_channels=widths,
        down_block_types=["DownEncoderBlock2D"] * levels,
        up_block_types=[rng.choice(UP_BLOCKS) for _ in range(levels)],
        act_fn=rng.choice(["silu", "swish", "relu", "gelu", "mish"]),
        layers_per_block=rng.randint(1, 2), norm_num_groups=groups,
        latent_channels=rng.choice([3, 4, 16]),
        sample_size=rng.choice([8, 12]) * 2 ** (levels - 1),
        use_post_quant_conv=rng.random() < 0.7,
        mid_block_add_attention=rng.random() < 0.7,
        scaling_factor=rng.choice([0.18215, 1.5305]),
        shift_factor=rng.choice([None, 0.0609]))


def random_vae(config, rng):
    torch.manual_seed(rng.getrandbits(31))
    model = AutoencoderKL(**config).eval()
    spread_weights(model, torch.Generator().manual_seed(1))
    return model


def vae_decode(model, latents):
    """What diffusers' pipelines do before and in decode()."""
    scaled = (latents / model.config.scaling_factor
              + (model.config.shift_factor or 0.0))
    return model.decode(scaled.to(model.dtype)).sample.float()


def compare_vae(report, model, latents, folder, case):
    name, probe = (("VAE decode in tiles", "vae_tiled") if model.use_tiling
                   else ("VAE decode", "vae"))
    compare(report, name, case,
            lambda dtype: probes.forward(probe, folder, {"latents": latents},
                                         dtype),
            lambda dtype: vae_decode(model.to(dtype), latents))


def random_vae_latents(config, rng):
    """Of a size that leaves GROUP_VALUES in every group of every norm."""
    height, width = rng.choice([
        (h, w) for h in range(1, 10) for w in range(1, 10)
        if fills_groups(config, h * w)])
    return torch.randn(rng.randint(1, 2), config["latent_channels"], height, width)


def fills_groups(config, pixels):
    channels = config["block_out_channels"][0] // config["norm_num_groups"]
    return pixels * channels >= GROUP_VALUES


def random_tiled_latents(config, rng):
    """Larger than a tile, and so that the last tile fills its groups, too."""
    tile = config["sample_size"] // 2 ** (len(config["block_out_channels"]) - 1)
    step = tile * 3 // 4

    def last(side):
        return side - (side - 1) // step * step
    height, width = rng.choice([
        (h, w) for h in range(1, 3 * tile) for w in range(1, 3 * tile)
        if max(h, w) > tile and fills_groups(config, last(h) * last(w))])
    return torch.randn(1, config["latent_channels"], height, width)


def check_vae(report, rng, count):
    for _ in range(count):
        config = random_vae_config(rng)
        with report.middle_of_draws() as draws:
            for _ in range(DRAWS):
                model = random_vae(config, rng)
                latents = random_vae_latents(config, rng)
                tiled = random_tiled_latents(config, rng)
                tiling = copy.deepcopy(model)
                tiling.enable_tiling()
                with tempfile.TemporaryDirectory() as folder:
                    model.save_pretrained(folder)
                    compare_vae(draws, model, latents, folder, str(config))
                    compare_vae(draws, tiling, tiled, folder,
                                f"{config}, latents {list(tiled.shape)}")
