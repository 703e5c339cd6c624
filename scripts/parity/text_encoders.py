"""Text encoders on fresh random models against text_reference.py."""

import json
import pathlib
import subprocess
import tempfile

import numpy as np
from safetensors.numpy import load_file, save_file

import probes
import text_reference as reference
from report import DRAWS

F32_LIMIT = 2e-5
# Ours in bf16 may be at most this much further from the exact numbers than a
# computation that rounds what products read, and nothing else.
BF16_LIMIT = 1.5
# Biases of T5 change until its greatest distance, 128 in published models.
T5_LENGTHS = [1, 2, 13, 63, 64, 65, 100, 141, 200, 300]
# A layer norm of two numbers divides their difference by itself: f32 has few
# digits of it.
LEAST_WIDTH = 8


def random_clip_config(rng):
    heads = rng.randint(1, 5)
    vocabulary = rng.choice([7, 99, 400])
    return dict(
        vocab_size=vocabulary,
        hidden_size=heads * rng.randint(-(-LEAST_WIDTH // heads), 33),
        intermediate_size=rng.randint(1, 200),
        num_hidden_layers=rng.randint(1, 6), num_attention_heads=heads,
        max_position_embeddings=rng.choice([1, 16, 77, 131]),
        hidden_act=rng.choice(["quick_gelu", "gelu"]),
        layer_norm_eps=rng.choice([1e-5, 1e-3]),
        eos_token_id=rng.choice([2, vocabulary - 1]),
        projection_dim=rng.randint(1, 90))


def random_t5_config(rng):
    return dict(
        vocab_size=rng.choice([7, 99, 400]), d_model=rng.randint(2, 130),
        d_kv=rng.randint(1, 40), d_ff=rng.randint(1, 200),
        num_layers=rng.randint(1, 6), num_heads=rng.randint(1, 5),
        relative_attention_num_buckets=rng.choice([8, 32, 32]),
        relative_attention_max_distance=rng.choice([64, 128, 128]),
        layer_norm_epsilon=rng.choice([1e-6, 1e-3]),
        feed_forward_proj=rng.choice(["gated-gelu", "gated-silu", "relu"]))


def clip_shapes(config, projection):
    width, inner = config["hidden_size"], config["intermediate_size"]
    yield "text_model.embeddings.token_embedding.weight", \
        (config["vocab_size"], width)
    yield "text_model.embeddings.position_embedding.weight", \
        (config["max_position_embeddings"], width)
    for i in range(config["num_hidden_layers"]):
        layer = f"text_model.encoder.layers.{i}."
        for name, rows, columns in (
                *((f"self_attn.{part}_proj", width, width)
                  for part in ("q", "k", "v", "out")),
                ("mlp.fc1", inner, width), ("mlp.fc2", width, inner)):
            yield f"{layer}{name}.weight", (rows, columns)
            yield f"{layer}{name}.bias", (rows,)
        for norm in ("layer_norm1", "layer_norm2"):
            yield f"{layer}{norm}.weight", (width,)
            yield f"{layer}{norm}.bias", (width,)
    yield "text_model.final_layer_norm.weight", (width,)
    yield "text_model.final_layer_norm.bias", (width,)
    if projection:
        yield "text_projection.weight", (config["projection_dim"], width)


def t5_shapes(config):
    width, inner = config["d_model"], config["num_heads"] * config["d_kv"]
    gated = config["feed_forward_proj"].startswith("gated-")
    yield "shared.weight", (config["vocab_size"], width)
    yield ("encoder.block.0.layer.0.SelfAttention.relative_attention_bias"
           ".weight"), (config["relative_attention_num_buckets"],
                        config["num_heads"])
    for i in range(config["num_layers"]):
        block = f"encoder.block.{i}.layer."
        for part in "qkv":
            yield f"{block}0.SelfAttention.{part}.weight", (inner, width)
        yield f"{block}0.SelfAttention.o.weight", (width, inner)
        for part in ("wi_0", "wi_1") if gated else ("wi",):
            yield f"{block}1.DenseReluDense.{part}.weight", \
                (config["d_ff"], width)
        yield f"{block}1.DenseReluDense.wo.weight", (width, config["d_ff"])
        for part in "01":
            yield f"{block}{part}.layer_norm.weight", (width,)
    yield "encoder.final_layer_norm.weight", (width,)


def random_tensor(name, shape, draw):
    noise = draw.standard_normal(shape)
    if "relative_attention_bias" in name:
        return 1.5 * noise
    if "embed" in name or "shared" in name:
        return 0.5 * noise
    if len(shape) == 1:
        return 0.1 * noise + (1.0 if "norm" in name and "weight" in name
                              else 0.0)
    # T5 does not scale its logits.
    flat = 0.5 if name.endswith((".q.weight", ".k.weight")) else 1.0
    return flat * noise * shape[1] ** -0.5


def random_tensors(shapes, rng, draw):
    """Half of the models are stored in f16, some under other names."""
    dtype = rng.choice([np.float32, np.float16])
    old = rng.choice(["text_model.", "shared.", "none"])
    new = {"text_model.": "", "shared.": "encoder.embed_tokens."}.get(old, "")
    tensors = {}
    for name, shape in shapes:
        renamed = new + name[len(old):] if name.startswith(old) else name
        tensors[renamed] = random_tensor(name, shape, draw).astype(dtype)
    return tensors


def random_cases(rng, draw, vocabulary, lengths, layers, end):
    cases = []
    for length in sorted({*rng.sample(lengths, min(3, len(lengths))),
                          lengths[-1]}):
        ids = draw.integers(0, vocabulary, length)
        if end is not None:
            ids = np.minimum(ids, vocabulary - 2)
            ids[rng.randrange(length):] = end if rng.random() < 0.5 else 0
            ids[rng.randrange(length)] = end
        cases.append((ids, rng.choice([length, rng.randint(1, length)]),
                      rng.choice([0, 0, rng.randint(0, layers)]),
                      rng.randint(0, 1)))
    return cases


def encode(folder, cases, dtype):
    """text_encoder_probe: what Troupe makes of every case."""
    sent, received = folder / "in.safetensors", folder / "out.safetensors"
    tensors = {}
    for index, (ids, *wanted) in enumerate(cases):
        tensors[f"{index}.ids"] = np.asarray(ids, np.int64)
        tensors[f"{index}.wanted"] = np.asarray(wanted, np.int64)
    save_file(tensors, sent)
    subprocess.run([probes.find("text_encoder_probe"), "run", str(folder),
                    dtype, str(sent), str(received)], check=True)
    return load_file(received)


def relative_l2(ours, exact):
    return float(np.linalg.norm(ours - exact)
                 / max(np.linalg.norm(exact), 1e-30))


def compare(report, class_name, config, tensors, cases):
    """The worst error of all cases of one model; all rows of a text and its
    pooled vector count as one vector each."""
    forward = reference.ENCODERS[class_name]
    exact = [forward(config, tensors, *case) for case in cases]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "config.json").write_text(
            json.dumps({"architectures": [class_name], **config}))
        save_file(tensors, folder / "model.safetensors")
        dtypes = ["f32", "bf16"] if probes.has_bf16() else ["f32"]
        ours = {dtype: encode(folder, cases, dtype) for dtype in dtypes}

    def errors(results):
        """[case][hidden, pooled]"""
        return [[relative_l2(mine, truth)
                 for mine, truth in zip(result, pair) if truth is not None]
                for result, pair in zip(results, exact)]

    def of(dtype):
        return errors([(ours[dtype][f"{i}.hidden"],
                        ours[dtype].get(f"{i}.pooled"))
                       for i in range(len(cases))])

    report.add(f"{class_name}, f32", str(config), max(map(max, of("f32"))),
               F32_LIMIT)
    if "bf16" not in dtypes:
        return
    rounded = errors([forward(config, tensors, *case, reference.bf16_product)
                      for case in cases])
    # Summed over the cases: of one short text the ratio is chance.
    ratio = (sum(map(sum, of("bf16")))
             / max(sum(map(sum, rounded)), 1e-12))
    report.add(f"{class_name}, bf16 (ratio)", str(config), ratio, BF16_LIMIT)


def check_class(report, class_name, rng, draw):
    if class_name == "T5EncoderModel":
        config = random_t5_config(rng)
        shapes = list(t5_shapes(config))
        lengths, layers, end = T5_LENGTHS, config["num_layers"], None
    else:
        config = random_clip_config(rng)
        shapes = list(clip_shapes(config, "Projection" in class_name))
        lengths = list(range(1, config["max_position_embeddings"] + 1))
        layers = config["num_hidden_layers"]
        end = config["vocab_size"] - 1
    # A vector of 12 numbers has few roundings: of 300 models one was 2.05 times
    # as far off as the rounded reference, which is chance.
    with report.middle_of_draws() as draws:
        for _ in range(DRAWS):
            compare(draws, class_name, config,
                    random_tensors(shapes, rng, draw),
                    random_cases(rng, draw, config["vocab_size"], lengths,
                                 layers, end))


def check_text_encoders(report, rng, count):
    draw = np.random.default_rng(rng.getrandbits(31))
    for _ in range(count):
        for class_name in reference.ENCODERS:
            check_class(report, class_name, rng, draw)
