"""Whole runs of `troupe sample` against a diffusers loop."""

import copy
import json
import pathlib
import random
import tempfile

import numpy as np
import torch
from diffusers import (AutoencoderKL, DDIMScheduler, DDPMScheduler,
                       DiTTransformer2DModel, EulerAncestralDiscreteScheduler)
from PIL import Image
from safetensors.torch import load_file, save_file

import models
import probes
from report import DRAWS, relative_l2

RUN_LIMIT = 1e-4
# Where the first estimates of x0 are clipped, rounding is divided by sqrt(ᾱ) ≈
# 0.006 and an untrained network carries it on: one draw in forty passes
# RUN_LIMIT. Ours may then be so many times further from diffusers' f32 run as
# that is from its own f64 run (seen: up to 5), but never above CHAOS_LIMIT (one
# draw in two hundred is: see DRAWS).
CHAOS = 10
CHAOS_LIMIT = 1e-3
STOCHASTIC = [("ddpm", DDPMScheduler, {}), ("ddim", DDIMScheduler, {"eta": 1.0}),
              ("euler-ancestral", EulerAncestralDiscreteScheduler, {})]
IMAGE_LIMIT = 1  # of 255: a value that lies between two may go either way


def diffusers_run(model, scheduler, latents, labels, guidance, steps, **options):
    """The loop of diffusers' DiTPipeline without its VAE; `options` go to every
    step of the scheduler."""
    null = model.config.num_embeds_ada_norm
    channels = model.config.in_channels
    scheduler.set_timesteps(steps)
    x = latents * scheduler.init_noise_sigma
    classes = torch.cat([labels, torch.full_like(labels, null)])
    for t in scheduler.timesteps:
        both = scheduler.scale_model_input(torch.cat([x, x]), t)
        out = model(both, t.expand(len(both)), classes).sample[:, :channels]
        cond, uncond = out.chunk(2)
        x = scheduler.step(uncond + guidance * (cond - uncond), t, x,
                           **options).prev_sample
    return x


def troupe_run(folder, labels, guidance, steps, latents=None, options=()):
    """The final latents and the images as [n, H, W, 3] levels."""
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        if latents is not None:
            save_file({"latents": latents}, scratch / "init.safetensors")
            options = [*options, "--init-latents", scratch / "init.safetensors"]
        summary = probes.sample([
            "--model", folder, "--samples", len(labels), "--steps", steps,
            "--guidance", guidance, "--dtype", "f32",
            "--class", ",".join(str(int(label)) for label in labels),
            "--save", f"latents={scratch / 'out.safetensors'}",
            "--out", scratch / "images", *options])
        images = [np.asarray(Image.open(image["path"]).convert("RGB"))
                  for image in summary["images"]]
        return load_file(scratch / "out.safetensors")["latents"], np.stack(images)


def levels(vae, latents):
    """Latents to [n, H, W, 3] levels, as diffusers' DiTPipeline ends: it does not
    read the autoencoder's shift_factor."""
    pixels = latents
    if vae is not None:
        pixels = vae.decode(latents / vae.config.scaling_factor).sample
    unit = (pixels / 2 + 0.5).clamp(0, 1).permute(0, 2, 3, 1).numpy()
    return (unit * 255).round().astype("uint8")


def add_images(report, kind, case, ours, theirs):
    furthest = np.abs(ours.astype(int) - theirs.astype(int)).max()
    report.add(f"{kind}, of 255", case, float(furthest), IMAGE_LIMIT)


def random_labels(model, rng, count):
    return torch.tensor([rng.randrange(model.config.num_embeds_ada_norm)
                         for _ in range(count)])


def latent_shape(model, count, side=None):
    side = side or model.config.sample_size
    return (count, model.config.in_channels, side, side)


def draw_size(model, vae, rng):
    """A side of the latents, and the flags that ask for it: half of the time
    another than the model was trained with."""
    side = model.config.sample_size
    if rng.random() < 0.5:
        side = model.config.patch_size * rng.randint(2, 9)
    scale = 1 if vae is None else 2 ** (len(vae.config.block_out_channels) - 1)
    return side, ["--size", f"{side * scale}x{side * scale}"]


def compare_run(report, folder, model, vae, rng, case, *, untrained):
    """50 steps of DDIM from the same latents, down to the pictures."""
    scheduler = DDIMScheduler.from_pretrained(folder / "scheduler")
    count, steps, guidance = 2, 50, rng.choice([1.5, 4.0])
    side, flags = draw_size(model, vae, rng)
    latents = torch.randn(latent_shape(model, count, side))
    labels = random_labels(model, rng, count)
    theirs = diffusers_run(model, scheduler, latents, labels, guidance, steps)
    limit = RUN_LIMIT
    if untrained and scheduler.config.clip_sample:
        exact = diffusers_run(copy.deepcopy(model).double(), scheduler,
                              latents.double(), labels, guidance, steps)
        limit = max(limit, min(CHAOS * relative_l2(theirs, exact), CHAOS_LIMIT))
    ours, images = troupe_run(folder, labels, guidance, steps, latents,
                              ["--sampler", "ddim", *flags])
    report.add("50-step DDIM run, f32", case, relative_l2(ours, theirs), limit)
    kind = "its images" if vae is None else "its images by the VAE"
    add_images(report, kind, case, images, levels(vae, theirs))


