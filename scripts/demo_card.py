"""Writes models/demo/MODEL_CARD.md and samples.png, the samples beside their nearest training picture.

Called by `train_demo.py --card`, so that the figures in the card are always those of the weights.
"""

import json
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageDraw, ImageFont

import demo_data
import demo_export
from demo_model import DemoConfig
from train_classifier import Classifier

SEED = 2024
STEPS = 50
GUIDANCE = 1.2
PER_CLASS = 5  # samples that the figures are taken from
SHOWN = 5  # of them, in the picture; at most PER_CLASS
NEAR_COPY = 0.05  # RMS difference (of a range of 1) below which one hardly sees a difference

LICENCE_HEADER = """The weights in this folder were trained on the glyphs of the font Noto Color Emoji and partly
reproduce them. They are therefore distributed under the licence of that font, which follows.

Copyright 2013-2017 Google Inc., Arjen Nienhuis <a.g.nienhuis@gmail.com>

"""
DEBIAN_COPYRIGHT = Path("/usr/share/doc/fonts-noto-color-emoji/copyright")


def variants(pictures: demo_data.PictureSet) -> tuple[torch.Tensor, torch.Tensor]:
    """Every form in which training may have shown a picture: [m, 3*s*s] in 0..1, index of the picture."""
    pixels = torch.from_numpy(pictures.pixels).float() / 255
    index = torch.arange(len(pixels))
    flips = torch.from_numpy(pictures.mirrored)
    pixels = torch.cat([pixels, pixels[flips].flip(3)])
    index = torch.cat([index, index[flips]])
    shift = max(1, pixels.shape[-1] // 32)
    moves = [(y * shift, x * shift) for y in (-1, 0, 1) for x in (-1, 0, 1)]
    forms = torch.cat([torch.roll(pixels, move, (2, 3)) for move in moves])
    return forms.flatten(1), index.repeat(len(moves))


def nearest(samples: torch.Tensor, forms: torch.Tensor, index: torch.Tensor):
    """For each sample [n,3,s,s] in 0..1: RMS difference, the form, and the picture it is a form of."""
    distance = torch.cdist(samples.flatten(1), forms) / forms.shape[1] ** 0.5
    best = distance.argmin(dim=1)
    return distance.gather(1, best[:, None])[:, 0], forms[best].view_as(samples), index[best]


def typical_distance(pictures: demo_data.PictureSet, forms, index) -> float:
    """The same measure between training pictures: median distance to the nearest *other* picture."""
    own = torch.from_numpy(pictures.pixels[::7]).float().flatten(1) / 255
    distance = torch.cdist(own, forms) / forms.shape[1] ** 0.5
    distance[torch.arange(0, len(pictures.pixels), 7)[:, None] == index[None]] = 9.0
    return distance.min(dim=1).values.median().item()


def picture(samples: np.ndarray, neighbours: np.ndarray, names: list[str], path: Path) -> None:
    """Two columns of classes; in each row SHOWN pairs of (sample, nearest training picture)."""
    zoom, side = 2, samples.shape[-1]
    cell, label_width, row = zoom * side, 96, zoom * side + 6
    block = label_width + SHOWN * (2 * cell + 12)
    rows = -(-len(names) // 2)
    sheet = Image.new("RGB", (2 * block + 12, rows * row + 30), (235, 235, 235))
    pen, font = ImageDraw.Draw(sheet), ImageFont.load_default(size=14)
    pen.text((8, 6), "Pairs: left a sample, right the training picture nearest to it "
             f"({STEPS} DDIM steps, guidance {GUIDANCE:g})", fill=(0, 0, 0), font=font)
    for i, name in enumerate(names):
        left, top = (i // rows) * block + 8, 30 + (i % rows) * row
        pen.text((left, top + cell // 2 - 8), name, fill=(0, 0, 0), font=font)
        for k in range(SHOWN):
            for j, source in enumerate((samples, neighbours)):
                tile = Image.fromarray(source[i * PER_CLASS + k].transpose(1, 2, 0))
                tile = tile.resize((cell, cell), Image.Resampling.NEAREST)
                x = left + label_width + k * (2 * cell + 12) + j * cell
                sheet.paste(tile, (x, top))
    sheet.save(path, optimize=True)


def judge(samples: torch.Tensor, labels: torch.Tensor, folder: Path) -> dict | None:
    """How often the classifier sees the asked class in the samples."""
    if not (folder / "config.json").exists():
        return None
    classifier = Classifier.load(folder)
    small = torch.nn.functional.interpolate(samples, (32, 32), mode="area")
    ranked = classifier.scores(small * 2 - 1).argsort(dim=1, descending=True)
    hit = ranked[:, 0] == labels
    per_class = {classifier.labels[c]: hit[labels == c].float().mean().item()
                 for c in range(len(classifier.labels))}
    third = (ranked[:, :3] == labels[:, None]).any(dim=1).float().mean().item()
    report = json.loads((folder / "config.json").read_text())["accuracy"]
    return {"first": hit.float().mean().item(), "third": third, "classes": per_class,
            "classifier": report}


def classifier_section(judged: dict | None) -> str:
    if judged is None:
        return "No classifier was found in `classifier/` when this card was written.\n"
    report = judged["classifier"]
    lines = [
        "`classifier/` holds a small convolutional network of the same classes (config.json says how",
        "its layers are chained). Its features are meant for Fréchet distances between sets of",
        "samples. On augmented draws of pictures it was not trained on it names the right class in",
        f"{report['held_out_top1']:.0%} of cases ({report['held_out_top3']:.0%} among its first "
        f"three guesses; {report['held_out_pictures']} pictures held out),",
        f"on augmented draws of its training pictures in {report['training_pictures_top1']:.0%}. "
        "The stored one is trained on all pictures.",
        "",
        f"It recognises the asked class in {judged['first']:.0%} of the samples of this card "
        f"({judged['third']:.0%} among the first three guesses)."]
    if PER_CLASS >= 5:  # below that a share says nothing about a class
        lines += ["", "| class | recognised |", "|---|---|"]
        lines += [f"| {name} | {share:.0%} |" for name, share in judged["classes"].items()]
    return "\n".join(lines) + "\n"


def status(judged: dict | None) -> str:
    """A warning at the top, as long as the model does not do what it is for."""
    if judged is None or judged["first"] >= 0.5:
        return ""
    return (f"**Not trained to the end.** The classifier recognises {judged['first']:.0%} of the samples as what "
            "was asked\nfor; below a half the model has more to learn. `scripts/train_demo.py` goes on from "
            "here.\n\n")


def card(cfg: DemoConfig, images: int, figures: dict, judged: dict | None,
         pictures: demo_data.PictureSet) -> str:
    sizes = np.bincount(pictures.labels, minlength=len(demo_data.CLASSES))
    classes = ", ".join(f"{name} ({sizes[i]})" for i, name in enumerate(demo_data.class_names()))
    parameters = figures["parameters"] / 1e6
    return f"""# The demo model

A class-conditional diffusion transformer that draws emoji of {cfg.resolution}×{cfg.resolution} pixels. It exists so that
Troupe can show and test something real without a download: it is small, it has a real checkpoint
folder in diffusers layout, and one sees at a glance whether a sample came out right. It is not meant
for anything else.

{status(judged)}![samples and nearest training pictures](samples.png)

## What it computes

- `DiTTransformer2DModel` of diffusers: {cfg.layers} blocks, width {cfg.width}, {cfg.heads} heads of {cfg.head_dim}, patch {cfg.patch}, {cfg.grid * cfg.grid} tokens,
  directly on pixels in −1…1 (no VAE); {cfg.num_classes} classes, and label {cfg.num_classes} means "no class".
- Predicts the noise (`epsilon`); 1000 timesteps, linear betas 1e-4…0.02. Sampling clips the estimate of
  the clean picture to −1…1, which is right for pixels (`clip_sample` in the scheduler's config).
- `sampling.json` holds what Troupe takes where nobody says otherwise: {STEPS} steps at guidance {GUIDANCE:g}.
  Stronger guidance leaves boxes around the pictures (1.5), and dark squares instead of them (3).
- {parameters:.1f} million stored parameters in bf16. Training has one embedder of timestep and class; diffusers
  keeps one per block, so the file holds {cfg.layers} equal copies.
- The diffusers class loads the folder and gives the same numbers; the export checks it.

## Data

The colour glyphs of Debian's `fonts-noto-color-emoji`, grouped by the subgroups of `emoji-test.txt` in
Debian's `unicode-data`: {len(pictures.labels)} single code points, without flags, skin tones and keycaps, scaled with
premultiplied alpha and laid on white. Classes and their sizes: {classes}.

The glyphs are © 2013–2017 Google Inc. and Arjen Nienhuis, under the SIL Open Font License 1.1 (the
tools in the same source package are under Apache-2.0; nothing of them is used). Because the model
partly reproduces the glyphs, its weights and samples are distributed under that licence too: see
`OFL.txt`.

## Training

`scripts/train_demo.py` (resumable; `--help` explains it). This export has seen **{images:,} images**, that is
{images / len(pictures.labels):,.0f} times the set; the early ones mostly at half the resolution (`--coarse`), the last 2.2 million within six
minutes of an H100 (`--device cuda --batch 256 --minutes M`, twice). Flips (not of clocks, signs, symbols and stationery) and moves by a pixel
augment; classes are drawn in proportion to the square root of their size; the label is hidden in 10 % of
cases for guidance; Min-SNR weighting (5) of the noise loss; Muon for the matrices of the blocks and AdamW for the
rest; bf16 matmuls, f32 elsewhere. The weights are an exponential average.

Of the two ways to cut a picture into 256 tokens, 64×64 with patch 4 was tried too (`--resolution 64
--patch 4`), with earlier weights enlarged to begin with: after 54,000 images it drew blots of colour.

## It partly memorises

{len(pictures.labels)} pictures are few, and a model of this size remembers many of them. The picture above shows beside each
sample the nearest training picture (over all flips and moves). The RMS difference between a sample and
that picture has a median of {figures['median']:.3f} of the range; between a training picture and the nearest other
training picture it is {figures['typical']:.3f}. {figures['copies']:.0%} of the {figures['samples']} samples are closer than {NEAR_COPY}, that is,
copies to the eye. Do not cite its samples as examples of generalisation.

## Does it draw what is asked?

{classifier_section(judged)}
## Limits

Small things (text, fingers, wheels) are often garbled; classes of mixed content (games, tools, dishes) give
pictures that look like an emoji of nothing in particular. It knows no other style than that of its font.
"""


def write_licence(folder: Path) -> None:
    """The font's licence, as Debian ships it."""
    if not DEBIAN_COPYRIGHT.exists():
        return
    text = DEBIAN_COPYRIGHT.read_text(encoding="utf-8")
    start = text.index(" SIL OPEN FONT LICENSE Version 1.1")
    lines = [line[1:] if line.startswith(" ") else line for line in text[start:].splitlines()]
    body = "\n".join("" if line == "." else line for line in lines)
    (folder / "OFL.txt").write_text(LICENCE_HEADER + body.rstrip() + "\n", encoding="utf-8")


def write(weights: dict, cfg: DemoConfig, images: int, folder: Path) -> None:
    model = demo_export.build_model(weights, cfg)
    model.use_low_precision(demo_export.has_quick_bf16())
    labels = torch.arange(cfg.num_classes).repeat_interleave(PER_CLASS)
    parts = labels.split(cfg.num_classes)
    samples = torch.cat([demo_export.ddim(model, part, SEED + i, STEPS, GUIDANCE)
                         for i, part in enumerate(parts)])
    samples = (samples + 1) / 2
    pictures = demo_data.build(cfg.resolution)
    forms, index = variants(pictures)
    distance, neighbours, _ = nearest(samples, forms, index)
    stored = demo_export.to_diffusers(weights, cfg)
    figures = {"median": distance.median().item(), "samples": len(samples),
               "typical": typical_distance(pictures, forms, index),
               "copies": (distance < NEAR_COPY).float().mean().item(),
               "parameters": sum(t.numel() for t in stored.values())}
    judged = judge(samples, labels, folder / "classifier")
    as_bytes = [demo_export.to_bytes(t * 2 - 1) for t in (samples, neighbours)]
    picture(*as_bytes, demo_data.class_names(), folder / "samples.png")
    text = card(cfg, images, figures, judged, pictures)
    (folder / "MODEL_CARD.md").write_text(text, encoding="utf-8")
    write_licence(folder)
    print(f"wrote {folder / 'MODEL_CARD.md'} and samples.png: {figures}"
          + (f", recognised {judged['first']:.2f}" if judged else ""))
