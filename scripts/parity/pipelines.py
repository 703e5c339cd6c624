"""Entry point of scripts/parity_pipelines.sh: whole runs of `troupe sample
--prompt` against the pipelines of diffusers, called as their documentation
shows."""

import argparse
import importlib.util
import pathlib
import random
import secrets
import sys
import tempfile
from typing import NamedTuple

import diffusers
import numpy as np
import tokenizers
import torch
import transformers
from diffusers.image_processor import PixArtImageProcessor
from diffusers.pipelines.pixart_alpha.pipeline_pixart_alpha import (
    ASPECT_RATIO_256_BIN, ASPECT_RATIO_512_BIN)
from PIL import Image
from safetensors.torch import load_file, save_file

import pipelines_golden
import probes
import texts
import tiny_pipelines
from report import DRAWS, Report, relative_l2

RUN_LIMIT = 1e-4
ENCODER_LIMIT = 2e-5
IMAGE_LIMIT = 1  # of 255: our pictures are rounded to whole levels

# diffusers 0.42.1 looks for the norm behind clip_skip below `text_model`. In
# transformers 5 it belongs to the encoder itself.
if not hasattr(transformers.CLIPTextModel, "text_model"):
    transformers.CLIPTextModel.text_model = property(lambda self: self)


class Case(NamedTuple):
    """What a pipeline is asked for. None: neither side gets a value."""
    name: str
    prompts: tuple
    negative: str | None = None
    size: tuple | None = None  # of the latents: height, width
    picture: tuple | None = None  # the same in pixels, in place of `size`
    pictures: int = 1  # of each prompt
    guidance: float | None = None
    steps: int | None = None
    given: bool = False  # by --prompt-embeds
    second: str | None = None  # of the second text encoder
    negative_second: str | None = None
    clip_skip: int | None = None
    tiled: bool = False  # the decoder works in tiles


# Of pictures, height and width: smaller and larger than their bins, cut above
# and below and on both sides; of a bin itself; more extreme than any bin.
BETWEEN_BINS = [(400, 600), (300, 301), (97, 61), (520, 250), (256, 256),
                (208, 304), (40, 700), (333, 50)]


def leaves_a_strip(height, width, side):
    """Whether diffusers cuts a single row or column out of the picture, as it
    does where scaling rounds down to one pixel less than was asked for."""
    tables = {32: ASPECT_RATIO_256_BIN, 64: ASPECT_RATIO_512_BIN}
    bin_height, bin_width = PixArtImageProcessor.classify_height_width_bin(
        height, width, tables[side])
    scale = max(height / bin_height, width / bin_width)
    return int(bin_height * scale) < height or int(bin_width * scale) < width


def binned_cases(rng, side):
    drawn = []
    while len(drawn) < 4:
        sides = rng.randint(16, 400), rng.randint(16, 400)
        if not leaves_a_strip(*sides, side):
            drawn.append(sides)
    return [Case(f"{width}x{height} pixels", ("A cat",), steps=4,
                 picture=(height, width))
            for height, width in [*BETWEEN_BINS, *drawn]
            if not leaves_a_strip(height, width, side)] + [
                Case("as trained", ("A cat",), steps=4),
                Case("several of one bin", ("A cat", "a dog"), steps=4,
                     picture=(200, 120))]


def cases(rng, row, sizes):
    if row.has_bins:
        return binned_cases(rng, sizes.sample_size)
    words = sorted({w for line in texts.training_lines() for w in line.split()})
    drawn = tuple("a " + " ".join(texts.random_text(rng, words).split())
                  for _ in range(3))  # each on one line of a file
    cat = "A small cat, oil on canvas"
    more = [
        Case("second text", (cat,), second="a Dog on the hill"),
        Case("second text of several", (cat, "a house"), negative="ugly",
             second="a " + " ".join(rng.choices(words, k=400))),
        Case("second negative", (cat,), negative="ugly",
             negative_second="a Dog in the rain"),
        Case("second texts of both", (cat, "a house"), negative="",
             second="a hill", negative_second="Fog"),
    ] if row.has_second_text else []
    if row.has_clip_skip:
        more += [Case(f"clip skip {layers}", (cat, "a dog"), negative=negative,
                      clip_skip=layers)
                 for layers, negative in [(0, None), (1, None), (1, cat)]]
    if row.has_any_sides:
        # 72 and 104 pixels are 9 and 13 of the latents of real models.
        sides = [(72, 104), (8, 40)] + [
            (8 * rng.randint(2, 16), 8 * rng.randint(2, 16)) for _ in range(2)]
        more += [Case(f"{width}x{height} pixels", (cat,), steps=4,
                      picture=(height, width)) for height, width in sides]
    return more + [
        Case("empty negative", (cat,), negative=""),
        Case("plain", (cat.lower(),)),
        # troupe refuses "", which a shell makes of a variable that is not set.
        Case("nothing", (" ",)),
        Case("white space", (" \t\n\u00a0\u3000 ",)),
        Case("capitals and edges", ("  A Red CUBE\nON\tThe  TABLE \n",)),
        Case("unicode", ("Ölgemälde: ΣΊΣΥΦΟΣ İstanbul ﬁne １２３ 猫 кошка 👩‍👩‍👧 x\u0303\u0085",)),
        Case("marks", ("a </s> cat <pad> <extra_id_7> <unk> dog",)),
        Case("weights", ("a (cat:1.3) & <b>dog</b> https://a.example/x #tag",)),
        Case("too long", ("a " + " ".join(rng.choices(words, k=400)),)),
        Case("drawn", drawn),
        Case("negative", (cat,), negative="Blurry, LOW quality"),
        Case("long negative", (cat,),
             negative="a " + " ".join(rng.choices(words, k=400))),
        Case("wide", (cat,), size=(8, 16)),
        Case("tall", (cat,), size=(24, 8)),
        Case("in tiles", (cat,), size=(24, 16), tiled=True),
        Case("wide in tiles", (cat,), size=(8, 28), tiled=True, pictures=2),
        Case("two pictures", (cat,), pictures=2),
        Case("several prompts", (cat, "dog", "a house on a hill by the sea")),
        Case("no guidance", (cat,), guidance=1.0),
        Case("other steps and guidance", (cat,), guidance=7.5, steps=11),
        Case("given", (cat, "a dog"), negative="ugly", given=True),
        Case("given, no guidance", (cat,), guidance=1.0, given=True),
    ]