def compare_torch_noise(report, folder, model, vae, rng, case):
    """Nothing is handed over: one torch.Generator per image (seed + index)
    draws the latents, then the noise of every step."""
    name, cls, options = rng.choice(STOCHASTIC)
    scheduler = cls.from_pretrained(folder / "scheduler")
    count, steps, guidance = 3, 20, rng.choice([1.5, 4.0])
    seed = rng.getrandbits(31)
    generators = [torch.Generator().manual_seed(seed + i) for i in range(count)]
    side, flags = draw_size(model, vae, rng)
    shape = latent_shape(model, 1, side)
    latents = torch.cat([torch.randn(shape, generator=g) for g in generators])
    labels = random_labels(model, rng, count)
    theirs = diffusers_run(model, scheduler, latents, labels, guidance, steps,
                           generator=generators, **options)
    flags += ["--noise", "torch", "--seed", seed, "--sampler", name]
    for key, value in options.items():
        flags += [f"--{key}", value]
    ours, images = troupe_run(folder, labels, guidance, steps, options=flags)
    report.add("run with --noise torch, f32", f"{name} {case}",
               relative_l2(ours, theirs), RUN_LIMIT)
    add_images(report, "images of --noise torch", f"{name} {case}", images,
               levels(vae, theirs))


def compare_given_latents(report, folder, model, vae, rng, case):
    """Latents are handed over and drawn by nobody: the first numbers of each
    torch.Generator are the first step's noise."""
    name, cls, options = rng.choice(STOCHASTIC)
    scheduler = cls.from_pretrained(folder / "scheduler")
    count, steps, guidance = 2, 10, 1.5
    seed = rng.getrandbits(31)
    latents = torch.randn(latent_shape(model, count))
    labels = random_labels(model, rng, count)
    generators = [torch.Generator().manual_seed(seed + i) for i in range(count)]
    theirs = diffusers_run(model, scheduler, latents, labels, guidance, steps,
                           generator=generators, **options)
    flags = ["--noise", "torch", "--seed", seed, "--sampler", name]
    for key, value in options.items():
        flags += [f"--{key}", value]
    ours, images = troupe_run(folder, labels, guidance, steps, latents, flags)
    report.add("given latents and --noise torch, f32", f"{name} {case}",
               relative_l2(ours, theirs), RUN_LIMIT)
    add_images(report, "images of given latents", f"{name} {case}", images,
               levels(vae, theirs))


def write_pipeline(folder, model, scheduler, vae):
    model.save_pretrained(folder / "transformer")
    scheduler.save_pretrained(folder / "scheduler")
    if vae is not None:
        vae.save_pretrained(folder / "vae")
    (folder / "model_index.json").write_text(json.dumps({
        "_class_name": "DiTPipeline", "_diffusers_version": "0.35.2",
        "scheduler": ["diffusers", "DDIMScheduler"],
        "transformer": ["diffusers", "DiTTransformer2DModel"],
        "vae": ["diffusers", "AutoencoderKL"] if vae else [None, None]}))


def random_pipeline_configs(rng, with_vae):
    """Configurations of a DiT and, or None, of a decoder of its latents."""
    config = models.random_dit_config(rng)
    vae_config = models.random_vae_config(rng) if with_vae else None
    channels = vae_config["latent_channels"] if with_vae else 3
    config["in_channels"] = channels
    config["out_channels"] = channels * rng.choice([1, 2])
    return config, vae_config


def check_runs(report, rng, count):
    for i in range(count):
        config, vae_config = random_pipeline_configs(rng, with_vae=i % 2 == 0)
        scheduler = DDIMScheduler(clip_sample=rng.random() < 0.5)
        choices = rng.getrandbits(31)  # other weights, the same run
        with report.middle_of_draws() as draws:
            for _ in range(DRAWS):
                vae = models.random_vae(vae_config, rng) if vae_config else None
                torch.manual_seed(rng.getrandbits(31))
                model = DiTTransformer2DModel(**config).eval()
                check_pipeline(draws, model, scheduler, vae,
                               random.Random(choices))


def check_pipeline(report, model, scheduler, vae, rng):
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        case = str(dict(model.config))
        write_pipeline(folder, model, scheduler, vae)
        compare_run(report, folder, model, vae, rng, case, untrained=True)
        DDIMScheduler(clip_sample=False).save_pretrained(
            folder / "scheduler")  # see CHAOS
        compare_torch_noise(report, folder, model, vae, rng, case)
        compare_given_latents(report, folder, model, vae, rng, case)


def check_checkpoint(report, folder, rng):
    """A user's own folder: forward passes, decoder and runs of its weights."""
    folder = pathlib.Path(folder)
    inner = folder / "transformer"
    transformer = inner if inner.is_dir() else folder

    def load(cls, where):  # compare_… rounds the weights to bf16
        return cls.from_pretrained(where, torch_dtype=torch.float32).eval()

    generator = torch.Generator().manual_seed(rng.getrandbits(31))
    for _ in range(3):
        model = load(DiTTransformer2DModel, transformer)
        inputs = models.dit_inputs(model.config, rng, generator)
        models.compare_denoiser(report, models.DIT, model, inputs, folder,
                                str(folder))
    model = load(DiTTransformer2DModel, transformer)
    vae = None
    if (folder / "vae").is_dir():
        vae = load(AutoencoderKL, folder / "vae")
        latents = torch.randn(latent_shape(model, 1), generator=generator)
        models.compare_vae(report, vae, latents, folder / "vae", str(folder))
        vae = load(AutoencoderKL, folder / "vae")
    compare_run(report, folder, model, vae, rng, str(folder), untrained=False)
    compare_torch_noise(report, folder, model, vae, rng, str(folder))
    compare_given_latents(report, folder, model, vae, rng, str(folder))
