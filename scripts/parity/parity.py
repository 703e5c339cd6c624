"""Entry point of scripts/parity.sh: draws cases, prints one table."""

import argparse
import random
import secrets
import sys

import torch_compat  # noqa: F401  (before diffusers)

import diffusers

import bundled
import conversion
import models
import probes
import runs
import text_encoders
import unets
from report import Report


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=secrets.randbits(31))
    parser.add_argument("--model", help="a diffusers folder with real weights")
    parser.add_argument("--cases", type=int, default=12,
                        help="random models per kind (default 12)")
    args = parser.parse_args()

    diffusers.utils.logging.set_verbosity_error()
    print(f"parity: --seed {args.seed}", flush=True)
    rng = random.Random(args.seed)
    report = Report()
    if args.model:
        runs.check_checkpoint(report, args.model, rng)
    else:
        bundled.check_bundled(report, rng)
        models.check_dit(report, rng, args.cases)
        models.check_pixart(report, rng, args.cases)
        unets.check_unets(report, rng, args.cases)
        models.check_vae(report, rng, args.cases)
        text_encoders.check_text_encoders(report, rng, args.cases)
        conversion.check_conversion(report, rng, max(2, args.cases // 4))
        runs.check_runs(report, rng, max(2, args.cases // 4))
    report.print_table()
    if not probes.has_bf16():
        print("bf16 was not compared: this CPU has no AVX-512")
    return 0 if report.ok() else 1


if __name__ == "__main__":
    sys.exit(main())