def texts_of(case):
    """Beside the prompts, one of each for each prompt."""
    arguments = {"negative_prompt": case.negative, "prompt_2": case.second,
                 "negative_prompt_2": case.negative_second}
    return {key: [text] * len(case.prompts)
            for key, text in arguments.items() if text is not None}


def asked(case):
    """Of a diffusers call."""
    arguments = {"guidance_scale": case.guidance, "num_inference_steps": case.steps,
                 "clip_skip": case.clip_skip}
    return {**texts_of(case), **{key: value for key, value in arguments.items()
                                 if value is not None}}


def pixels(case, sizes):
    """Height and width that are asked for, or None."""
    if case.picture:
        return case.picture
    return case.size and [side * sizes.scale for side in case.size]


def encoded(row, pipeline, case):
    """Tensors by their names, of all prompts."""
    options = {**texts_of(case), **row.encoding}
    if case.clip_skip is not None:
        options["clip_skip"] = case.clip_skip
    if not row.has_no_negative:
        options.setdefault("negative_prompt", [""] * len(case.prompts))
    tensors = zip(row.returns, pipeline.encode_prompt(
        list(case.prompts), do_classifier_free_guidance=True, **options))
    return {name: tensor.contiguous() for name, tensor in tensors}


def theirs(row, pipeline, case, sizes, seed, output):
    """The latents, or pictures [n, H, W, 3] from 0 to 1."""
    count = len(case.prompts) * case.pictures
    options = {**row.call, **asked(case)}
    if pixels(case, sizes):
        options["height"], options["width"] = pixels(case, sizes)
    (pipeline.vae.enable_tiling if case.tiled
     else pipeline.vae.disable_tiling)()
    return pipeline(
        prompt=list(case.prompts), num_images_per_prompt=case.pictures,
        generator=[torch.Generator().manual_seed(seed + i)
                   for i in range(count)],
        output_type=output, **options).images


def prompt_options(case, scratch):
    """Of troupe."""
    options = []
    if len(case.prompts) == 1:
        options += ["--prompt", case.prompts[0]]
    else:
        lines = scratch / "prompts.txt"
        lines.write_text("".join(f"{p}\n" for p in case.prompts))
        options += ["--prompt-file", lines]
    if case.second is not None:
        options += ["--prompt-2", case.second]
    if case.negative is not None:
        options += ["--negative-prompt", case.negative]
    if case.negative_second is not None:
        options += ["--negative-prompt-2", case.negative_second]
    if case.clip_skip is not None:
        options += ["--clip-skip", case.clip_skip]
    return options


def ours(folder, case, sizes, seed, scratch, given):
    options = ["--model", folder, "--noise", "torch", "--seed", seed,
               "--dtype", "f32", "--samples", case.pictures,
               "--save", f"latents={scratch / 'latents.safetensors'}",
               "--out", scratch / "{index}.png"]
    if given:
        save_file(given, scratch / "embeds.safetensors")
        options += ["--prompt-embeds", scratch / "embeds.safetensors"]
    else:
        options += prompt_options(case, scratch)
    if pixels(case, sizes):
        height, width = pixels(case, sizes)
        options += ["--size", f"{width}x{height}"]
    if case.tiled:
        options += ["--vae-tiling"]
    if case.guidance is not None:
        options += ["--guidance", case.guidance]
    if case.steps is not None:
        options += ["--steps", case.steps]
    summary = probes.troupe("sample", options)
    pictures = [np.asarray(Image.open(image["path"]).convert("RGB"))
                for image in summary["images"]]
    return load_file(scratch / "latents.safetensors")["latents"], \
        np.stack(pictures)


