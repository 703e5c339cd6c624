"""Everything that is done with the demo model's weights besides training them: writing and reading
the diffusers folder, and drawing samples."""

import json
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import save_file

import demo_data
from demo_model import DemoConfig, DemoDiT

WEIGHTS = Path("transformer") / "diffusion_pytorch_model.safetensors"
TRANSFORMER_CONFIG = Path("transformer") / "config.json"
DIFFUSERS_VERSION = "0.30.0"  # the oldest version that is known to read such a folder

# Ours -> diffusers, outside the blocks.
OUTER = {
    "final_modulation.weight": "proj_out_1.weight", "final_modulation.bias": "proj_out_1.bias",
    "patch_out.weight": "proj_out_2.weight", "patch_out.bias": "proj_out_2.bias",
}
# Inside a block. q, k and v are one matrix here and three there.
INNER = {"modulation": "norm1.linear", "to_out": "attn1.to_out.0", "ff_in": "ff.net.0.proj",
         "ff_out": "ff.net.2"}
# One embedder here, a copy in every block there.
EMBEDDER = {
    "time_1.weight": "timestep_embedder.linear_1.weight",
    "time_1.bias": "timestep_embedder.linear_1.bias",
    "time_2.weight": "timestep_embedder.linear_2.weight",
    "time_2.bias": "timestep_embedder.linear_2.bias",
    "class_table.weight": "class_embedder.embedding_table.weight",
}

SCHEDULER = {
    "_class_name": "DDIMScheduler", "_diffusers_version": DIFFUSERS_VERSION,
    "beta_end": 0.02, "beta_schedule": "linear", "beta_start": 0.0001,
    # Pixels live in -1..1, so an estimate of the clean picture may be clipped to that range.
    "clip_sample": True, "clip_sample_range": 1.0,
    "num_train_timesteps": 1000, "prediction_type": "epsilon", "set_alpha_to_one": True,
    "steps_offset": 0, "timestep_spacing": "leading", "trained_betas": None,
}

# What `troupe sample` takes by default; diffusers ignores the file. At a guidance of
# 1.5 boxes appear around the pictures of this small network, at 3 they turn into dark
# squares.
SAMPLING = {"guidance": 1.2, "steps": 50}


def alphas_cumprod() -> torch.Tensor:
    """[1000] of the linear schedule."""
    return torch.cumprod(1 - torch.linspace(1e-4, 0.02, 1000), dim=0)


def to_diffusers(weights: dict[str, torch.Tensor], cfg: DemoConfig) -> dict[str, torch.Tensor]:
    d, p = cfg.width, cfg.patch
    out = {"pos_embed.proj.weight": weights["patch_in.weight"].view(d, 3, p, p),
           "pos_embed.proj.bias": weights["patch_in.bias"]}
    for mine, theirs in OUTER.items():
        out[theirs] = weights[mine]
    for i in range(cfg.layers):
        block = f"transformer_blocks.{i}."
        for mine, theirs in EMBEDDER.items():
            out[f"{block}norm1.emb.{theirs}"] = weights[mine]
        for kind in ("weight", "bias"):
            for mine, theirs in INNER.items():
                out[f"{block}{theirs}.{kind}"] = weights[f"blocks.{i}.{mine}.{kind}"]
            qkv = weights[f"blocks.{i}.to_qkv.{kind}"].chunk(3)
            for letter, part in zip("qkv", qkv):
                out[f"{block}attn1.to_{letter}.{kind}"] = part
    return {k: v.detach().to(torch.bfloat16).clone().contiguous() for k, v in out.items()}


def from_diffusers(tensors: dict[str, torch.Tensor], cfg: DemoConfig) -> dict[str, torch.Tensor]:
    get = {k: v.float() for k, v in tensors.items()}
    out = {"patch_in.weight": get["pos_embed.proj.weight"].flatten(1),
           "patch_in.bias": get["pos_embed.proj.bias"]}
    for mine, theirs in OUTER.items():
        out[mine] = get[theirs]
    for mine, theirs in EMBEDDER.items():
        out[mine] = get[f"transformer_blocks.0.norm1.emb.{theirs}"]
    for i in range(cfg.layers):
        block = f"transformer_blocks.{i}."
        for kind in ("weight", "bias"):
            for mine, theirs in INNER.items():
                out[f"blocks.{i}.{mine}.{kind}"] = get[f"{block}{theirs}.{kind}"]
            out[f"blocks.{i}.to_qkv.{kind}"] = torch.cat(
                [get[f"{block}attn1.to_{letter}.{kind}"] for letter in "qkv"])
    return out


@dataclass
class Exported:
    config: DemoConfig
    classes: list[str]
    weights: dict[str, torch.Tensor]  # f32, our names
    images: int


def write_json(path: Path, value: dict) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


def export(weights: dict, cfg: DemoConfig, images: int, folder: Path) -> None:
    """Writes the diffusers folder and checks it against the diffusers class, if that is installed."""
    names = demo_data.class_names()
    write_json(folder / "model_index.json", {
        "_class_name": "DiTPipeline", "_diffusers_version": DIFFUSERS_VERSION,
        "id2label": {str(i): name for i, name in enumerate(names)},
        "scheduler": ["diffusers", "DDIMScheduler"],
        "transformer": ["diffusers", "DiTTransformer2DModel"],
        "vae": [None, None]})
    config = cfg.diffusers_config() | {"_diffusers_version": DIFFUSERS_VERSION}
    write_json(folder / TRANSFORMER_CONFIG, config)
    write_json(folder / "scheduler" / "scheduler_config.json", SCHEDULER)
    write_json(folder / "sampling.json", SAMPLING)
    tensors = to_diffusers(weights, cfg)
    partial = folder / WEIGHTS.with_suffix(".partial")
    save_file(tensors, partial, metadata={"format": "pt", "images_seen": str(images)})
    partial.chmod(0o644)
    os.replace(partial, folder / WEIGHTS)
    size = (folder / WEIGHTS).stat().st_size / 1e6
    print(f"wrote {folder}: {images} images seen, weights {size:.2f} MB")
    check_against_diffusers(folder)


