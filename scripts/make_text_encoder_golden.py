#!/usr/bin/env python3
"""Writes small text encoders and what transformers computes with them.

    make_text_encoder_golden.py [--out tests/golden]

Each folder holds config.json and model.safetensors of one encoder, and
golden.safetensors with numbered cases: "0.ids" [n]; "0.wanted" = key length,
layers left out at the end, whether the final norm is applied; "0.hidden" and
"0.pooled" in f32; and the same with "_bf16", computed by a bf16 copy of the
model.

Needs transformers; 4.41 works with Debian 12's python3-torch:

    python3 -m venv --system-site-packages VENV
    VENV/bin/pip install transformers==4.41.2 huggingface_hub==0.23.5 \\
        tokenizers==0.19.1 safetensors==0.4.5 numpy==1.24.2
"""

import argparse
import copy
import os

import torch
from safetensors.torch import load_file, save_file
from transformers import (CLIPTextConfig, CLIPTextModel,
                          CLIPTextModelWithProjection, T5Config,
                          T5EncoderModel)

VOCABULARY = 99


def shake(model):
    """Default initialisation leaves biases and norms too plain to test, and
    attention too flat."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn_like(parameter)
            if "relative_attention_bias" in name:
                parameter.copy_(1.5 * noise)
            elif parameter.ndim == 1:
                parameter.add_(0.1 * noise)
            elif "embed" in name or "shared" in name:
                parameter.copy_(0.5 * noise)
            elif name.endswith((".q.weight", ".k.weight")):
                parameter.copy_(noise * parameter.shape[1] ** -0.5 * 0.5)
            else:
                parameter.copy_(noise * parameter.shape[1] ** -0.5)


def clip_state(model, ids, mask, skipped, final_norm):
    out = model(ids, attention_mask=mask, output_hidden_states=True)
    hidden = out.hidden_states[-1 - skipped]
    if final_norm:
        hidden = model.text_model.final_layer_norm(hidden)
    pooled = out.text_embeds if hasattr(out, "text_embeds") else \
        out.pooler_output
    return hidden[0], pooled[0]


def t5_state(model, ids, mask, skipped, final_norm):
    out = model(ids, attention_mask=mask, output_hidden_states=True)
    hidden = out.hidden_states[-1 - skipped]  # [-1] has its norm already
    assert skipped > 0 or final_norm
    if skipped > 0 and final_norm:
        hidden = model.encoder.final_layer_norm(hidden)
    return hidden[0], None


def masked(ids, key_length):
    """diffusers passes a mask only where a pipeline uses it."""
    if key_length == len(ids):
        return None
    return (torch.arange(len(ids)) < key_length).long()[None]


@torch.no_grad()
def save(folder, model, state_of, cases, rename=(), stored=torch.float32):
    os.makedirs(folder, exist_ok=True)
    model.to(stored).float()
    narrow = copy.deepcopy(model).to(torch.bfloat16)
    golden = {}
    for index, (ids, *wanted) in enumerate(cases):
        golden[f"{index}.ids"] = torch.tensor(ids)
        golden[f"{index}.wanted"] = torch.tensor(wanted)
        key_length, skipped, final_norm = wanted
        for which, suffix in ((model, ""), (narrow, "_bf16")):
            hidden, pooled = state_of(which, torch.tensor([ids]),
                                      masked(ids, key_length), skipped,
                                      final_norm)
            golden[f"{index}.hidden{suffix}"] = hidden.float().contiguous()
            if pooled is not None:
                golden[f"{index}.pooled{suffix}"] = pooled.float().contiguous()
    model.save_pretrained(folder, safe_serialization=True)
    weights = os.path.join(folder, "model.safetensors")
    tensors = {}
    for name, tensor in load_file(weights).items():
        for old, new in rename:
            name = new + name[len(old):] if name.startswith(old) else name
        tensors[name] = tensor.to(stored)
    save_file(tensors, weights)
    save_file(golden, os.path.join(folder, "golden.safetensors"))
    print("wrote", folder)


def text(length, end, end_id, pad):
    """Ids of a text that ends at row `end`, and what pads it."""
    ids = torch.randint(3, VOCABULARY - 1, (length,)).tolist()
    ids[end] = end_id
    ids[end + 1:] = [pad] * (length - end - 1)
    return ids


def clip_cases(eos, pad, length):
    end = VOCABULARY - 1 if eos == 2 else eos
    return [
        (text(length, 11, end, pad), length, 0, 1),
        (text(length, 4, end, pad), length, 1, 0),
        (text(length, length - 1, end, pad), length, 2, 1),
        (text(length, 6, end, pad), 7, 0, 0),
        (text(9, 8, end, pad), 9, 0, 1),
        ([end], 1, 1, 0),
    ]


def make_clip(folder, seed, model_class, eos, pad, rename=(),
              stored=torch.float32, **config):
    torch.manual_seed(seed)
    model = model_class(CLIPTextConfig(
        vocab_size=VOCABULARY, num_hidden_layers=3, bos_token_id=0,
        pad_token_id=1, eos_token_id=eos, **config)).eval()
    shake(model)
    save(folder, model, clip_state,
         clip_cases(eos, pad, model.config.max_position_embeddings), rename,
         stored)


def make_t5(folder, seed, rename=(), stored=torch.float32, **config):
    torch.manual_seed(seed)
    model = T5EncoderModel(T5Config(vocab_size=VOCABULARY, num_layers=3,
                                    **config)).eval()
    shake(model)
    cases = [
        (text(20, 19, 1, 0), 20, 0, 1),
        (text(20, 6, 1, 0), 7, 0, 1),
        (text(150, 100, 1, 0), 101, 0, 1),
        (text(150, 149, 1, 0), 150, 1, 0),
        (text(8, 7, 1, 0), 8, 2, 1),
        ([1], 1, 0, 1),
    ]
    save(folder, model, t5_state, cases, rename, stored)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", default="tests/golden")
    out = parser.parse_args().out
    make_clip(os.path.join(out, "text_clip"), 21, CLIPTextModel,
              eos=VOCABULARY - 1, pad=VOCABULARY - 1, hidden_size=32,
              intermediate_size=37, num_attention_heads=4,
              max_position_embeddings=77, hidden_act="quick_gelu")
    make_clip(os.path.join(out, "text_clip_projection"), 22,
              CLIPTextModelWithProjection, eos=2, pad=0, hidden_size=36,
              intermediate_size=41, num_attention_heads=3, projection_dim=19,
              max_position_embeddings=21, hidden_act="gelu",
              layer_norm_eps=1e-3)
    make_clip(os.path.join(out, "text_clip_flat"), 23, CLIPTextModel, eos=50,
              pad=60, rename=[("text_model.", "")], stored=torch.float16,
              hidden_size=24, intermediate_size=96, num_attention_heads=2,
              max_position_embeddings=16, hidden_act="gelu")
    make_t5(os.path.join(out, "text_t5"), 24, d_model=32, d_kv=8, d_ff=37,
            num_heads=4, relative_attention_num_buckets=8,
            feed_forward_proj="gated-gelu")
    make_t5(os.path.join(out, "text_t5_plain"), 25, d_model=24, d_kv=12,
            d_ff=29, num_heads=3, relative_attention_num_buckets=32,
            layer_norm_epsilon=1e-3, feed_forward_proj="relu",
            rename=[("shared.", "encoder.embed_tokens.")],
            stored=torch.bfloat16)


if __name__ == "__main__":
    main()
