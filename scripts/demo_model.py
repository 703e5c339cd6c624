"""The demo model's network: the arithmetic of diffusers' `DiTTransformer2DModel`, written for training.

Two things differ from the diffusers class, neither of them in the numbers it computes:
  * one embedder of (timestep, class) is shared by all blocks. diffusers stores one per block, so the
    export writes the same tensors under every block's name;
  * matmuls run in bf16 while the residual stream and the norms stay in f32.
"""

import math
from dataclasses import asdict, dataclass

import torch
import torch.nn.functional as F
from torch import nn

TIME_CHANNELS = 256  # width of the sinusoid; fixed in the diffusers class


@dataclass
class DemoConfig:
    num_classes: int
    resolution: int = 32
    patch: int = 2
    layers: int = 12
    heads: int = 6
    head_dim: int = 32

    @property
    def width(self) -> int:
        return self.heads * self.head_dim

    @property
    def grid(self) -> int:
        return self.resolution // self.patch

    def diffusers_config(self) -> dict:
        """transformer/config.json"""
        return {
            "_class_name": "DiTTransformer2DModel",
            "activation_fn": "gelu-approximate",
            "attention_bias": True,
            "attention_head_dim": self.head_dim,
            "dropout": 0.0,
            "in_channels": 3,
            "norm_elementwise_affine": False,
            "norm_eps": 1e-5,
            "norm_num_groups": 32,
            "norm_type": "ada_norm_zero",
            "num_attention_heads": self.heads,
            "num_embeds_ada_norm": self.num_classes,
            "num_layers": self.layers,
            "out_channels": 3,
            "patch_size": self.patch,
            "sample_size": self.resolution,
            "upcast_attention": False,
        }

    @staticmethod
    def from_diffusers(config: dict) -> "DemoConfig":
        return DemoConfig(
            num_classes=config["num_embeds_ada_norm"], resolution=config["sample_size"],
            patch=config["patch_size"], layers=config["num_layers"],
            heads=config["num_attention_heads"], head_dim=config["attention_head_dim"])

    def to_dict(self) -> dict:
        return asdict(self)


