"""Whole runs of `troupe sample` against a diffusers loop from the same noise."""

import copy
import json
import pathlib
import tempfile

import torch
from diffusers import DDIMScheduler, DiTTransformer2DModel
from safetensors.torch import load_file, save_file

import models
import probes
from report import relative_l2

RUN_LIMIT = 1e-4
# Where the first estimates of x0 are clipped, rounding is divided by sqrt(ᾱ) ≈
# 0.006 and an untrained network carries it on: one draw in forty passes
# RUN_LIMIT. Ours may then be so many times further from diffusers' f32 run as
# that is from its own f64 run (seen: up to 5).
CHAOS = 10


def ddim_run(model, scheduler, latents, labels, guidance, steps):
    """The loop of diffusers' DiTPipeline without its VAE."""
    null = model.config.num_embeds_ada_norm
    channels = model.config.in_channels
    scheduler.set_timesteps(steps)
    x = latents.clone()
    for t in scheduler.timesteps:
        both = torch.cat([x, x])
        classes = torch.cat([labels, torch.full_like(labels, null)])
        out = model(both, t.expand(len(both)), classes).sample[:, :channels]
        cond, uncond = out.chunk(2)
        x = scheduler.step(uncond + guidance * (cond - uncond), t,
                           x).prev_sample
    return x


def compare_run(report, folder, model, scheduler, rng, case, *, untrained):
    count, steps, guidance = 2, 50, rng.choice([1.5, 4.0])
    config = model.config
    shape = (count, config.in_channels, config.sample_size, config.sample_size)
    latents = torch.randn(shape)
    labels = torch.tensor([rng.randrange(config.num_embeds_ada_norm)
                           for _ in range(count)])
    theirs = ddim_run(model, scheduler, latents, labels, guidance, steps)
    limit = RUN_LIMIT
    if untrained:
        exact = ddim_run(copy.deepcopy(model).double(), scheduler,
                         latents.double(), labels, guidance, steps)
        limit = max(limit, CHAOS * relative_l2(theirs, exact))
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        save_file({"latents": latents}, scratch / "init.safetensors")
        probes.sample([
            "--model", folder, "--samples", count, "--steps", steps,
            "--guidance", guidance, "--dtype", "f32",
            "--class", ",".join(str(int(label)) for label in labels),
            "--init-latents", scratch / "init.safetensors",
            "--save", f"latents={scratch / 'out.safetensors'}",
            "--out", scratch / "images"])
        ours = load_file(scratch / "out.safetensors")["latents"]
    report.add("50-step DDIM run, f32", case, relative_l2(ours, theirs),
               limit)


def write_pipeline(folder, model, scheduler):
    model.save_pretrained(folder / "transformer")
    scheduler.save_pretrained(folder / "scheduler")
    (folder / "model_index.json").write_text(json.dumps({
        "_class_name": "DiTPipeline", "_diffusers_version": "0.35.2",
        "scheduler": ["diffusers", "DDIMScheduler"],
        "transformer": ["diffusers", "DiTTransformer2DModel"],
        "vae": [None, None]}))


def check_runs(report, rng, count):
    for _ in range(count):
        config = models.random_dit_config(rng)
        config["in_channels"], config["out_channels"] = 3, rng.choice([3, 6])
        torch.manual_seed(rng.getrandbits(31))
        model = DiTTransformer2DModel(**config).eval()
        scheduler = DDIMScheduler(clip_sample=rng.random() < 0.5)
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            write_pipeline(folder, model, scheduler)
            compare_run(report, folder, model, scheduler, rng, str(config),
                        untrained=True)


def check_checkpoint(report, folder, rng):
    """A user's own folder: forward passes and one run with its weights."""
    folder = pathlib.Path(folder)
    inner = folder / "transformer"
    transformer = inner if inner.is_dir() else folder

    def load():
        return DiTTransformer2DModel.from_pretrained(
            transformer, torch_dtype=torch.float32).eval()

    generator = torch.Generator().manual_seed(rng.getrandbits(31))
    for _ in range(3):
        model = load()  # compare_dit rounds its weights to bf16
        inputs = models.dit_inputs(model.config, rng, generator)
        models.compare_dit(report, model, inputs, folder, str(folder))
    model = load()
    compare_run(report, folder, model,
                DDIMScheduler.from_pretrained(folder / "scheduler"), rng,
                str(folder), untrained=False)
