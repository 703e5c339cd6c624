"""Trains the small classifier of the demo classes.

    python3 scripts/train_classifier.py                 # a few minutes on one core
    python3 scripts/train_classifier.py --score a.png   # reads a folder of samples or single pictures

It has two uses: it says whether a sample shows what was asked for, and the means of its last
convolution are the features of the Fréchet distance between two sets of samples. It is a plain chain
of 3x3 convolutions with bias and ReLU, so that anything can run it; normalisation exists only
during training and is folded into the weights on export.

Accuracy is reported on pictures that were held out. Afterwards it is trained again on all of them:
as a feature extractor it should know every picture the demo model can draw.
"""

import argparse
import json
import sys
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from safetensors.torch import load_file, save_file
from torch import nn

import demo_data

REPOSITORY = Path(__file__).resolve().parent.parent
# (channels in, channels out, stride) of each convolution.
LAYERS = [(3, 24, 1), (24, 48, 2), (48, 48, 1), (48, 96, 2), (96, 96, 1), (96, 144, 2),
          (144, 144, 1)]
FEATURES = LAYERS[-1][1]


class TrainingNet(nn.Module):
    """With batch normalisation, which is what makes so short a training possible."""

    def __init__(self, num_classes: int):
        super().__init__()
        self.convs = nn.ModuleList(nn.Conv2d(i, o, 3, stride=s, padding=1, bias=False)
                                   for i, o, s in LAYERS)
        self.norms = nn.ModuleList(nn.BatchNorm2d(o) for _, o, _ in LAYERS)
        self.linear = nn.Linear(FEATURES, num_classes)

    def forward(self, x):
        for conv, norm in zip(self.convs, self.norms):
            x = F.relu(norm(conv(x)))
        return self.linear(F.dropout(x.mean(dim=(2, 3)), 0.3, self.training))

    @torch.no_grad()
    def folded(self) -> dict[str, torch.Tensor]:
        """The same function with each normalisation multiplied into the convolution before it."""
        out = {"linear.weight": self.linear.weight, "linear.bias": self.linear.bias}
        for i, (conv, norm) in enumerate(zip(self.convs, self.norms)):
            scale = norm.weight / (norm.running_var + norm.eps).sqrt()
            out[f"conv.{i}.weight"] = conv.weight * scale[:, None, None, None]
            out[f"conv.{i}.bias"] = norm.bias - norm.running_mean * scale
        return {k: v.detach().clone().contiguous() for k, v in out.items()}


class Classifier:
    """The exported form: what samples are judged with."""

    def __init__(self, tensors: dict[str, torch.Tensor], strides: list[int], labels: list[str]):
        self.tensors, self.strides, self.labels = tensors, strides, labels

    @staticmethod
    def load(folder: Path) -> "Classifier":
        config = json.loads((folder / "config.json").read_text())
        strides = [layer["stride"] for layer in config["layers"]]
        labels = [config["id2label"][str(i)] for i in range(len(config["id2label"]))]
        return Classifier(load_file(folder / "model.safetensors"), strides, labels)

    @torch.no_grad()
    def features(self, pixels: torch.Tensor) -> torch.Tensor:
        """pixels [n, 3, 32, 32] in -1..1 -> [n, FEATURES]"""
        x = pixels
        for i, stride in enumerate(self.strides):
            weight, bias = self.tensors[f"conv.{i}.weight"], self.tensors[f"conv.{i}.bias"]
            x = F.relu(F.conv2d(x, weight, bias, stride=stride, padding=1))
        return x.mean(dim=(2, 3))

    @torch.no_grad()
    def scores(self, pixels: torch.Tensor) -> torch.Tensor:
        """Logits [n, classes]."""
        return F.linear(self.features(pixels), self.tensors["linear.weight"],
                        self.tensors["linear.bias"])


def augment(images: torch.Tensor, mirrored: torch.Tensor) -> torch.Tensor:
    """Flips, small turns, scales and moves, other brightness, some noise; images [n,3,s,s] in -1..1."""
    n = len(images)
    turn = (torch.rand(n) - 0.5) * 0.3
    size = 1 + (torch.rand(n) - 0.5) * 0.3
    mirror = torch.where((torch.rand(n) < 0.5) & mirrored, -1.0, 1.0)
    matrix = torch.zeros(n, 2, 3)
    matrix[:, 0, 0], matrix[:, 0, 1] = turn.cos() * size * mirror, -turn.sin() * size
    matrix[:, 1, 0], matrix[:, 1, 1] = turn.sin() * size * mirror, turn.cos() * size
    matrix[:, :, 2] = (torch.rand(n, 2) - 0.5) * 0.2
    # Outside the picture is white: sampled as zero after white was moved to zero.
    grid = F.affine_grid(matrix, images.shape, align_corners=False)
    moved = F.grid_sample(images - 1, grid, align_corners=False) + 1
    gain = 1 + (torch.rand(n, 1, 1, 1) - 0.5) * 0.2
    noise = torch.randn_like(moved) * torch.rand(n, 1, 1, 1) * 0.1
    return (moved - 1) * gain + 1 + noise


