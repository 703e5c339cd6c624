"""Lets a current diffusers import on Debian's torch 1.13.

diffusers looks up a few names that newer torch has, for devices and dtypes that
parity never uses. Import this before diffusers.
"""

import types

import torch


def _nothing(*_args, **_kwargs):
    return None


_no_device = types.SimpleNamespace(
    empty_cache=_nothing, device_count=lambda: 0, manual_seed=_nothing,
    is_available=lambda: False, synchronize=_nothing, set_device=_nothing,
    reset_peak_memory_stats=_nothing, max_memory_allocated=_nothing)

for _name in ("xpu", "mps"):
    if not hasattr(torch, _name):
        setattr(torch, _name, _no_device)
for _name in ("float8_e4m3fn", "float8_e5m2", "uint16", "uint32", "uint64"):
    if not hasattr(torch, _name):
        setattr(torch, _name, torch.uint8)

torch.set_grad_enabled(False)
torch.set_num_threads(1)
