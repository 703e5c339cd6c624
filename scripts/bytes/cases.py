"""The jobs of scripts/bytes.sh: a name and the words of `troupe sample` for each."""
import itertools
import typing


class Case(typing.NamedTuple):
    name: str
    words: list
    isa: str = ""  # what oneDNN is held to


# Two guided samples of unlike classes.
ALWAYS = ["--samples", "2", "--class", "1,2", "--seed", "3", "--guidance", "1.5",
          "--workers", "2", "--threads", "1"]

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


def cases():
    """All of them. Every Nth has something of each part if N is a larger prime."""
    made = []
    for (model, where), (solver, how), (method, layout), (place, (dtype, isa)) in (
            itertools.product(MODELS.items(), SOLVERS.items(), METHODS.items(),
                              PLACES.items())):
        made.append(Case("/".join((model, solver, method, place)),
                         [*where, *how, *layout, *ALWAYS, "--dtype", dtype,
                          "--steps", "6"], isa))
    return made
