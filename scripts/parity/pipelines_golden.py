"""Writes tests/golden/pipeline_*: the smallest pipelines, and what diffusers
draws with them."""

import copy
import json
import shutil
from typing import NamedTuple

import torch
from diffusers import (DDIMScheduler, DPMSolverMultistepScheduler,
                       HeunDiscreteScheduler, PNDMScheduler,
                       StableDiffusionXLImg2ImgPipeline,
                       UniPCMultistepScheduler)
from safetensors.torch import save_file

import tiny_pipelines
from report import relative_l2

SEED = 5
CASES = [
    {"prompt": "  A small CAT, \u00f6l on canvas", "negative": None,
     "latents": [8, 8]},
    {"prompt": "a dog", "negative": "Blurry, LOW quality", "latents": [8, 12]},
]
# Pictures whose sides are no bin, with the latents of their bins.
BINNED_CASES = [
    {"prompt": "a dog", "negative": None, "latents": [26, 38],
     "picture": [40, 61]},
    {"prompt": "a cat", "negative": "rain", "latents": [64, 16],
     "picture": [140, 9]},
]
# Untrained weights may magnify rounding without bound: then a limit says
# nothing. So far may diffusers' own f32 be from its f64.
ROUNDING_LIMIT = 1e-5




class OptionCase(NamedTuple):
    """Options of troupe beside the same arguments of diffusers' call."""
    options: list
    call: dict
    prompts: tuple = ("a dog",)
    scheduler: type | None = None  # in place of the pipeline's
    start: float | None = None  # goes on from there, by the img2img pipeline


RESCALED = [
    OptionCase(["--guidance-rescale", "0.7"], {"guidance_rescale": 0.7}),
    OptionCase(["--guidance-rescale", "1", "--guidance", "2.5"],
               {"guidance_rescale": 1.0, "guidance_scale": 2.5}),
]
# Heights come before widths in diffusers.
TOLD = [
    OptionCase(["--original-size", "40x24", "--crop", "3,5",
                "--target-size", "64x32"],
               {"original_size": (24, 40), "crops_coords_top_left": (3, 5),
                "target_size": (32, 64)}),
    OptionCase(["--crop", "0,7", "--negative-original-size", "8x9",
                "--negative-target-size", "20x30"],
               {"crops_coords_top_left": (0, 7),
                "negative_original_size": (9, 8),
                "negative_target_size": (30, 20)}),
]
NEGATIVES = [
    OptionCase(["--negative-prompt", "rain", "--negative-prompt", ""],
               {"negative_prompt": ["rain", ""]}, ("a dog", "a small cat")),
]
# More and fewer tokens than the prompt has.
LENGTHS = [
    OptionCase(["--max-sequence-length", str(length)],
               {"max_sequence_length": length},
               ("a small cat on the hill by the sea, oil on canvas",))
    for length in (4, 350)
]
def up_to(share, sampler=None, scheduler=None):
    return OptionCase(
        ["--denoising-end", str(share),
         *(["--sampler", sampler] if sampler else [])],
        {"denoising_end": share}, scheduler=scheduler)


PARTS = [
    up_to(0.6), up_to(0.55, "dpm++2m", DPMSolverMultistepScheduler),
    up_to(0.7, "unipc", UniPCMultistepScheduler),
    up_to(0.6, "heun", HeunDiscreteScheduler),
    up_to(0.8, "ddim", DDIMScheduler), up_to(0.5, "pndm", PNDMScheduler),
    OptionCase(["--denoising-start", "0.4"], {}, start=0.4),
    OptionCase(["--denoising-start", "0.3", "--denoising-end", "0.8",
                "--sampler", "dpm++2m"], {"denoising_end": 0.8},
               scheduler=DPMSolverMultistepScheduler, start=0.3),
    OptionCase(["--denoising-start", "0.4", "--sampler", "heun"], {},
               scheduler=HeunDiscreteScheduler, start=0.4),
]
START = "start.safetensors"  # the latents that these go on with
OPTIONS = {
    "pipeline_pixart": NEGATIVES + LENGTHS,
    "pipeline_sd15": RESCALED + NEGATIVES,
    "pipeline_sd21": RESCALED,
    "pipeline_sdxl": RESCALED + TOLD + NEGATIVES + PARTS,
    "pipeline_sdxl_refiner": [
        OptionCase(["--denoising-start", "0.4"], {}, start=0.4),
        OptionCase(["--denoising-start", "0.3", "--negative-prompt", "rain",
                    "--aesthetic-score", "8", "--negative-aesthetic-score",
                    "1.5", "--original-size", "40x24", "--crop", "3,5"],
                   {"negative_prompt": "rain", "aesthetic_score": 8.0,
                    "negative_aesthetic_score": 1.5,
                    "original_size": (24, 40),
                    "crops_coords_top_left": (3, 5)}, start=0.3),
    ],
}
OPTION_STEPS = 6


def cases_of(row):
    return BINNED_CASES if row.has_bins else CASES


