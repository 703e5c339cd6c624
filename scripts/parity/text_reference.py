"""The text encoders in plain NumPy, float64: a second opinion beside
transformers.

Each function takes a configuration (a dict as in config.json), the tensors of
the file by name, the ids [n], how many of them are attended to, and which
hidden state is wanted. With a `product` that rounds it computes in bf16: every
matrix product reads numbers of 8 significant bits, all else stays exact.

Sources: transformers models/clip/modeling_clip.py, models/t5/modeling_t5.py.
"""

import math

import numpy as np

_erf = np.vectorize(math.erf, otypes=[np.float64])

ACTIVATIONS = {
    "quick_gelu": lambda x: x / (1.0 + np.exp(-1.702 * x)),
    "gelu": lambda x: 0.5 * x * (1.0 + _erf(x / math.sqrt(2.0))),
    "gelu_new": lambda x: 0.5 * x * (1.0 + np.tanh(
        math.sqrt(2.0 / math.pi) * (x + 0.044715 * x ** 3))),
    "relu": lambda x: np.maximum(x, 0.0),
    "silu": lambda x: x / (1.0 + np.exp(-x)),
}


def exact_product(a, b):
    return a @ b


def to_bf16(x):
    """Rounds to nearest even."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    bits = bits + np.uint32(0x7fff) + ((bits >> np.uint32(16)) & np.uint32(1))
    return (bits & np.uint32(0xffff0000)).view(np.float32).astype(np.float64)


def bf16_product(a, b):
    return to_bf16(a) @ to_bf16(b)


def layer_norm(x, weight, bias, eps):
    x = x - x.mean(-1, keepdims=True)
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * weight + bias


def rms_norm(x, weight, eps):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * weight


def attend(q, k, v, heads, scale, bias, product):
    """q, k, v [n, heads·d]; bias [heads or 1, n, n] with −inf where a key is
    hidden."""
    out = []
    for head, (qh, kh, vh) in enumerate(zip(*(np.split(x, heads, -1)
                                              for x in (q, k, v)))):
        logits = scale * product(qh, kh.T) + bias[head % len(bias)]
        weights = np.exp(logits - logits.max(-1, keepdims=True))
        out.append(product(weights / weights.sum(-1, keepdims=True), vh))
    return np.concatenate(out, -1)


def hidden_keys(rows, key_length, causal):
    """[1, rows, rows]: −inf on masked keys, else 0."""
    query, key = np.arange(rows)[:, None], np.arange(rows)[None]
    hidden = (key >= key_length) | (causal & (key > query))
    return np.where(hidden, -np.inf, 0.0)[None]


def clip_text(config, tensors, ids, key_length, skipped, final_norm,
              product=exact_product):
    """Returns the hidden state [n, D] and the pooled vector [P]."""
    eps, heads = config["layer_norm_eps"], config["num_attention_heads"]
    activation = ACTIVATIONS[config["hidden_act"]]
    prefix = "text_model." if "text_model.final_layer_norm.bias" in tensors \
        else ""

    def get(name):
        return tensors[prefix + name].astype(np.float64)

    def linear(name, x):
        return product(x, get(name + ".weight").T) + get(name + ".bias")

    def norm(name, x):
        return layer_norm(x, get(name + ".weight"), get(name + ".bias"), eps)

    ids = np.asarray(ids)
    x = (get("embeddings.token_embedding.weight")[ids]
         + get("embeddings.position_embedding.weight")[:len(ids)])
    mask = hidden_keys(len(ids), key_length, causal=True)
    states = [x]
    for i in range(config["num_hidden_layers"]):
        layer = f"encoder.layers.{i}."
        n = norm(layer + "layer_norm1", x)
        q, k, v = (linear(f"{layer}self_attn.{name}_proj", n)
                   for name in "qkv")
        scale = (x.shape[1] // heads) ** -0.5
        x = x + linear(layer + "self_attn.out_proj",
                       attend(q, k, v, heads, scale, mask, product))
        n = norm(layer + "layer_norm2", x)
        x = x + linear(layer + "mlp.fc2",
                       activation(linear(layer + "mlp.fc1", n)))
        states.append(x)
    eos = config["eos_token_id"]
    end = int(np.argmax(ids)) if eos == 2 else int(np.argmax(ids == eos))
    pooled = norm("final_layer_norm", x)[end]
    if "text_projection.weight" in tensors:
        projection = tensors["text_projection.weight"].astype(np.float64)
        pooled = product(pooled[None], projection.T)[0]
    hidden = states[-1 - skipped]
    return (norm("final_layer_norm", hidden) if final_norm else hidden), pooled


def relative_bucket(distance, buckets, furthest):
    """`distance` = key − query, an array of integers."""
    half = buckets // 2
    exact = half // 2
    n = np.abs(distance)
    # The logarithm in float32, like transformers: a boundary is a whole number.
    ratio = (np.maximum(n, 1).astype(np.float32) / np.float32(exact))
    far = np.log(ratio) / np.float32(math.log(furthest / exact))
    far = exact + (far * np.float32(half - exact)).astype(np.int64)
    return np.where(n < exact, n, np.minimum(far, half - 1)) + \
        np.where(distance > 0, half, 0)


def t5_encoder(config, tensors, ids, key_length, skipped, final_norm,
               product=exact_product):
    """Returns the hidden state [n, D] and no pooled vector."""
    eps, heads = config["layer_norm_epsilon"], config["num_heads"]
    gated = config["feed_forward_proj"].startswith("gated-")
    name = config["feed_forward_proj"].split("-")[-1]
    activation = ACTIVATIONS["gelu_new" if gated and name == "gelu" else name]

    def get(name):
        return tensors[name].astype(np.float64)

    def linear(name, x):
        return product(x, get(name + ".weight").T)

    ids = np.asarray(ids)
    table = "shared.weight" if "shared.weight" in tensors else \
        "encoder.embed_tokens.weight"
    x = get(table)[ids]
    attention = "encoder.block.{}.layer.0."
    distance = np.arange(len(ids))[None] - np.arange(len(ids))[:, None]
    bias = get(attention.format(0)
               + "SelfAttention.relative_attention_bias.weight")[
        relative_bucket(distance, config["relative_attention_num_buckets"],
                        config["relative_attention_max_distance"])]
    bias = bias.transpose(2, 0, 1) + hidden_keys(len(ids), key_length, False)
    for i in range(config["num_layers"] - skipped):
        first, second = attention.format(i), f"encoder.block.{i}.layer.1."
        n = rms_norm(x, get(first + "layer_norm.weight"), eps)
        q, k, v = (linear(f"{first}SelfAttention.{name}", n)
                   for name in "qkv")
        x = x + linear(first + "SelfAttention.o",
                       attend(q, k, v, heads, 1.0, bias, product))
        n = rms_norm(x, get(second + "layer_norm.weight"), eps)
        mlp = second + "DenseReluDense."
        inner = activation(linear(mlp + "wi_0", n)) * linear(mlp + "wi_1", n) \
            if gated else activation(linear(mlp + "wi", n))
        x = x + linear(mlp + "wo", inner)
    if final_norm:
        x = rms_norm(x, get("encoder.final_layer_norm.weight"), eps)
    return x, None


ENCODERS = {"CLIPTextModel": clip_text,
            "CLIPTextModelWithProjection": clip_text,
            "T5EncoderModel": t5_encoder}