def load_exported(folder: Path) -> Exported | None:
    """An exported model, or None if the folder holds none."""
    if not (folder / WEIGHTS).exists():
        return None
    cfg = DemoConfig.from_diffusers(json.loads((folder / TRANSFORMER_CONFIG).read_text()))
    index = json.loads((folder / "model_index.json").read_text())
    names = [index["id2label"][str(i)] for i in range(cfg.num_classes)]
    with safe_open(folder / WEIGHTS, framework="pt") as file:
        images = int((file.metadata() or {}).get("images_seen", 0))
        tensors = {key: file.get_tensor(key) for key in file.keys()}
    return Exported(cfg, names, from_diffusers(tensors, cfg), images)


def build_model(weights: dict, cfg: DemoConfig) -> DemoDiT:
    model = DemoDiT(cfg)
    model.load_state_dict(weights)
    return model.eval()


@torch.no_grad()
def check_against_diffusers(folder: Path) -> float | None:
    """Largest difference between our network and the diffusers class on the exported file, in f32."""
    try:
        from diffusers import DiTTransformer2DModel
    except ImportError:
        print("diffusers is not installed: the export was not compared with it")
        return None
    theirs = DiTTransformer2DModel.from_pretrained(folder / "transformer",
                                                   low_cpu_mem_usage=False).float().eval()
    found = load_exported(folder)
    ours = build_model(found.weights, found.config)
    g = torch.Generator().manual_seed(5)
    side = found.config.resolution
    x = torch.randn(4, 3, side, side, generator=g)
    timestep = torch.tensor([0, 17, 500, 999])
    label = torch.tensor([0, 3, found.config.num_classes - 1, found.config.num_classes])
    expected = theirs(x, timestep=timestep, class_labels=label).sample
    difference = (ours(x, timestep, label) - expected).abs().max().item()
    print(f"largest difference to diffusers' DiTTransformer2DModel: {difference:.1e} "
          f"(outputs up to {expected.abs().max():.2f})")
    if difference > 1e-3:
        raise SystemExit("[demo_export] the exported model does not compute what diffusers computes")
    return difference


@torch.no_grad()
def ddim(model: DemoDiT, labels: torch.Tensor, seed: int, steps: int = 50,
         guidance: float = 3.0) -> torch.Tensor:
    """Samples [n,3,S,S] in -1..1, as DDIMScheduler does with the options above."""
    alphas = alphas_cumprod()
    side = model.cfg.resolution
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(len(labels), 3, side, side, generator=g)
    null = torch.full_like(labels, model.cfg.num_classes)
    stride = 1000 // steps
    for i in reversed(range(steps)):
        t = i * stride
        both = model(torch.cat([x, x]), torch.full((2 * len(labels),), t),
                     torch.cat([labels, null])).float()
        cond, uncond = both.chunk(2)
        eps = uncond + guidance * (cond - uncond)
        a = alphas[t]
        a_prev = alphas[t - stride] if t >= stride else torch.tensor(1.0)
        clean = ((x - (1 - a).sqrt() * eps) / a.sqrt()).clamp(-1, 1)
        x = a_prev.sqrt() * clean + (1 - a_prev).sqrt() * eps
    return x.clamp(-1, 1)


def has_quick_bf16() -> bool:
    """Without instructions for bf16 a processor is far slower with it than with f32."""
    return torch.ops.mkldnn._is_mkldnn_bf16_supported()


def to_bytes(images: torch.Tensor) -> np.ndarray:
    return ((images + 1) * 127.5).round().to(torch.uint8).cpu().numpy()


def current_weights(args) -> tuple[dict, DemoConfig, int]:
    """The average (or --raw) weights of the training state, else what was exported last."""
    path = args.work / "state.pt"
    if path.exists():
        state = torch.load(path, map_location="cpu", weights_only=True)
        return state["model" if args.raw else "average"], DemoConfig(**state["config"]), state["images"]
    found = load_exported(args.model)
    if not found:
        raise SystemExit(f"[train_demo] nothing to use: neither {path} nor {args.model / WEIGHTS}")
    return found.weights, found.config, found.images


def sample_grid(model: DemoDiT, per_class: int, seed: int, guidance: float, path: Path) -> None:
    labels = torch.arange(model.cfg.num_classes).repeat_interleave(per_class)
    images = torch.cat([ddim(model, part, seed + i, guidance=guidance)
                        for i, part in enumerate(labels.split(29))])
    demo_data.contact_sheet(to_bytes(images), columns=3 * per_class, zoom=2).save(path)
    print(f"wrote {path}: {per_class} samples of each class, row by row")


def run(args) -> None:
    """--export, --samples and --card of train_demo.py."""
    weights, cfg, images = current_weights(args)
    if args.export:
        export(weights, cfg, images, args.export)
    if args.samples:
        model = build_model(weights, cfg).use_low_precision(has_quick_bf16())
        sample_grid(model, 6, args.seed, 3.0, args.samples)
    if args.card:
        import demo_card
        demo_card.write(weights, cfg, images, args.model)
