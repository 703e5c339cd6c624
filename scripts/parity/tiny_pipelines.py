"""Tiny pipelines of diffusers with random weights. A pipeline that Troupe has is
one row of PIPELINES."""

import pathlib
import shutil
import sys
import tempfile
from typing import Callable, NamedTuple

import torch
from diffusers import (AutoencoderKL, DPMSolverMultistepScheduler,
                       PixArtSigmaPipeline, PixArtTransformer2DModel,
                       PNDMScheduler, StableDiffusionPipeline,
                       UNet2DConditionModel)
from transformers import (CLIPTextConfig, CLIPTextModel, CLIPTokenizer,
                          T5Config, T5EncoderModel, T5Tokenizer)

import models
import texts
import tokenizers_of

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from make_text_encoder_golden import shake  # noqa: E402


class Sizes(NamedTuple):
    """How large the parts of a pipeline are."""
    pieces: int  # of the tokenizer
    text_layers: int
    text_heads: int
    layers: int
    heads: int
    sample_size: int
    widths: tuple  # of the decoder's levels, from the picture inwards
    # The character map of SentencePiece is 300 kB of JSON: T5's, or none.
    normalization: str = "nmt_nfkc"
    # Saved as PixArt's repository has it, spiece.model alone, or as diffusers
    # saves what it has loaded: tokenizer.json.
    spiece_alone: bool = False

    @property
    def scale(self):
        """Pixels of a picture to one of the latents."""
        return 2 ** (len(self.widths) - 1)


# Two and four levels: diffusers takes pictures of 8 pixels and a multiple.
SMALL = [Sizes(500, 3, 4, 3, 4, 16, (16, 16)),
         Sizes(700, 2, 6, 2, 3, 6, (8, 8, 16, 16), spiece_alone=True)]
SMALLEST = Sizes(200, 2, 2, 2, 2, 8, (8, 8), normalization="identity")


def t5(vocabulary, sizes):
    model = T5EncoderModel(T5Config(
        vocab_size=vocabulary, num_layers=sizes.text_layers,
        num_heads=sizes.text_heads, d_kv=8, d_model=12 * sizes.text_heads,
        d_ff=29, feed_forward_proj="gated-gelu")).eval()
    shake(model)
    return model


def decoder(sizes):
    levels = len(sizes.widths)
    model = AutoencoderKL(
        down_block_types=["DownEncoderBlock2D"] * levels,
        up_block_types=["UpDecoderBlock2D"] * levels,
        block_out_channels=sizes.widths, layers_per_block=1,
        norm_num_groups=4, latent_channels=4, scaling_factor=0.13025).eval()
    models.spread_weights(model, torch.Generator().manual_seed(1))
    return model


def t5_tokenizer(folder, sizes):
    """Writes its files; returns it as transformers reads them."""
    tokenizers_of.t5_files(
        folder, texts.training_lines(), sizes.pieces,
        {"normalization_rule_name": sizes.normalization})
    return T5Tokenizer.from_pretrained(folder)


def pixart_sigma(folder, sizes):
    """Writes the folder of a pipeline; its weights follow torch's seed."""
    with tempfile.TemporaryDirectory() as scratch:
        words = pathlib.Path(scratch) / "tokenizer"
        tokenizer = t5_tokenizer(words, sizes)
        encoder = t5(len(tokenizer), sizes)
        network = PixArtTransformer2DModel(
            num_attention_heads=sizes.heads, attention_head_dim=8,
            cross_attention_dim=8 * sizes.heads, num_layers=sizes.layers,
            sample_size=sizes.sample_size, in_channels=4, out_channels=8,
            caption_channels=encoder.config.d_model,
            use_additional_conditions=False).eval()
        models.spread_weights(network, torch.Generator().manual_seed(1))
        PixArtSigmaPipeline(
            tokenizer=tokenizer, text_encoder=encoder, vae=decoder(sizes),
            transformer=network, scheduler=DPMSolverMultistepScheduler(),
        ).save_pretrained(folder)
        if sizes.spiece_alone:
            shutil.rmtree(folder / "tokenizer")
            shutil.copytree(words, folder / "tokenizer")


def clip(vocabulary, sizes, end):
    model = CLIPTextModel(CLIPTextConfig(
        vocab_size=vocabulary, num_hidden_layers=sizes.text_layers,
        num_attention_heads=sizes.text_heads, hidden_size=8 * sizes.text_heads,
        intermediate_size=37, max_position_embeddings=77,
        hidden_act="quick_gelu", bos_token_id=end - 1, eos_token_id=end,
        pad_token_id=end)).eval()
    shake(model)
    return model


def clip_tokenizer(folder, sizes):
    """Writes its files; returns it as transformers reads them."""
    tokenizers_of.clip_files(folder, texts.training_lines(), sizes.pieces)
    return CLIPTokenizer.from_pretrained(folder)


def unet(width, sizes):
    """As many levels with attention as the sides can be halved, and one more."""
    attentive = 2 if sizes.sample_size % 4 == 0 else 1
    model = UNet2DConditionModel(
        sample_size=sizes.sample_size, in_channels=4, out_channels=4,
        down_block_types=["CrossAttnDownBlock2D"] * attentive + ["DownBlock2D"],
        up_block_types=["UpBlock2D"] + ["CrossAttnUpBlock2D"] * attentive,
        block_out_channels=[8 * sizes.heads] + [16 * sizes.heads] * attentive,
        layers_per_block=sizes.layers - 1, norm_num_groups=4,
        attention_head_dim=sizes.heads, cross_attention_dim=width).eval()
    models.spread_weights(model, torch.Generator().manual_seed(1))
    return model


def stable_diffusion(folder, sizes):
    """Writes the folder of a pipeline; its weights follow torch's seed."""
    with tempfile.TemporaryDirectory() as scratch:
        tokenizer = clip_tokenizer(pathlib.Path(scratch) / "tokenizer", sizes)
        encoder = clip(len(tokenizer), sizes, tokenizer.eos_token_id)
        StableDiffusionPipeline(
            tokenizer=tokenizer, text_encoder=encoder, vae=decoder(sizes),
            unet=unet(encoder.config.hidden_size, sizes),
            scheduler=PNDMScheduler(
                beta_start=0.00085, beta_end=0.012,
                beta_schedule="scaled_linear", skip_prk_steps=True,
                steps_offset=1),
            safety_checker=None, feature_extractor=None,
            requires_safety_checker=False).save_pretrained(folder)


class Pipeline(NamedTuple):
    """A pipeline of diffusers, as it is made and called."""
    golden: str  # its folder in tests/golden
    pipeline: type
    make: Callable  # (folder, sizes)
    # Of encode_prompt: the names of what it returns, and what it is told so
    # that it does what the call does.
    returns: tuple
    encoding: dict
    call: dict  # beside prompts, generators and the kind of output


PIPELINES = {
    "PixArt-Sigma": Pipeline(
        "pipeline_pixart", PixArtSigmaPipeline, pixart_sigma,
        ("prompt_embeds", "prompt_attention_mask", "negative_prompt_embeds",
         "negative_prompt_attention_mask"),
        {"clean_caption": True}, {"use_resolution_binning": False}),
    "Stable Diffusion 1.5": Pipeline(
        "pipeline_sd15", StableDiffusionPipeline, stable_diffusion,
        ("prompt_embeds", "negative_prompt_embeds"),
        {"device": "cpu", "num_images_per_prompt": 1}, {}),
}


def load(row, folder):
    pipeline = row.pipeline.from_pretrained(folder, dtype=torch.float32)
    pipeline.set_progress_bar_config(disable=True)
    return pipeline
