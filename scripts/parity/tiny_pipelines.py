"""Tiny pipelines of diffusers with random weights. A pipeline that Troupe has is
one row of PIPELINES."""

import pathlib
import shutil
import sys
import tempfile
from typing import Callable, NamedTuple

import torch
from diffusers import (AutoencoderKL, DDIMScheduler,
                       DPMSolverMultistepScheduler, EulerDiscreteScheduler,
                       PixArtSigmaPipeline, PixArtTransformer2DModel,
                       PNDMScheduler, StableDiffusionPipeline,
                       StableDiffusionXLImg2ImgPipeline,
                       StableDiffusionXLPipeline, UNet2DConditionModel)
from transformers import (CLIPTextConfig, CLIPTextModel,
                          CLIPTextModelWithProjection, CLIPTokenizer,
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
# Where PixArt's pipeline has resolution bins: sides of 32, 64, … in latents.
BINNED = [Sizes(500, 2, 4, 2, 3, 32, (8, 8, 16, 16)),
          Sizes(300, 2, 2, 2, 2, 64, (8, 8, 8, 8))]
SMALLEST_BINNED = SMALLEST._replace(sample_size=32, widths=(4, 4, 4, 4))


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
        norm_num_groups=4, latent_channels=4, scaling_factor=0.13025,
        sample_size=8 * sizes.scale).eval()  # tiles of 8 latents
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


def clip(vocabulary, sizes, end, of=CLIPTextModel, **more):
    options = {"hidden_size": 8 * sizes.text_heads,
               "num_attention_heads": sizes.text_heads,
               "hidden_act": "quick_gelu", **more}
    model = of(CLIPTextConfig(
        vocab_size=vocabulary, num_hidden_layers=sizes.text_layers,
        intermediate_size=37, max_position_embeddings=77,
        bos_token_id=end - 1, eos_token_id=end, pad_token_id=end,
        **options)).eval()
    shake(model)
    return model


def clip_tokenizer(folder, sizes):
    """Writes its files; returns it as transformers reads them."""
    tokenizers_of.clip_files(folder, texts.training_lines(), sizes.pieces)
    return CLIPTokenizer.from_pretrained(folder)


def unet(width, sizes, down, **more):
    """down: its blocks, from the picture inwards; the up blocks mirror them."""
    model = UNet2DConditionModel(
        sample_size=sizes.sample_size, in_channels=4, out_channels=4,
        down_block_types=down,
        up_block_types=[kind.replace("Down", "Up") for kind in down[::-1]],
        block_out_channels=[8 * sizes.heads] + [16 * sizes.heads] * (
            len(down) - 1),
        layers_per_block=sizes.layers - 1, norm_num_groups=4,
        cross_attention_dim=width, **more).eval()
    models.spread_weights(model, torch.Generator().manual_seed(1))
    return model


def save_stable_diffusion(folder, sizes, scheduler, pad, hidden_act, **network):
    """Writes the folder of a pipeline; its weights follow torch's seed. pad: the
    token that fills a text up, None: the one that ends it."""
    with tempfile.TemporaryDirectory() as scratch:
        tokenizer = clip_tokenizer(pathlib.Path(scratch) / "tokenizer", sizes)
        end = tokenizer.eos_token_id
        if pad:
            tokenizer.pad_token = pad
        encoder = clip(len(tokenizer), sizes, end, hidden_act=hidden_act)
        StableDiffusionPipeline(
            tokenizer=tokenizer, text_encoder=encoder, vae=decoder(sizes),
            unet=unet(encoder.config.hidden_size, sizes,
                      ["CrossAttnDownBlock2D"] * 2 + ["DownBlock2D"],
                      **network),
            scheduler=scheduler, safety_checker=None, feature_extractor=None,
            requires_safety_checker=False).save_pretrained(folder)


def stable_diffusion(folder, sizes):
    save_stable_diffusion(
        folder, sizes, PNDMScheduler(
            beta_start=0.00085, beta_end=0.012, beta_schedule="scaled_linear",
            skip_prk_steps=True, steps_offset=1),
        pad=None, hidden_act="quick_gelu", attention_head_dim=sizes.heads)


def stable_diffusion_2(folder, sizes):
    """As 2.1 of 768 pixels: the network predicts v, its heads are equally wide
    on all levels, and OpenCLIP reads the text."""
    heads = [sizes.heads] + [2 * sizes.heads] * 2
    save_stable_diffusion(
        folder, sizes, DDIMScheduler(
            beta_start=0.00085, beta_end=0.012, beta_schedule="scaled_linear",
            clip_sample=False, set_alpha_to_one=False, steps_offset=1,
            prediction_type="v_prediction"),
        pad="!", hidden_act="gelu", attention_head_dim=heads,
        use_linear_projection=True, upcast_attention=True)