def compare_rows(report, name, case, got, expected):
    """Zeros, of a missing negative prompt, are compared as they are."""
    error = (relative_l2(got, expected) if expected.any()
             else float(got.abs().max()))
    report.add(name, str(case), error, ENCODER_LIMIT)


def compare_encoded(report, folder, case, scratch, expected):
    target = scratch / "encoded.safetensors"
    probes.troupe("encode", ["--model", folder, "--dtype", "f32", "--out",
                             target, *prompt_options(case, scratch)])
    got = load_file(target)
    for prefix in ("", "negative_"):
        rows = expected[prefix + "prompt_embeds"]
        # Without a mask all tokens count.
        lengths, found = (
            tensors.get(prefix + "prompt_attention_mask", torch.ones(
                tensors[prefix + "prompt_embeds"].shape[:2],
                dtype=torch.int64)).sum(dim=1).tolist()
            for tensors in (expected, got))
        if prefix:  # one of ours stands for those of all prompts
            lengths, found = lengths[:1], found[:1]
        report.add("tokens that count", f"{case}: {found} {lengths}",
                   float(found != lengths), 0.5)
        for i, length in enumerate(lengths[:len(found)]):
            compare_rows(report, "encoded prompts", case,
                         got[prefix + "prompt_embeds"][i, :length],
                         rows[i, :length])
        pooled = prefix + "pooled_prompt_embeds"
        for i in range(len(found) if pooled in expected else 0):
            compare_rows(report, "pooled prompts", case, got[pooled][i],
                         expected[pooled][i])


def compare_case(report, row, folder, pipeline, sizes, case, seed):
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        given = encoded(row, pipeline, case)
        if not case.given:
            compare_encoded(report, folder, case, scratch, given)
        latents, pictures = ours(folder, case, sizes, seed, scratch,
                                 given if case.given else None)
        report.add("latents", str(case), relative_l2(latents, theirs(
            row, pipeline, case, sizes, seed, "latent")), RUN_LIMIT)
        expected = theirs(row, pipeline, case, sizes, seed, "np")
        report.add("pictures, of 255", str(case), float(
            np.abs(pictures - 255.0 * expected).max()), IMAGE_LIMIT)


def check(report, name, row, sizes, rng):
    """Every case with DRAWS pipelines; the middle one counts."""
    with tempfile.TemporaryDirectory() as scratch:
        made = []
        for i in range(DRAWS):
            folder = pathlib.Path(scratch) / str(i)
            torch.manual_seed(rng.getrandbits(31))
            row.make(folder, sizes)
            made.append((folder, tiny_pipelines.load(row, folder)))
        for case in cases(rng, row, sizes):
            seed = rng.getrandbits(31)
            with report.middle_of_draws() as draws:
                for folder, pipeline in made:
                    compare_case(draws, row, folder, pipeline, sizes, case,
                                 seed)
        print(f"{name}: {sizes}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=secrets.randbits(31))
    parser.add_argument("--golden", type=pathlib.Path,
                        help="write the folders pipeline_* here instead")
    parser.add_argument("--golden-options", type=pathlib.Path,
                        help="write what diffusers draws with more options "
                        "into these folders instead")
    parser.add_argument("--only", help="the pipeline of this name alone")
    args = parser.parse_args()

    for name in ("bs4", "ftfy"):
        if importlib.util.find_spec(name):
            raise SystemExit(f"parity: {name} is installed: diffusers would "
                             "rewrite prompts, which Troupe does not do")
    diffusers.utils.logging.set_verbosity_error()
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    diffusers.utils.logging.disable_progress_bar()
    torch.set_grad_enabled(False)
    rows = {name: row for name, row in tiny_pipelines.PIPELINES.items()
            if args.only in (None, name)}
    if not rows:
        raise SystemExit(f"parity: --only: got {args.only}, expected one of "
                         + ", ".join(tiny_pipelines.PIPELINES))
    if args.golden:
        pipelines_golden.write(args.golden, rows)
        return 0
    if args.golden_options:
        pipelines_golden.write_options(args.golden_options, rows)
        return 0
    print(f"pipelines: --seed {args.seed}; diffusers {diffusers.__version__}, "
          f"transformers {transformers.__version__}, tokenizers "
          f"{tokenizers.__version__}, torch {torch.__version__}", flush=True)
    rng = random.Random(args.seed)
    report = Report()
    for name, row in rows.items():
        for sizes in row.sizes:
            check(report, name, row, sizes, rng)
    report.print_table()
    return 0 if report.ok() else 1


if __name__ == "__main__":
    sys.exit(main())
