"""The optimiser of the demo model: Muon for the matrices inside the blocks, AdamW for everything else.

Muon replaces the momentum of a matrix by the nearest orthogonal matrix, so every direction of the
layer learns at the same pace. On two CPU cores images are scarce, and it needs fewer of them.
"""

import torch

# Coefficients of the quintic iteration that pushes singular values towards 1 (published with Muon).
QUINTIC = (3.4445, -4.7750, 2.0315)


def orthogonalise(stack: torch.Tensor, rounds: int = 5) -> torch.Tensor:
    """[n, rows, cols], each matrix -> roughly U V^T of its singular value decomposition."""
    x = stack.to(torch.bfloat16)
    tall = x.shape[1] > x.shape[2]
    if tall:
        x = x.transpose(1, 2)
    x = x / (x.float().flatten(1).norm(dim=1)[:, None, None] + 1e-7).to(x.dtype)
    a, b, c = QUINTIC
    for _ in range(rounds):
        gram = x @ x.transpose(1, 2)
        x = a * x + (b * gram + c * (gram @ gram)) @ x
    return (x.transpose(1, 2) if tall else x).float()


class DemoOptimizer:
    """step() reads p.grad. Square parts of a fused matrix (q, k and v) are treated one by one."""

    def __init__(self, model, use_muon: bool = True, weight_decay: float = 0.01):
        self.weight_decay = weight_decay
        matrices = []
        if use_muon:
            for block in model.blocks:
                matrices += [block.to_qkv.weight, block.to_out.weight, block.ff_in.weight,
                             block.ff_out.weight]
        inside = {id(p) for p in matrices}
        self.matrices = matrices
        self.momentum = [torch.zeros_like(p) for p in matrices]
        rest = [p for p in model.parameters() if id(p) not in inside]
        self.adam = torch.optim.AdamW(
            [{"params": [p for p in rest if p.ndim > 1], "weight_decay": weight_decay},
             {"params": [p for p in rest if p.ndim <= 1], "weight_decay": 0.0}],
            lr=0.0, betas=(0.9, 0.99), eps=1e-8, fused=True)

    @torch.no_grad()
    def step(self, lr: float, matrix_lr: float) -> None:
        for group in self.adam.param_groups:
            group["lr"] = lr
        self.adam.step()
        by_shape: dict[tuple, list[tuple[torch.Tensor, torch.Tensor]]] = {}
        for p, m in zip(self.matrices, self.momentum):
            m.lerp_(p.grad, 0.05)
            update = p.grad.lerp(m, 0.95)  # Nesterov: look one step ahead
            rows, cols = p.shape
            parts = rows // cols if rows == 3 * cols else 1
            for piece, change in zip(p.chunk(parts), update.chunk(parts)):
                by_shape.setdefault(tuple(piece.shape), []).append((piece, change))
        for shape, pairs in by_shape.items():
            moves = orthogonalise(torch.stack([change for _, change in pairs]))
            # Scaled so that, at an equal rate, an entry moves about as far as AdamW would move it.
            scale = 0.2 * max(shape) ** 0.5
            for (piece, _), move in zip(pairs, moves):
                piece.mul_(1 - matrix_lr * self.weight_decay)
                piece.add_(move, alpha=-matrix_lr * scale)

    def state_dict(self) -> dict:
        return {"adam": self.adam.state_dict(), "momentum": self.momentum}

    def load_state_dict(self, state: dict) -> None:
        self.adam.load_state_dict(state["adam"])
        for mine, saved in zip(self.momentum, state["momentum"], strict=True):
            mine.copy_(saved)