def sides_of(case, sizes):
    """Height and width of the picture."""
    return case.get("picture",
                    [side * sizes.scale for side in case["latents"]])


def draw(row, pipeline, case, sizes, seed, output, dtype=torch.float32):
    """One picture, or its latents, from the noise of a seed in f32."""
    height, width = sides_of(case, sizes)
    noise = torch.randn((1, 4, *case["latents"]),
                        generator=torch.Generator().manual_seed(seed))
    arguments = {} if case["negative"] is None else {
        "negative_prompt": case["negative"]}
    return pipeline(prompt=case["prompt"], latents=noise.to(dtype),
                    height=height, width=width, output_type=output, **arguments,
                    **row.call).images[0]


def rounds_little(row, pipeline, sizes):
    """Whether rounding stays small in the runs of a pipeline."""
    exact = copy.deepcopy(pipeline).to(torch.float64)
    for i, case in enumerate(cases_of(row)):
        seed = SEED + i
        error = relative_l2(
            draw(row, pipeline, case, sizes, seed, "latent"),
            draw(row, exact, case, sizes, seed, "latent", torch.float64))
        print(f"  f32 from f64: {error:.2g}")
        if not error <= ROUNDING_LIMIT:
            return False
    return True


def write_pipeline(folder, row, sizes):
    if row.goes_on:  # options.* says what it draws
        shutil.rmtree(folder, ignore_errors=True)
        torch.manual_seed(SEED)
        return row.make(folder, sizes)
    for weights in range(20):
        shutil.rmtree(folder, ignore_errors=True)
        torch.manual_seed(weights)
        row.make(folder, sizes)
        pipeline = tiny_pipelines.load(row, folder)
        if rounds_little(row, pipeline, sizes):
            break
    else:
        raise SystemExit(f"parity: {folder}: no draw of the weights keeps rounding small")
    golden, cases = {}, []
    for i, case in enumerate(cases_of(row)):
        seed = SEED + i
        golden[f"{i}.latents"] = draw(row, pipeline, case, sizes, seed,
                                      "latent").contiguous()
        picture = draw(row, pipeline, case, sizes, seed, "np")
        golden[f"{i}.picture"] = torch.from_numpy(picture).contiguous()
        height, width = sides_of(case, sizes)
        cases.append({"prompt": case["prompt"], "negative": case["negative"],
                      "size": f"{width}x{height}", "seed": seed})
    save_file(golden, folder / "golden.safetensors")
    (folder / "golden.json").write_text(
        json.dumps(cases, ensure_ascii=False, indent=2) + "\n")
    print("wrote", folder)


def noise_of(case):
    """Of one picture of each prompt: seed SEED + i."""
    return torch.cat([
        torch.randn((1, 4, 8, 8),
                    generator=torch.Generator().manual_seed(SEED + i))
        for i in range(len(case.prompts))])


def draw_with_options(row, pipeline, case, sizes, dtype=torch.float32):
    """Latents of one picture of each prompt."""
    arguments = {"prompt": list(case.prompts), "output_type": "latent",
                 "num_inference_steps": OPTION_STEPS, **row.call, **case.call}
    made_for = pipeline.scheduler
    if case.scheduler:
        pipeline.scheduler = case.scheduler.from_config(made_for.config)
    noise = noise_of(case).to(dtype)
    side = 8 * sizes.scale
    if case.start is None:
        latents = pipeline(latents=noise, height=side, width=side,
                           **arguments).images
    else:
        goes_on = pipeline if row.goes_on else StableDiffusionXLImg2ImgPipeline(
            add_watermarker=False, **pipeline.components)
        goes_on.set_progress_bar_config(disable=True)
        latents = goes_on(image=noise, denoising_start=case.start,
                          **arguments).images
    pipeline.scheduler = made_for
    return latents


def write_options(out, rows):
    """Writes options.* beside the pipelines that are there."""
    for row in rows.values():
        folder = out / row.golden
        pipeline = tiny_pipelines.load(row, folder)
        exact = copy.deepcopy(pipeline).to(torch.float64)
        side = 8 * row.smallest.scale
        golden, cases = {}, []
        for i, case in enumerate(OPTIONS.get(row.golden, [])):
            latents = draw_with_options(row, pipeline, case, row.smallest)
            error = relative_l2(latents, draw_with_options(
                row, exact, case, row.smallest, torch.float64))
            print(f"{row.golden} {case.options}: f32 from f64: {error:.2g}")
            golden[str(i)] = latents.contiguous()
            options = ["--size", f"{side}x{side}", "--steps",
                       str(OPTION_STEPS), "--seed", str(SEED), *case.options]
            if case.start is not None:
                save_file({"latents": noise_of(case)}, folder / START)
                options += ["--init-latents", START]
            cases.append({"prompts": case.prompts, "options": options})
        if cases:
            save_file(golden, folder / "options.safetensors")
            (folder / "options.json").write_text(json.dumps(cases, indent=2)
                                                 + "\n")


def write(out, rows):
    for row in rows.values():
        write_pipeline(out / row.golden, row, row.smallest)