def position_table(grid: int, width: int, spacing: float = 1.0) -> torch.Tensor:
    """[grid*grid, width]: sin and cos of the column in the first half, of the row in the second.

    With a spacing of 2 each position is the middle of the 2 x 2 tokens it stands for.
    """
    frequency = 10000.0 ** (-torch.arange(width // 4, dtype=torch.float64) / (width // 4))
    place = torch.arange(grid, dtype=torch.float64) * spacing + (spacing - 1) / 2
    angle = place[:, None] * frequency
    line = torch.cat([angle.sin(), angle.cos()], dim=1)  # [grid, width/2]
    column = line[None, :, :].expand(grid, grid, -1)
    row = line[:, None, :].expand(grid, grid, -1)
    return torch.cat([column, row], dim=2).reshape(grid * grid, width).float()


def time_table() -> torch.Tensor:
    """[1000, 256]: the sinusoid of every timestep; cos first, and frequencies spaced with shift 1."""
    half = TIME_CHANNELS // 2
    exponent = -math.log(10000) * torch.arange(half, dtype=torch.float32) / (half - 1)
    angle = torch.arange(1000, dtype=torch.float32)[:, None] * exponent.exp()
    return torch.cat([angle.cos(), angle.sin()], dim=1)


class Linear(nn.Linear):
    """Multiplies in bf16 when `low_precision` is set; parameters stay f32."""

    low_precision = False

    def forward(self, x):
        if not self.low_precision:
            return F.linear(x.float(), self.weight, self.bias)
        kind = torch.bfloat16
        return F.linear(x.to(kind), self.weight.to(kind), self.bias.to(kind))


def modulate(x, shift, scale, eps):
    normed = F.layer_norm(x, x.shape[-1:], eps=eps)
    return normed * (1 + scale[:, None]) + shift[:, None]


def tanh_gelu(x):
    """The tanh approximation of GELU, by (1 + tanh u) / 2 = sigmoid(2u): one exp is far cheaper than tanh."""
    wide = x.float()
    inner = 2 * math.sqrt(2 / math.pi) * (wide + 0.044715 * wide * wide * wide)
    return (wide * inner.sigmoid()).to(x.dtype)


class Block(nn.Module):
    def __init__(self, cfg: DemoConfig):
        super().__init__()
        d = cfg.width
        self.heads, self.head_dim = cfg.heads, cfg.head_dim
        self.modulation = Linear(d, 6 * d)
        self.to_qkv, self.to_out = Linear(d, 3 * d), Linear(d, d)
        self.ff_in, self.ff_out = Linear(d, 4 * d), Linear(4 * d, d)

    def attend(self, x):
        b, n, d = x.shape
        qkv = self.to_qkv(x).view(b, n, 3, self.heads, self.head_dim)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        if x.is_cuda:
            out = F.scaled_dot_product_attention(q, k, v)
        else:
            # On CPUs the backward pass of the fused attention takes three times as long as this.
            scores = (q * self.head_dim**-0.5) @ k.transpose(-1, -2)
            out = scores.float().softmax(-1).to(v.dtype) @ v
        return self.to_out(out.transpose(1, 2).reshape(b, n, d))

    def forward(self, x, condition):
        # The order of the six is that of diffusers' AdaLayerNormZero; the two norms' eps differ there.
        s1, c1, g1, s2, c2, g2 = self.modulation(condition).float().chunk(6, dim=1)
        x = x + g1[:, None] * self.attend(modulate(x, s1, c1, 1e-6))
        hidden = tanh_gelu(self.ff_in(modulate(x, s2, c2, 1e-5)))
        return x + g2[:, None] * self.ff_out(hidden)


class DemoDiT(nn.Module):
    def __init__(self, cfg: DemoConfig):
        super().__init__()
        self.cfg = cfg
        d, p = cfg.width, cfg.patch
        self.patch_in = Linear(3 * p * p, d)
        self.time_1, self.time_2 = Linear(TIME_CHANNELS, d), Linear(d, d)
        self.class_table = nn.Embedding(cfg.num_classes + 1, d)  # the last row means "no class"
        self.blocks = nn.ModuleList(Block(cfg) for _ in range(cfg.layers))
        self.final_modulation = Linear(d, 2 * d)
        self.patch_out = Linear(d, 3 * p * p)
        self.register_buffer("positions", position_table(cfg.grid, d), persistent=False)
        self.register_buffer("coarse_positions", position_table(cfg.grid // 2, d, 2.0),
                             persistent=False)
        self.register_buffer("times", time_table(), persistent=False)
        self.reset()

    def reset(self):
        """Each block starts as the identity and the network starts by predicting zero."""
        for module in self.modules():
            if isinstance(module, Linear):
                nn.init.xavier_uniform_(module.weight)
                nn.init.zeros_(module.bias)
        for small in (self.class_table, self.time_1, self.time_2):
            nn.init.normal_(small.weight, std=0.02)
        for block in self.blocks:
            nn.init.zeros_(block.modulation.weight)
        nn.init.zeros_(self.final_modulation.weight)
        nn.init.zeros_(self.patch_out.weight)

    def use_low_precision(self, on: bool) -> "DemoDiT":
        for module in self.modules():
            if isinstance(module, Linear):
                module.low_precision = on
        return self

    def forward(self, pixels, timestep, label):
        """pixels [B,3,S,S] in -1..1 (noisy), timestep [B] 0..999, label [B] -> noise [B,3,S,S]

        S is the resolution, or half of it in the coarse part of training.
        """
        b, p = pixels.shape[0], self.cfg.patch
        g = pixels.shape[2] // p
        positions = self.positions if g == self.cfg.grid else self.coarse_positions
        patches = pixels.view(b, 3, g, p, g, p).permute(0, 2, 4, 1, 3, 5).reshape(b, g * g, -1)
        x = self.patch_in(patches).float() + positions
        condition = self.time_2(F.silu(self.time_1(self.times[timestep]))).float()
        condition = F.silu(condition + self.class_table(label))
        for block in self.blocks:
            x = block(x, condition)
        shift, scale = self.final_modulation(condition).float().chunk(2, dim=1)
        out = self.patch_out(modulate(x, shift, scale, 1e-6)).float()
        return (out.view(b, g, g, p, p, 3).permute(0, 5, 1, 3, 2, 4)
                .reshape(b, 3, g * p, g * p))
