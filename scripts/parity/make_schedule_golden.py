#!/usr/bin/env python3
"""Writes tests/golden/schedules.json: full loops of diffusers' schedulers.

    make_schedule_golden.py [OUT]

One case per line. Each covers one combination of solver, spacing, prediction,
order and ending over a [1, 2, 2] … [1, 4, 4] toy, with all arithmetic in
double over diffusers' float32 tables, so that the numbers do not depend on the
machine that wrote them.
"""
import itertools
import json
import math
import sys

import schedule_reference as reference

BASE = {"shape": [1, 4, 4], "seed": 5}
SPACINGS = ("leading", "trailing", "linspace")
VP = ("epsilon", "v_prediction", "sample")


def case(class_name, steps, config=None, **extra):
    return {**BASE, "config": {"_class_name": class_name, **(config or {})}, "num_inference_steps": steps,
            "model": {"kind": "soft"}, **extra}


def steps_cases():
    for spacing, prediction in itertools.product(SPACINGS, VP):
        common = {"timestep_spacing": spacing, "prediction_type": prediction}
        yield case("DDIMScheduler", 7, {**common, "clip_sample": False, "set_alpha_to_one": False})
        yield case("DDIMScheduler", 5, {**common, "beta_schedule": "scaled_linear", "steps_offset": 1}, eta=0.7)
        yield case("DDPMScheduler", 6, {**common, "variance_type": "fixed_small"})
    yield case("DDIMScheduler", 5, {"thresholding": True, "sample_max_value": 1.5}, eta=1.0)
    yield case("DDIMScheduler", 5, {"rescale_betas_zero_snr": True, "prediction_type": "v_prediction",
                                    "timestep_spacing": "trailing"})
    for name, extra in (("DDIMScheduler", {}), ("DDIMScheduler", {"eta": 0.8}), ("DDPMScheduler", {})):
        yield case(name, 5, {"rescale_betas_zero_snr": True, "prediction_type": "epsilon", "clip_sample": True,
                             "clip_sample_range": 1.5, "timestep_spacing": "trailing"}, **extra)
    for spacing, prediction in itertools.product(SPACINGS, VP[:2]):
        common = {"timestep_spacing": spacing, "prediction_type": prediction, "beta_schedule": "scaled_linear"}
        yield case("PNDMScheduler", 7, {**common, "skip_prk_steps": True, "steps_offset": 1})
        yield case("PNDMScheduler", 6, {**common, "set_alpha_to_one": True})
    for schedule in ("sigmoid", "laplace"):
        yield case("DDPMScheduler", 6, {"beta_schedule": schedule, "beta_start": 0.001, "timestep_spacing": "linspace"})
    for variance in ("fixed_small_log", "fixed_large", "learned_range"):
        c = case("DDPMScheduler", 6, {"variance_type": variance, "beta_schedule": "squaredcos_cap_v2"})
        c["model"]["learned_variance"] = variance == "learned_range"
        yield c
    yield case("DDPMScheduler", 4, {}, timesteps=[900, 501, 30, 2])


def sigma_cases():
    for spacing, prediction in itertools.product(SPACINGS, VP):
        common = {"timestep_spacing": spacing, "prediction_type": prediction, "beta_schedule": "scaled_linear"}
        yield case("EulerDiscreteScheduler", 6, common)
        yield case("HeunDiscreteScheduler", 4, common)
        if prediction != "sample":
            yield case("EulerAncestralDiscreteScheduler", 6, common)
    for key in ("use_karras_sigmas", "use_exponential_sigmas", "use_beta_sigmas"):
        yield case("EulerDiscreteScheduler", 5, {key: True, "final_sigmas_type": "sigma_min"})
        yield case("HeunDiscreteScheduler", 4, {key: True, "clip_sample": True})
        yield case("DPMSolverMultistepScheduler", 6, {key: True})
        yield case("UniPCMultistepScheduler", 6, {key: True})
    yield case("EulerDiscreteScheduler", 4, {"sigma_min": 0.03, "sigma_max": 20.0, "use_karras_sigmas": True})
    yield case("EulerDiscreteScheduler", 4, {"rescale_betas_zero_snr": True}, sigmas=[10.0, 3.0, 1.0, 0.2])
    yield case("EulerDiscreteScheduler", 4, {}, timesteps=[900.0, 500.5, 30.0, 1.0])


