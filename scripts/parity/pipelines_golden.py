"""Writes tests/golden/pipeline_*: the smallest pipelines, and what diffusers
draws with them."""

import copy
import json
import shutil

import torch
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


def write(out, rows):
    for row in rows.values():
        write_pipeline(out / row.golden, row, row.smallest)
