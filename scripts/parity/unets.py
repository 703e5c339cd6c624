"""One forward pass of UNet2DConditionModel against diffusers."""

import tempfile

import torch
from diffusers import UNet2DConditionModel

import models
from report import DRAWS


def level_types(attention):
    """Types of the blocks of each level; True: with attention."""
    return {"down_block_types": ["CrossAttnDownBlock2D" if a else "DownBlock2D"
                                 for a in attention],
            "up_block_types": ["CrossAttnUpBlock2D" if a else "UpBlock2D"
                               for a in reversed(attention)]}


def random_config(rng):
    """Any UNet of the kinds of Stable Diffusion 1.5, 2.1 and XL."""
    levels = rng.randint(1, 3)
    groups = rng.choice([2, 4, 8])
    heads = [rng.choice([1, 2, 4]) for _ in range(levels)]
    arguments = {}
    if rng.random() < 0.5:  # of sizes, as XL is
        size = rng.choice([4, 8, 12])
        arguments = {"addition_embed_type": "text_time",
                     "addition_time_embed_dim": size,
                     "projection_class_embeddings_input_dim":
                         6 * size + rng.randint(1, 40)}
    return dict(
        **level_types([rng.random() < 0.7 for _ in range(levels)]),
        block_out_channels=[4 * h * groups * rng.randint(1, 3) for h in heads],
        sample_size=rng.randint(1, 4 * 2 ** (levels - 1)),
        layers_per_block=rng.randint(1, 3), norm_num_groups=groups,
        attention_head_dim=heads,
        transformer_layers_per_block=[rng.randint(1, 3) for _ in range(levels)],
        cross_attention_dim=rng.choice([1, 17, 32, 64, 100]),
        use_linear_projection=rng.random() < 0.5,
        act_fn=rng.choice(["silu", "gelu", "mish"]),
        in_channels=rng.choice([1, 4, 5]), out_channels=rng.choice([1, 4, 6]),
        **arguments)


def random_sides(config, rng):
    """Any that leave GROUP_VALUES in every group of every norm; half of the
    time each is even on every level but the last."""
    widths = config["block_out_channels"]
    multiple = 2 ** (len(widths) - 1)

    def fills_groups(height, width):
        # Sides are rounded up where they are halved.
        return all(-(-height // 2 ** level) * -(-width // 2 ** level)
                   * (channels // config["norm_num_groups"])
                   >= models.GROUP_VALUES
                   for level, channels in enumerate(widths))
    step = rng.choice([1, multiple])
    sides = range(step, 5 * multiple + 1, step)
    return rng.choice([(h, w) for h in sides for w in sides
                       if fills_groups(h, w)])


def random_inputs(config, rng, generator):
    batch, tokens = rng.randint(1, 3), rng.choice([1, 2, 7, 40, 77, 154])

    def normal(*shape):
        return torch.randn(*shape, generator=generator)

    inputs = {
        "latents": normal(batch, config["in_channels"],
                          *random_sides(config, rng)),
        "timesteps": torch.tensor([float(rng.randint(0, 999))
                                   for _ in range(batch)]),
        "prompt_embeds": normal(batch, tokens, config["cross_attention_dim"]),
        "lengths": torch.tensor([tokens] * batch),
    }
    if "addition_embed_type" in config:
        inputs["pooled"] = normal(
            batch, config["projection_class_embeddings_input_dim"]
            - 6 * config["addition_time_embed_dim"])
        inputs["size_ids"] = torch.tensor(
            [[float(rng.randint(0, 1024)) for _ in range(6)]
             for _ in range(batch)])
    return inputs


def forward(model, inputs):
    arguments = {theirs: inputs[ours].to(model.dtype)
                 for theirs, ours in (("text_embeds", "pooled"),
                                      ("time_ids", "size_ids")) if ours in inputs}
    return model(inputs["latents"].to(model.dtype), inputs["timesteps"],
                 inputs["prompt_embeds"].to(model.dtype),
                 added_cond_kwargs=arguments).sample.float()


UNET = models.Kind("UNet", "unet", UNet2DConditionModel, random_config,
                   random_inputs, forward)


def check_unets(report, rng, count):
    """Of each drawn network the middle of some draws of its weights counts."""
    for _ in range(count):
        config = random_config(rng)
        with report.middle_of_draws() as draws:
            for _ in range(DRAWS):
                torch.manual_seed(rng.getrandbits(31))
                generator = torch.Generator().manual_seed(rng.getrandbits(31))
                model = UNet2DConditionModel(**config).eval()
                models.spread_weights(model, generator)
                inputs = random_inputs(config, rng, generator)
                with tempfile.TemporaryDirectory() as folder:
                    model.save_pretrained(folder)
                    models.compare_denoiser(draws, UNET, model, inputs, folder,
                                            str(config))