def fit(pixels, labels, mirrored, weights, epochs: int, seed: int) -> TrainingNet:
    torch.manual_seed(seed)
    net = TrainingNet(len(demo_data.CLASSES)).to(memory_format=torch.channels_last)
    batch = 64
    steps = epochs * (len(labels) // batch)
    optimizer = torch.optim.AdamW(net.parameters(), lr=3e-3, weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 4e-3, total_steps=steps)
    started = time.monotonic()
    net.train()
    for step in range(steps):
        chosen = torch.multinomial(weights, batch, replacement=True)
        x = augment(pixels[chosen], mirrored[chosen]).to(memory_format=torch.channels_last)
        with torch.autocast("cpu", torch.bfloat16):
            guess = net(x)
        loss = F.cross_entropy(guess.float(), labels[chosen], label_smoothing=0.05)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % 200 == 0:
            print(f"step {step} of {steps}  loss {loss.item():.3f}  "
                  f"{time.monotonic() - started:.0f} s", flush=True)
    return net.eval()


def held_out(labels: np.ndarray, share: float = 0.12) -> np.ndarray:
    """A fixed choice of at least two pictures of each class; True = held out."""
    rng = np.random.default_rng(20)
    out = np.zeros(len(labels), dtype=bool)
    for label in range(labels.max() + 1):
        members = np.flatnonzero(labels == label)
        out[rng.choice(members, max(2, round(share * len(members))), replace=False)] = True
    return out


def accuracy(classifier: Classifier, pixels, labels, mirrored, draws: int = 8) -> tuple[float, float]:
    """Share of augmented draws whose class is the first, or among the first three, guesses."""
    torch.manual_seed(99)
    first = third = 0
    for _ in range(draws):
        ranked = classifier.scores(augment(pixels, mirrored)).argsort(dim=1, descending=True)
        first += (ranked[:, 0] == labels).sum().item()
        third += (ranked[:, :3] == labels[:, None]).any(dim=1).sum().item()
    total = draws * len(labels)
    return first / total, third / total


def export(net: TrainingNet, folder: Path, report: dict) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    save_file(net.folded(), folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "model.safetensors").chmod(0o644)
    config = {
        "_class_name": "DemoClassifier",
        "layers": [{"in_channels": i, "out_channels": o, "stride": s, "kernel": 3, "padding": 1}
                   for i, o, s in LAYERS],
        "activation": "relu", "features": "mean over positions of the last activation",
        "num_features": FEATURES, "resolution": 32, "value_range": [-1.0, 1.0],
        "id2label": {str(i): name for i, name in enumerate(demo_data.class_names())},
        "accuracy": report,
    }
    text = json.dumps(config, indent=2)
    (folder / "config.json").write_text(text + "\n", encoding="utf-8")


def as_classifier(net: TrainingNet) -> Classifier:
    return Classifier(net.folded(), [s for _, _, s in LAYERS], demo_data.class_names())


def train(args) -> None:
    pictures = demo_data.build(32)
    pixels = torch.from_numpy(pictures.pixels).float() / 127.5 - 1
    labels, mirrored = torch.from_numpy(pictures.labels), torch.from_numpy(pictures.mirrored)
    weights = torch.from_numpy(pictures.class_weights())
    kept_back = torch.from_numpy(held_out(pictures.labels))

    keep = ~kept_back
    trial = fit(pixels[keep], labels[keep], mirrored[keep], weights[keep], args.epochs, 1)
    first, third = accuracy(as_classifier(trial), pixels[kept_back], labels[kept_back],
                            mirrored[kept_back])
    net = fit(pixels, labels, mirrored, weights, args.epochs, 2)
    known, _ = accuracy(as_classifier(net), pixels, labels, mirrored)
    with torch.no_grad():
        probe = pixels[:64]
        difference = (as_classifier(net).scores(probe) - net(probe)).abs().max().item()
    if difference > 1e-3:
        raise SystemExit(f"[train_classifier] folding changed the outputs by {difference}")
    report = {"held_out_pictures": int(kept_back.sum()), "held_out_top1": round(first, 4),
              "held_out_top3": round(third, 4), "training_pictures_top1": round(known, 4)}
    export(net, args.out, report)
    size = (args.out / "model.safetensors").stat().st_size / 1e6
    print(f"wrote {args.out}: {size:.2f} MB, {report}")


def score(args) -> None:
    classifier = Classifier.load(args.out)
    for path in args.score:
        for file in sorted(path.glob("*.png")) if path.is_dir() else [path]:
            image = Image.open(file).convert("RGB").resize((32, 32), Image.Resampling.BOX)
            pixels = torch.from_numpy(np.asarray(image).copy()).permute(2, 0, 1)[None]
            chances = classifier.scores(pixels.float() / 127.5 - 1)[0].softmax(0)
            best = chances.argsort(descending=True)[:3].tolist()
            print(file, ", ".join(f"{classifier.labels[i]} {chances[i]:.2f}" for i in best))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=REPOSITORY / "models" / "demo" / "classifier")
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--score", type=Path, nargs="+", help="say what these pictures show")
    args = parser.parse_args(sys.argv[1:])
    torch.set_num_threads(1)
    score(args) if args.score else train(args)


if __name__ == "__main__":
    main()
