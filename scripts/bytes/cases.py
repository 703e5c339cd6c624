"""The jobs of scripts/bytes.sh: a name and the words of `troupe sample` for each."""
import itertools
import json
import subprocess
import typing


class Case(typing.NamedTuple):
    name: str
    words: list
    isa: str = ""  # what oneDNN is held to
    is_gpu: bool = False  # by the program with emulated GPUs


# Two guided samples.
ALWAYS = ["--samples", "2", "--seed", "3", "--guidance", "1.5", "--workers", "2",
          "--threads", "1"]
CLASSES = ["--class", "1,2"]

MODELS = {
    "demo": ["--model", "models/demo"],
    "tiny": ["--random-weights", "dit-tiny"],
}

SOLVERS = {
    "ddim": [],
    "ddim-eta": ["--sampler", "ddim", "--eta", "1"],
    "ddim-trailing": ["--sampler", "ddim", "--timestep-spacing", "trailing"],
    "ddim-v": ["--sampler", "ddim", "--prediction-type", "v_prediction"],
    "ddpm": ["--sampler", "ddpm"],
    "pndm": ["--sampler", "pndm"],
    "plms": ["--sampler", "plms"],
    "plms-v": ["--sampler", "plms", "--prediction-type", "v_prediction"],
    "ddpm-large": ["--sampler", "ddpm", "--variance-type", "fixed_large"],
    "dpmpp-1": ["--sampler", "dpm++2m", "--order", "1"],
    "dpmpp-2m": ["--sampler", "dpm++2m"],
    "dpmpp-3m": ["--sampler", "dpm++2m", "--order", "3"],
    "dpmpp-2m-karras": ["--sampler", "dpm++2m", "--karras"],
    "dpmpp-2m-heun": ["--sampler", "dpm++2m-heun"],
    "dpmpp-2m-sde": ["--sampler", "dpm++2m-sde"],
    "dpmpp-2m-sde-heun": ["--sampler", "dpm++2m-sde-heun"],
    "euler": ["--sampler", "euler"],
    "euler-exponential": ["--sampler", "euler", "--sigma-spacing", "exponential"],
    "euler-beta": ["--sampler", "euler", "--sigma-spacing", "beta"],
    "euler-a": ["--sampler", "euler_a"],
    "heun": ["--sampler", "heun"],
    "unipc": ["--sampler", "unipc"],
    "unipc-3": ["--sampler", "unipc", "--order", "3"],
    "unipc-bh1": ["--sampler", "unipc-bh1"],
    "flow": ["--sampler", "flow", "--prediction-type", "flow_prediction"],
    "flow-shifted": ["--sampler", "flow", "--prediction-type", "flow_prediction",
                     "--shift", "3"],
    "torch-noise": ["--sampler", "euler_a", "--noise", "torch"],
}

METHODS = {
    "sequential": ["--method", "sequential"],
    "batch": ["--method", "batch", "--batch", "2"],
    "cfg": ["--method", "cfg"],
    "pipeline": ["--method", "pipeline", "--segments", "2"],
    "picard": ["--method", "picard"],
    "picard-exact": ["--method", "picard", "--tolerance", "0", "--window", "3"],
    "picard-first-failing": ["--method", "picard", "--accept", "first_failing",
                             "--tolerance", "0.05", "--window", "4"],
    "picard-coefficient": ["--method", "picard", "--carry", "coefficient",
                           "--tolerance", "0.02"],
    "stale": ["--method", "stale", "--segments", "2"],
    "stale-age-2": ["--method", "stale", "--segments", "2", "--ages", "2",
                    "--warmup", "2", "--final-fresh", "1"],
    "asyncdiff": ["--preset", "asyncdiff"],
    "asyncdiff2": ["--preset", "asyncdiff2"],
}

# Not bf16 under AVX2: oneDNN has no such products there.
PLACES = {"f32": ("f32", ""), "bf16": ("bf16", ""), "f32-avx2": ("f32", "AVX2")}

PROMPTS = ["--prompt", "a red fox (in the snow:1.3)", "--prompt", "two owls",
           "--negative", "blurred"]
# Has odd sides on some level of a UNet.
ODD_SIZE = "72x104"
# Of a network that takes squares alone, or no other size than its own.
OTHER_SIZES = {"DiTTransformer2DModel": "40x40", "UViT": ""}

CUTS = {
    "batch": METHODS["batch"],
    "cfg": METHODS["cfg"],
    "chain": METHODS["pipeline"],
    "chain-3": ["--method", "pipeline", "--segments", "3"],
    "stale": METHODS["stale"],
    "picard": METHODS["picard-exact"],
    "tiles": ["--vae-tiling"],
    # Refused where the network has no skips.
    "onion": ["--method", "pipeline", "--cut", "onion"],
    "stale-onion": ["--method", "stale", "--cut", "onion"],
}


def solver_cases():
    for (model, where), (solver, how), (method, layout), (place, (dtype, isa)) in (
            itertools.product(MODELS.items(), SOLVERS.items(), METHODS.items(),
                              PLACES.items())):
        yield Case("/".join((model, solver, method, place)),
                   [*where, *CLASSES, *how, *layout, *ALWAYS, "--dtype", dtype,
                    "--steps", "6"], isa)


def tiny_models(probe):
    """The bundled models for tests that have an autoencoder: one or more of each
    kind of network. Yields names and what the forward_probe says of them."""
    def said(*words):
        return subprocess.run([probe, *words], check=True, stdout=subprocess.PIPE,
                              text=True).stdout
    for name in said("models").split():
        model = json.loads(said("config", name))
        if "tiny" in name and model["vae"]:
            yield name, model


def network_cases(probe):
    for network, model in tiny_models(probe):
        odd = OTHER_SIZES.get(model["denoiser"]["_class_name"], ODD_SIZE)
        shown = PROMPTS if model["pipeline"] else CLASSES
        for (cut, layout), size, (place, (dtype, isa)), is_gpu in (
                itertools.product(CUTS.items(), dict.fromkeys(("", odd)), PLACES.items(),
                                  (False, True))):
            if is_gpu and isa:
                continue
            where_to = ["--device", "cuda"] if is_gpu else []
            yield Case("/".join((network, size or "own-size", cut,
                                 ("gpu-" if is_gpu else "") + place)),
                       ["--random-weights", network, *shown, *layout,
                        *(["--size", size] if size else []),
                        *ALWAYS, "--dtype", dtype, "--steps", "3", *where_to],
                       isa, is_gpu)


def cases(probe):
    """All of them. Every Nth has something of each part if N is a larger prime.
    probe: the forward_probe that knows the bundled models."""
    return [*solver_cases(), *network_cases(probe)]