def stable_diffusion_xl(folder, sizes):
    """Writes the folder of a pipeline; its weights follow torch's seed."""
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        tokenizer = clip_tokenizer(scratch / "tokenizer", sizes)
        other = clip_tokenizer(scratch / "tokenizer_2", sizes)
        other.pad_token = "!"  # as OpenCLIP pads
        end = tokenizer.eos_token_id
        encoder = clip(len(tokenizer), sizes, end)
        projecting = clip(
            len(tokenizer), sizes, end, CLIPTextModelWithProjection,
            hidden_size=24, num_attention_heads=3, hidden_act="gelu",
            projection_dim=20)
        StableDiffusionXLPipeline(
            tokenizer=tokenizer, text_encoder=encoder, tokenizer_2=other,
            text_encoder_2=projecting, vae=decoder(sizes),
            unet=unet(encoder.config.hidden_size + 24, sizes,
                      ["DownBlock2D"] + ["CrossAttnDownBlock2D"] * 2,
                      attention_head_dim=[1] + [sizes.heads] * 2,
                      transformer_layers_per_block=[1, 2, 1],
                      use_linear_projection=True,
                      addition_embed_type="text_time",
                      addition_time_embed_dim=8,
                      projection_class_embeddings_input_dim=20 + 6 * 8),
            scheduler=EulerDiscreteScheduler(
                beta_start=0.00085, beta_end=0.012,
                beta_schedule="scaled_linear", steps_offset=1,
                timestep_spacing="leading"),
            add_watermarker=False).save_pretrained(folder)


def stable_diffusion_xl_refiner(folder, sizes):
    """The same of the refiner: the second encoder alone, and a score in place of
    the picture's sides."""
    with tempfile.TemporaryDirectory() as scratch:
        tokenizer = clip_tokenizer(pathlib.Path(scratch) / "tokenizer_2", sizes)
        tokenizer.pad_token = "!"
        encoder = clip(
            len(tokenizer), sizes, tokenizer.eos_token_id,
            CLIPTextModelWithProjection, hidden_size=24, num_attention_heads=3,
            hidden_act="gelu", projection_dim=20)
        StableDiffusionXLImg2ImgPipeline(
            tokenizer=None, text_encoder=None, tokenizer_2=tokenizer,
            text_encoder_2=encoder, vae=decoder(sizes),
            unet=unet(24, sizes, ["DownBlock2D", "CrossAttnDownBlock2D"],
                      attention_head_dim=[1, sizes.heads],
                      use_linear_projection=True,
                      addition_embed_type="text_time",
                      addition_time_embed_dim=8,
                      projection_class_embeddings_input_dim=20 + 5 * 8),
            scheduler=EulerDiscreteScheduler(
                beta_start=0.00085, beta_end=0.012,
                beta_schedule="scaled_linear", steps_offset=1,
                timestep_spacing="leading"),
            requires_aesthetics_score=True, force_zeros_for_empty_prompt=False,
            add_watermarker=False).save_pretrained(folder)


class Pipeline(NamedTuple):
    """A pipeline of diffusers, as it is made and called."""
    golden: str  # its folder in tests/golden
    pipeline: type
    make: Callable  # (folder, sizes)
    # Of encode_prompt: the names of its results, and the arguments with which it
    # encodes as the whole call does.
    returns: tuple
    encoding: dict
    call: dict  # beside prompts, generators and the kind of output
    has_second_text: bool = False
    has_clip_skip: bool = False
    # Of the latents: not whole patches alone.
    has_any_sides: bool = False
    # A missing negative prompt is not an empty text.
    has_no_negative: bool = False
    sizes: list = SMALL
    smallest: Sizes = SMALLEST
    has_bins: bool = False  # and is asked for sizes beside them
    goes_on: bool = False  # with latents of another pipeline


PIPELINES = {
    "PixArt-Sigma": Pipeline(
        "pipeline_pixart", PixArtSigmaPipeline, pixart_sigma,
        ("prompt_embeds", "prompt_attention_mask", "negative_prompt_embeds",
         "negative_prompt_attention_mask"),
        {"clean_caption": True}, {"use_resolution_binning": False}),
    "Stable Diffusion 1.5": Pipeline(
        "pipeline_sd15", StableDiffusionPipeline, stable_diffusion,
        ("prompt_embeds", "negative_prompt_embeds"),
        {"device": "cpu", "num_images_per_prompt": 1}, {},
        has_clip_skip=True, has_any_sides=True),
    "Stable Diffusion 2.1": Pipeline(
        "pipeline_sd21", StableDiffusionPipeline, stable_diffusion_2,
        ("prompt_embeds", "negative_prompt_embeds"),
        {"device": "cpu", "num_images_per_prompt": 1}, {},
        has_clip_skip=True, has_any_sides=True),
    "Stable Diffusion XL": Pipeline(
        "pipeline_sdxl", StableDiffusionXLPipeline, stable_diffusion_xl,
        ("prompt_embeds", "negative_prompt_embeds", "pooled_prompt_embeds",
         "negative_pooled_prompt_embeds"),
        {"device": "cpu"}, {}, has_second_text=True, has_clip_skip=True,
        has_no_negative=True, has_any_sides=True),
    "Stable Diffusion XL's refiner": Pipeline(
        "pipeline_sdxl_refiner", StableDiffusionXLImg2ImgPipeline,
        stable_diffusion_xl_refiner, (), {}, {}, sizes=[], goes_on=True),
    "PixArt-Sigma in bins": Pipeline(
        "pipeline_pixart_bins", PixArtSigmaPipeline, pixart_sigma,
        ("prompt_embeds", "prompt_attention_mask", "negative_prompt_embeds",
         "negative_prompt_attention_mask"),
        {"clean_caption": True}, {}, sizes=BINNED, smallest=SMALLEST_BINNED,
        has_bins=True),
}


def load(row, folder):
    pipeline = row.pipeline.from_pretrained(folder, dtype=torch.float32)
    pipeline.set_progress_bar_config(disable=True)
    return pipeline
