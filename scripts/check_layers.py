#!/usr/bin/env python3
"""Enforces who may include whom (README, "The house").

Walks every C++ file, classifies each #include, and prints one line per breach.
Exit code 1 when there is any. Run by CTest; `--self-test` proves that it can
fail.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ("kernels", "models", "samplers", "net", "config", "actors")
INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^>"]+)[>"]', re.M)
SHARDS = re.compile(r"\bShardContext\b|shard_context\.h")
BUILD_OPTION = re.compile(r"^\s*#\s*if(?:def|ndef)?\b.*\bTROUPE_", re.M)

# Element-wise and reduction kernels, which samplers may call.
ELEMENTWISE = ("kernels/elementwise.h", "kernels/reduction.h",
               "kernels/copy.h")

# folder -> prefixes of our own headers it may include beside itself
ALLOWED = {
    "kernels/core": (),
    "kernels": ("kernels/",),
    "models": ("kernels/",),
    "samplers": ("kernels/core/",) + ELEMENTWISE,
    "net": ("kernels/core/",),
    "config": ("kernels/core/", "samplers/guidance.h", "samplers/options.h",
               "samplers/option_fields.h", "models/options.h",
               "net/options.h", "actors/options.h"),
    "actors": ("kernels/", "models/", "samplers/", "net/", "config/"),
}

# third-party prefix -> places (path prefixes) that may name it
THIRD_PARTY = {
    "oneapi/": ("kernels/cpu/",),
    "hwy/": ("kernels/cpu/",),
    "cuda": ("kernels/cuda/", "net/nccl"),
    "cudnn": ("kernels/cuda/",),
    "cublas": ("kernels/cuda/",),
    "nccl": ("net/nccl",),
    "zmq": ("net/zmq",),
    "sodium": ("net/sodium",),
    "Random123/": ("kernels/core/",),
    "xxhash.h": ("kernels/core/",),
    "utf8proc.h": ("models/text/",),
    "spdlog/": ("kernels/core/",),
    "omp.h": ("kernels/core/",),
    "caf/": ("actors/",),
    "png.h": ("actors/artefacts/",),
    "zlib.h": ("actors/artefacts/",),
    "CLI/": ("actors/cli/",),
    "toml++/": ("config/",),
    "boost/": ("samplers/beta_sigmas.cpp",),
    "fmt/": ("actors/",),
    "google/protobuf/": (),  # of tests
    "prometheus/": ("actors/cli/job_metrics.cpp",),
    # Three places: checkpoint files, scheduler files and recipes, summaries.
    "nlohmann/": ("models/", "config/", "actors/"),
}
# May stand in several .cpp files, never in a header.
NOT_IN_HEADERS = ("oneapi/", "hwy/", "cuda", "cudnn", "cublas", "nccl", "zmq",
                  "sodium", "Random123/", "xxhash.h", "utf8proc.h",
                  "spdlog/", "omp.h", "png.h", "CLI/", "toml++/", "boost/",
                  "nlohmann/")


def layer_of(path):
    if path.startswith("kernels/core/"):
        return "kernels/core"
    return path.split("/", 1)[0]


def is_private_header(path):
    """Headers that only .cpp files beside them include."""
    return path.startswith(("kernels/cpu/", "kernels/cuda/", "net/zmq_"))


def breaches_of(path, text):
    layer = layer_of(path)
    is_header = path.endswith(".h") and not is_private_header(path)
    for kind, name in INCLUDE.findall(text):
        if name.startswith(tuple(f + "/" for f in FOLDERS)):
            own = layer + "/"
            if not name.startswith((own,) + ALLOWED[layer]):
                yield f"{path}: {layer} may not include {name}"
            if name.startswith("kernels/cpu/") and not path.startswith("kernels/"):
                yield f"{path}: {name} is private to kernels"
            for library in ("net/zmq", "net/nccl"):
                if name.startswith(library + "_") and \
                        not path.startswith(library):
                    yield f"{path}: {name} is private to {library}*"
            continue
        for prefix, places in THIRD_PARTY.items():
            if name.startswith(prefix) and not path.startswith(places):
                yield (f"{path}: {name} may stand only in "
                       f"{', '.join(places) or 'tests'}")
        if is_header and layer != "actors" and name.startswith(NOT_IN_HEADERS):
            yield f"{path}: a public header names {name}"
        if kind == '"' and "/" not in name:
            yield f'{path}: "{name}" is not relative to the root'
    if SHARDS.search(text) and path.startswith("models/") and \
            not path.startswith("models/network/"):
        yield (f"{path}: only models/network knows of shards "
               "(a stage exchanges through Pass::attend)")
    if is_header and BUILD_OPTION.search(text):
        yield f"{path}: a public header has a build-option #if"


def self_test():
    cases = [
        ("models/a.cpp", '#include "samplers/solver.h"\n'),
        ("kernels/core/a.cpp", '#include "kernels/linear.h"\n'),
        ("samplers/a.cpp", '#include "kernels/linear.h"\n'),
        ("models/a.cpp", '#include <oneapi/dnnl/dnnl.hpp>\n'),
        ("models/a.h", "#include <nlohmann/json.hpp>\n"),
        ("models/a.cpp", "#include <utf8proc.h>\n"),
        ("models/text/a.h", "#include <utf8proc.h>\n"),
        ("samplers/a.cpp", "#include <nlohmann/json.hpp>\n"),
        ("samplers/a.cpp", "#include <boost/math/special_functions/beta.hpp>\n"),
        ("kernels/core/a.cpp", "#include <fmt/format.h>\n"),
        ("net/a.h", "#ifdef TROUPE_WITH_CUDA\n#endif\n"),
        ("net/a.cpp", '#include "a.h"\n'),
        ("models/dit/dit.cpp", "void run(ShardContext& shard);\n"),
        ("net/keys.cpp", "#include <zmq.h>\n"),
        ("net/keys.cpp", "#include <sodium.h>\n"),
        ("net/curve_keys.h", "#include <zmq.h>\n"),
        ("actors/a.cpp", "#include <google/protobuf/message.h>\n"),
        ("net/link.cpp", '#include "net/zmq_socket.h"\n'),
        ("net/link.h", "#include <zmq.h>\n"),
        ("net/link.cpp", '#include "net/nccl_library.cuh"\n'),
        ("net/nccl.h", "#include <nccl.h>\n"),
        ("kernels/cuda/a.cpp", "#include <nccl.h>\n"),
    ]
    missed = [case for case in cases if not list(breaches_of(*case))]
    fine = list(breaches_of("actors/a.cpp", '#include "models/dit/dit.h"\n'
                            "#include <fmt/format.h>\n"
                            "#include <nlohmann/json.hpp>\n"))
    for case in missed:
        print("not caught:", case)
    return 1 if missed or fine else 0


def main():
    if "--self-test" in sys.argv:
        return self_test()
    found = []
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".h", ".cpp", ".cu", ".cuh"):
                relative = path.relative_to(ROOT).as_posix()
                found += breaches_of(relative, path.read_text())
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
