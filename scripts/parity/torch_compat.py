"""Lets a current diffusers import on Debian's torch 1.13.

diffusers looks up names that newer torch has, for devices, dtypes and
distributed runs that parity never uses; each gets an empty stand-in. Import
this before diffusers.
"""

import sys
import types

import torch
import torch.nn.utils.parametrizations


def _nothing(*_args, **_kwargs):
    return None


def _undecorated(function=None, **_kwargs):
    return function if function is not None else lambda inner: inner


_no_device = types.SimpleNamespace(
    empty_cache=_nothing, device_count=lambda: 0, manual_seed=_nothing,
    is_available=lambda: False, synchronize=_nothing, set_device=_nothing,
    reset_peak_memory_stats=_nothing, max_memory_allocated=_nothing)


class _EmptyModule(types.ModuleType):
    """A module in which every name is a class nobody calls."""

    __path__ = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


for _name in ("xpu", "mps"):
    if not hasattr(torch, _name):
        setattr(torch, _name, _no_device)
if not hasattr(torch, "accelerator"):
    torch.accelerator = types.SimpleNamespace(is_available=lambda: False)
if not hasattr(torch, "get_device_module"):
    torch.get_device_module = lambda _device=None: _no_device
if not hasattr(torch, "compiler"):
    torch.compiler = types.SimpleNamespace(
        disable=_undecorated, is_compiling=lambda: False)
if not hasattr(torch.nn, "RMSNorm"):
    torch.nn.RMSNorm = torch.nn.Module
if not hasattr(torch.nn.utils.parametrizations, "weight_norm"):
    torch.nn.utils.parametrizations.weight_norm = torch.nn.utils.weight_norm
for _name in ("float8_e4m3fn", "float8_e5m2", "uint16", "uint32", "uint64"):
    if not hasattr(torch, _name):
        setattr(torch, _name, torch.uint8)
for _path in ("torch.distributed._functional_collectives",
              "torch.distributed.device_mesh", "torch.distributed.tensor",
              "torch.nn.attention", "torch.nn.attention.flex_attention"):
    try:
        __import__(_path)
    except ImportError:
        _parent, _name = _path.rsplit(".", 1)
        sys.modules[_path] = _EmptyModule(_path)
        setattr(sys.modules[_parent], _name, sys.modules[_path])

_baddbmm = torch.baddbmm


def _baddbmm_without_garbage(add, a, b, *, beta=1, alpha=1):
    """With beta = 0 old torch still reads `add`, which diffusers leaves
    uninitialised: a NaN there would get through."""
    if beta == 0:
        return alpha * torch.bmm(a, b)
    return _baddbmm(add, a, b, beta=beta, alpha=alpha)


torch.baddbmm = _baddbmm_without_garbage

_mish = torch.nn.functional.mish


def _mish_of_any_float(values, inplace=False):
    """Old torch has none for bf16; new torch computes it in float32, rounded
    once, and so does this."""
    if values.dtype in (torch.bfloat16, torch.float16):
        return _mish(values.float()).to(values.dtype)
    return _mish(values, inplace=inplace)


torch.nn.functional.mish = _mish_of_any_float
torch.set_grad_enabled(False)
torch.set_num_threads(1)