def multistep_cases():
    ode, sde = ("dpmsolver++", "dpmsolver"), ("sde-dpmsolver++", "sde-dpmsolver")
    for algorithm, order, kind in itertools.product(ode + sde, (1, 2, 3), ("midpoint", "heun")):
        if algorithm == "sde-dpmsolver" and order == 3:
            continue
        plain = not algorithm.endswith("++")
        yield case("DPMSolverMultistepScheduler", 6,
                   {"algorithm_type": algorithm, "solver_order": order, "solver_type": kind,
                    "final_sigmas_type": "sigma_min" if plain else "zero", "beta_schedule": "scaled_linear"})
    for spacing, prediction in itertools.product(SPACINGS, VP):
        common = {"timestep_spacing": spacing, "prediction_type": prediction}
        yield case("DPMSolverMultistepScheduler", 16, {**common, "solver_order": 3})
        yield case("UniPCMultistepScheduler", 6, {**common, "solver_order": 3})
    yield case("DPMSolverMultistepScheduler", 8, {"lower_order_final": False, "euler_at_final": True,
                                                  "final_sigmas_type": "sigma_min"})
    yield case("DPMSolverMultistepScheduler", 8, {"use_lu_lambdas": True, "thresholding": True})
    yield case("DPMSolverMultistepScheduler", 8, {"lambda_min_clipped": -5.1, "beta_schedule": "squaredcos_cap_v2"})
    yield case("DPMSolverMultistepScheduler", 8, {"use_flow_sigmas": True, "flow_shift": 3.0,
                                                  "prediction_type": "flow_prediction"})
    for order, kind, clean in itertools.product((1, 2, 3), ("bh1", "bh2"), (True, False)):
        yield case("UniPCMultistepScheduler", 6,
                   {"solver_order": order, "solver_type": kind, "predict_x0": clean,
                    "final_sigmas_type": "sigma_min", "beta_schedule": "scaled_linear"})
    yield case("UniPCMultistepScheduler", 6, {"disable_corrector": [0, 2]})
    yield case("UniPCMultistepScheduler", 6, {"use_flow_sigmas": True, "flow_shift": 5.0, "shift_terminal": 0.02,
                                              "prediction_type": "flow_prediction"})
    yield case("UniPCMultistepScheduler", 6, {"use_flow_sigmas": True, "use_karras_sigmas": True,
                                              "prediction_type": "flow_prediction"})
    yield case("UniPCMultistepScheduler", 6, {"use_flow_sigmas": True, "use_dynamic_shifting": True,
                                              "prediction_type": "flow_prediction"}, mu=0.9)


def flow_cases():
    name = "FlowMatchEulerDiscreteScheduler"
    yield case(name, 6, {"shift": 3.0})
    yield case(name, 6, {"shift": 3.0, "stochastic_sampling": True})
    yield case(name, 6, {"invert_sigmas": True})
    yield case(name, 6, {"shift": 2.0, "shift_terminal": 0.1})
    for kind in ("exponential", "linear"):
        yield case(name, 6, {"use_dynamic_shifting": True, "time_shift_type": kind}, mu=1.15)
    for key in ("use_karras_sigmas", "use_exponential_sigmas", "use_beta_sigmas"):
        yield case(name, 6, {key: True, "shift": 3.0})
    yield case(name, 4, {"shift": 3.0}, sigmas=[1.0, 0.75, 0.5, 0.25])
    yield case(name, 4, {"shift": 3.0}, timesteps=[1000.0, 700.0, 400.0, 100.0])


def shortened(value):
    return float(f"{value:.9g}")


def main():
    out = sys.argv[1] if len(sys.argv) > 1 else "tests/golden/schedules.json"
    lines = []
    for c in itertools.chain(steps_cases(), sigma_cases(), multistep_cases(), flow_cases()):
        result = reference.run(c, double=True)
        points = [result["trajectory"][i] for i in (0, len(result["trajectory"]) // 2, -1)]
        assert all(math.isfinite(v) for p in points for v in p), c
        golden = {**c, "expected": {"timesteps": [shortened(t) for t in result["timesteps"]],
                                    "sigmas": [shortened(s) for s in result.get("sigmas", [])],
                                    "middle": [shortened(v) for v in points[1][:6]],
                                    "last": [shortened(v) for v in points[2][:6]]}}
        lines.append(json.dumps(golden, separators=(",", ":")))
    with open(out, "w", encoding="utf-8") as file:
        file.write("[\n" + ",\n".join(lines) + "\n]\n")
    print(f"{len(lines)} cases in {out}")


if __name__ == "__main__":
    main()
