#!/usr/bin/env python3
"""Random scheduler configurations, full loops: diffusers against Troupe.

    compare_schedules.py PROBE [--cases N] [--seed S] [--solver CLASS] [-v]

PROBE is the schedule_probe executable. Prints the worst error of each class
and exits 1 when one is above the bound. Errors are the largest difference of
a trajectory divided by the largest magnitude in it (at least 1). "float": ours
against diffusers as it is, in float32; "exact": ours against diffusers with all
arithmetic in double over the same float32 tables; "theirs": diffusers' float32
against the same. A case fails when ours is off the exact run by more than the
bound and by more than five times what diffusers' own float32 run is off. Cases
where diffusers itself is off by more than 1e-4 are counted as "rough" and left
out of the maxima: their configuration magnifies every rounding.
"""
import argparse
import collections
import json
import math
import random
import subprocess
import sys

import numpy as np

import schedule_reference as reference


def worst(a, b):
    if len(a) != len(b):
        return math.inf
    top = max([abs(v) for v in b] + [1e-30])
    error = max(abs(x - y) for x, y in zip(a, b))
    return error / max(top, 1.0) if math.isfinite(top) and math.isfinite(error) else math.inf


def trajectory_error(ours, theirs):
    if len(ours) != len(theirs):
        return math.inf
    top = max(max(abs(v) for v in point) for point in theirs)
    return max(max(abs(x - y) for x, y in zip(a, b)) for a, b in zip(ours, theirs)) / max(top, 1.0)


def cut_off_differs(case, ours, theirs):
    """Respaced sigmas are turned back into timesteps through numpy's float32
    logarithm, whose last bit depends on CPU and version. The multistep classes
    then cut off the fraction, so the first call may come one step earlier
    there. At zero terminal SNR the last bits of torch.linspace count, too:
    1 - ᾱ of the first betas magnifies them."""
    config = case["config"]
    spaced = any(config.get(key) for key in ("use_exponential_sigmas", "use_beta_sigmas", "use_lu_lambdas",
                                             "use_karras_sigmas"))
    zero_snr = config.get("rescale_betas_zero_snr", False)
    multistep = config["_class_name"] in reference.MULTISTEP
    if not spaced or not (zero_snr or multistep) or len(ours) != len(theirs):
        return False
    apart = [a - b for a, b in zip(ours, theirs)]
    rest = apart[1:] if multistep and apart[0] == 1.0 else apart
    return max(map(abs, rest), default=0.0) <= (0 if not zero_snr else 1.0 if multistep else 0.1)


def one_step_too_many(case):
    """Trailing spacing is an arange over floats: 1100 / 15 gives 16 steps."""
    steps = case["num_inference_steps"]
    top = case["config"].get("num_train_timesteps", 1000)
    return (case["config"].get("timestep_spacing") == "trailing"
            and len(np.arange(top, 0, -top / steps)) != steps)


def finite(result):
    return all(math.isfinite(v) for point in result["trajectory"] for v in point)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("probe")
    parser.add_argument("--cases", type=int, default=400)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 30))
    parser.add_argument("--solver")
    parser.add_argument("--bound", type=float, default=3e-6, help="for trajectories")
    parser.add_argument("-v", "--verbose", action="store_true")
    args = parser.parse_args()
    rng = random.Random(args.seed)
    print(f"seed {args.seed}")
    process = subprocess.Popen([args.probe], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    errors = collections.defaultdict(lambda: [0, 0.0, 0.0, 0.0, 0.0, 0.0, 0, 0])
    failed = False
    for _ in range(args.cases):
        case = reference.random_case(rng, args.solver)
        name = case["config"]["_class_name"]
        try:
            exact = reference.run(case, double=True)
            single = reference.run(case)
            valid = finite(single) and finite(exact)
            reason = "not finite"
            if one_step_too_many(case):
                valid, reason = False, "numpy.arange made one step too many"
        except Exception as error:  # diffusers refuses or stumbles over it
            valid, reason = False, repr(error)
        process.stdin.write(json.dumps(case) + "\n")
        process.stdin.flush()
        answer = process.stdout.readline()
        if not answer:
            raise SystemExit(f"compare_schedules: {args.probe} ended with exit code "
                             f"{process.wait()} at {json.dumps(case)}")
        ours = json.loads(answer)
        entry = errors[name]
        if not valid or "error" in ours:
            entry[6] += 1
            if valid or args.verbose:
                print("REFUSED" if valid else "skipped", json.dumps(case), reason, ours.get("error"))
            failed = failed or (valid and "share the noise level" not in ours["error"]["message"]
                                and "no signal" not in ours["error"]["message"])
            continue
        found = [worst(ours["timesteps"], exact["timesteps"]),
                 worst(ours["sigmas"], exact["sigmas"]) if "sigmas" in exact else 0.0,
                 trajectory_error(ours["trajectory"], exact["trajectory"]),
                 trajectory_error(ours["trajectory"], single["trajectory"]),
                 trajectory_error(single["trajectory"], exact["trajectory"])]
        entry[0] += 1
        off_table = found[0] > 1e-5 or found[1] > 1e-6
        if off_table and found[1] < 0.01 and cut_off_differs(case, ours["timesteps"], exact["timesteps"]):
            continue
        rough = found[4] > 1e-4
        entry[7] += rough
        for i, value in enumerate(found):
            if i < 2 or not rough:
                entry[i + 1] = max(entry[i + 1], value)
        if off_table or found[2] > max(args.bound, 5.0 * found[4]):
            failed = True
            print("DIFFERS", json.dumps(case), ["%.2e" % v for v in found])
    print(f"{'class':36} {'cases':>5} {'timesteps':>10} {'sigmas':>10} {'exact':>10} {'float':>10} {'theirs':>10} {'skipped':>7} {'rough':>5}")
    for name, e in sorted(errors.items()):
        print(f"{name:36} {e[0]:5} {e[1]:10.2e} {e[2]:10.2e} {e[3]:10.2e} {e[4]:10.2e} {e[5]:10.2e} {e[6]:7} {e[7]:5}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
