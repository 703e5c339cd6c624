"""The jobs of scripts/bytes.sh: a name and the words of `troupe sample` for each."""
import itertools
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

# Every kind of network, with its autoencoder. The second size has odd sides on
# some level of the network; a DiT has square pictures only, a U-ViT those of its
# own size.
PROMPTS = ["--prompt", "a red fox (in the snow:1.3)", "--prompt", "two owls",
           "--negative", "blurred"]
NETWORKS = {
    "vae": (["--random-weights", "dit-tiny-vae", *CLASSES], "40x40"),
    "sd15": (["--random-weights", "tiny-sd15", *PROMPTS], "72x104"),
    "sdxl": (["--random-weights", "tiny-sdxl", *PROMPTS], "72x104"),
    "pixart": (["--random-weights", "tiny-pixart-sigma", *PROMPTS], "72x104"),
    "uvit": (["--random-weights", "tiny-uvit", *CLASSES], ""),
}
SKIPPING = ("sd15", "sdxl", "uvit")

CUTS = {
    "batch": METHODS["batch"],
    "cfg": METHODS["cfg"],
    "chain": METHODS["pipeline"],
    "chain-3": ["--method", "pipeline", "--segments", "3"],
    "stale": METHODS["stale"],
    "picard": METHODS["picard-exact"],
    "tiles": ["--vae-tiling"],
}
ONIONS = {
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


def network_cases():
    for network, (where, odd) in NETWORKS.items():
        cuts = {**CUTS, **(ONIONS if network in SKIPPING else {})}
        for (cut, layout), size, (place, (dtype, isa)), is_gpu in (
                itertools.product(cuts.items(), dict.fromkeys(("", odd)), PLACES.items(),
                                  (False, True))):
            if is_gpu and isa:
                continue
            where_to = ["--device", "cuda"] if is_gpu else []
            yield Case("/".join((network, size or "own-size", cut,
                                 ("gpu-" if is_gpu else "") + place)),
                       [*where, *layout, *(["--size", size] if size else []),
                        *ALWAYS, "--dtype", dtype, "--steps", "3", *where_to],
                       isa, is_gpu)


def cases():
    """All of them. Every Nth has something of each part if N is a larger prime."""
    return [*solver_cases(), *network_cases()]
