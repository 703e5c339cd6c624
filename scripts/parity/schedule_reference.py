"""diffusers' schedulers under toy networks: the truth for schedules and steps.

Used by make_schedule_golden.py and compare_schedules.py. The networks are made
of +, *, / and |x|, so float32 results are the same in every language.
"""
import random
import sys
import warnings

import numpy as np
import torch

import torch_compat  # noqa: F401  (before diffusers)
import diffusers

diffusers.utils.logging.set_verbosity_error()
warnings.filterwarnings("ignore")

MULTISTEP = ("DPMSolverMultistepScheduler", "UniPCMultistepScheduler")


def model(spec, x, t):
    t = torch.tensor(float(t), dtype=x.dtype)
    kind = spec.get("kind", "soft")
    scale = spec.get("scale", 1.0)
    if kind == "linear":
        y = scale * x
    elif kind == "ramp":
        y = x * t / (t + 1.0)
    else:
        y = scale * x / (1.0 + x.abs()) + t / 10000.0
    if spec.get("learned_variance"):
        y = torch.cat([y, 0.5 * y], dim=1)
    return y


def make_scheduler(case):
    """The scheduler of a case with its timesteps set."""
    config = dict(case["config"])
    cls = getattr(diffusers, config.pop("_class_name"))
    scheduler = cls.from_config(config)  # as a folder has it
    kwargs = {}
    if case.get("mu") is not None:
        kwargs["mu"] = case["mu"]
    if case.get("sigmas"):
        kwargs["sigmas"] = case["sigmas"]
        if cls.__name__ == "EulerDiscreteScheduler":
            kwargs["sigmas"] = case["sigmas"] + [0.0]
        if cls.__name__ == "UniPCMultistepScheduler":
            kwargs["sigmas"] = np.array(case["sigmas"])
    if case.get("timesteps"):
        kwargs["timesteps"] = case["timesteps"]
    if not case.get("sigmas") and not case.get("timesteps"):
        kwargs["num_inference_steps"] = case["num_inference_steps"]
    scheduler.set_timesteps(**kwargs)
    if hasattr(scheduler, "set_begin_index"):
        scheduler.set_begin_index(0)  # equal timesteps must not skip a step
    return scheduler


class _DoubleTorch:
    """The torch module for a scheduler that casts samples to float32."""

    float32 = torch.float64

    def __getattr__(self, name):
        return getattr(torch, name)


def _float_noise(shape, generator=None, device=None, dtype=None, layout=None):
    return torch.randn(shape, generator=generator).to(dtype)


def to_double(scheduler):
    """The float32 tables of a scheduler, and all arithmetic over them in double."""
    for name in ("sigmas", "alphas_cumprod", "final_alpha_cumprod", "one"):
        if isinstance(getattr(scheduler, name, None), torch.Tensor):
            setattr(scheduler, name, getattr(scheduler, name).double())
    module = sys.modules[type(scheduler).__module__]
    saved = {name: getattr(module, name) for name in ("torch", "randn_tensor") if hasattr(module, name)}
    module.torch = _DoubleTorch()
    module.randn_tensor = _float_noise
    return lambda: [setattr(module, name, value) for name, value in saved.items()]


def run(case, double=False):
    """{timesteps, sigmas, init_noise_sigma, trajectory} of a case."""
    scheduler = make_scheduler(case)
    restore = lambda: None
    result = {
        "timesteps": [float(t) for t in scheduler.timesteps],
        "init_noise_sigma": float(scheduler.init_noise_sigma) if hasattr(scheduler, "init_noise_sigma") else 1.0,
    }
    if hasattr(scheduler, "sigmas"):
        result["sigmas"] = [float(s) for s in scheduler.sigmas]
    shape = [1] + case["shape"]
    generator = torch.Generator().manual_seed(case["seed"])
    unit = torch.randn(shape, generator=generator)
    x = unit * result["init_noise_sigma"]
    if case.get("initial"):
        x = torch.tensor(case["initial"], dtype=torch.float32).reshape(shape)
    if double:
        x = x.double()
        restore = to_double(scheduler)
    try:
        result["trajectory"] = _loop(case, scheduler, x, generator)
    finally:
        restore()
    return result


def _loop(case, scheduler, x, generator):
    spec = case.get("model", {})
    parameters = scheduler.step.__code__.co_varnames[: scheduler.step.__code__.co_argcount]
    trajectory = [x.flatten().double().tolist()]
    dropped = spec.get("learned_variance") and not str(
        case["config"].get("variance_type")).startswith("learned")
    for t in scheduler.timesteps:
        scaled = scheduler.scale_model_input(x, t) if hasattr(scheduler, "scale_model_input") else x
        out = model(spec, scaled, t)
        if dropped:
            out = out[:, : case["shape"][0]]
        kwargs = {}
        if "generator" in parameters:
            kwargs["generator"] = generator
        if "eta" in parameters:
            kwargs["eta"] = case.get("eta", 0.0)
        x = scheduler.step(out, t, x, return_dict=False, **kwargs)[0]
        trajectory.append(x.flatten().double().tolist())
    return trajectory


def random_case(rng: random.Random, solver=None):
    """A random configuration that the diffusers class accepts."""
    solver = solver or rng.choice(
        ["DDIMScheduler", "DDPMScheduler", "DPMSolverMultistepScheduler", "EulerDiscreteScheduler",
         "EulerAncestralDiscreteScheduler", "HeunDiscreteScheduler", "FlowMatchEulerDiscreteScheduler",
         "UniPCMultistepScheduler", "PNDMScheduler"])
    config = {"_class_name": solver}
    case = {"config": config, "shape": [rng.choice([1, 3, 4]), rng.choice([4, 5]), rng.choice([4, 7])],
            "seed": rng.randrange(1 << 20), "num_inference_steps": rng.choice([1, 2, 3, 5, 7, 10, 14, 15, 20, 33, 50]),
            "model": {"kind": "soft", "scale": rng.choice([0.5, 1.0])}}
    if solver == "FlowMatchEulerDiscreteScheduler":
        _flow(rng, case, config)
        return case
    config["beta_schedule"] = rng.choice(["linear", "scaled_linear", "squaredcos_cap_v2"])
    if rng.random() < 0.5:
        config["beta_start"], config["beta_end"] = rng.choice([(0.00085, 0.012), (0.0001, 0.02), (0.001, 0.01)])
    if rng.random() < 0.2:
        config["num_train_timesteps"] = rng.choice([500, 1100, 777])
    if solver == "DDPMScheduler" and rng.random() < 0.3:
        config["beta_schedule"] = rng.choice(["sigmoid", "laplace"])  # no other class has them
    config["prediction_type"] = rng.choice(["epsilon", "v_prediction", "sample"])
    config["timestep_spacing"] = rng.choice(["leading", "trailing", "linspace"])
    if config["timestep_spacing"] == "leading":
        config["steps_offset"] = rng.choice([0, 1])
    {"DDIMScheduler": _steps, "DDPMScheduler": _steps, "DPMSolverMultistepScheduler": _dpm,
     "EulerDiscreteScheduler": _euler, "EulerAncestralDiscreteScheduler": _ancestral,
     "HeunDiscreteScheduler": _heun, "UniPCMultistepScheduler": _unipc,
     "PNDMScheduler": _pndm}[solver](rng, case, config)
    return case


def _steps(rng, case, config):
    config["clip_sample"] = rng.choice([True, False])
    config["clip_sample_range"] = rng.choice([1.0, 1.5])
    if rng.random() < 0.25:
        config.update(thresholding=True, dynamic_thresholding_ratio=rng.choice([0.9, 0.995]), sample_max_value=1.5)
    if config["_class_name"] == "DDIMScheduler":
        config["set_alpha_to_one"] = rng.choice([True, False])
        case["eta"] = rng.choice([0.0, 0.0, 0.5, 1.0])
    else:
        config["variance_type"] = rng.choice(
            ["fixed_small", "fixed_small_log", "fixed_large", "learned_range"])
        case["model"]["learned_variance"] = config["variance_type"] == "learned_range"
        if rng.random() < 0.2:
            case["timesteps"] = [480, 333, 200, 99, 1]
    if rng.random() < 0.3:
        config["rescale_betas_zero_snr"] = True
        if rng.random() < 0.5:  # noise at a signal of 0 is finite if it is clipped
            config.update(prediction_type="epsilon", timestep_spacing="trailing", clip_sample=True, thresholding=False)
    if config["timestep_spacing"] == "leading" and case["num_inference_steps"] == 1:
        config["steps_offset"] = 0


def _spacing(rng, config):
    kind = rng.choice(["", "", "use_karras_sigmas", "use_exponential_sigmas", "use_beta_sigmas"])
    if kind:
        config[kind] = True
        if rng.random() < 0.3:  # arguments of some classes; all that respace read them
            config.update(sigma_min=0.05, sigma_max=20.0)
    return kind


def _euler(rng, case, config):
    kind = _spacing(rng, config)
    config["final_sigmas_type"] = rng.choice(["zero", "zero", "sigma_min"])
    if rng.random() < 0.2:
        config["rescale_betas_zero_snr"] = True
    if not kind and rng.random() < 0.2:
        case["sigmas"] = [12.5, 6.0, 2.0, 0.7, 0.11]
    elif not kind and rng.random() < 0.2:
        case["timesteps"] = [490.0, 333.0, 200.0, 99.0, 1.0]


def _ancestral(rng, case, config):
    if config["prediction_type"] == "sample":
        config["prediction_type"] = "epsilon"


def _pndm(rng, case, config):
    _ancestral(rng, case, config)  # no sample prediction either
    config["set_alpha_to_one"] = rng.choice([True, False])
    config["skip_prk_steps"] = rng.choice([True, True, False])
    if not config["skip_prk_steps"]:  # with fewer steps diffusers stumbles
        case["num_inference_steps"] = max(case["num_inference_steps"], 4)
        if config["beta_schedule"] == "squaredcos_cap_v2":
            # The signal of timestep 999 is 5e-5: there a network's rounding comes out 1e4 times as large.
            config["timestep_spacing"] = "leading"
            config.setdefault("steps_offset", 0)
    if config["timestep_spacing"] == "leading" and case["num_inference_steps"] == 1:
        config["steps_offset"] = 0


def _heun(rng, case, config):
    kind = _spacing(rng, config)
    config["clip_sample"] = rng.choice([True, False])
    if not kind and rng.random() < 0.2:
        case["timesteps"] = [490.0, 333.0, 200.0, 99.0, 1.0]


def _dpm(rng, case, config):
    config["algorithm_type"] = rng.choice(["dpmsolver++", "dpmsolver++", "dpmsolver", "sde-dpmsolver++", "sde-dpmsolver"])
    config["solver_order"] = rng.choice([1, 2, 3])
    if config["algorithm_type"] == "sde-dpmsolver" and config["solver_order"] == 3:
        config["solver_order"] = 2
    config["solver_type"] = rng.choice(["midpoint", "heun"])
    config["lower_order_final"] = rng.choice([True, False])
    config["euler_at_final"] = rng.choice([True, False])
    config["final_sigmas_type"] = rng.choice(["zero", "sigma_min"])
    plain = config["algorithm_type"] in ("dpmsolver", "sde-dpmsolver")
    if plain:
        config["final_sigmas_type"] = "sigma_min"
    kind = _spacing(rng, config)
    if (kind or config["timestep_spacing"] != "linspace") and config["solver_order"] == 3:
        config["solver_order"] = 2  # a last step of no length divides 0 by 0
    if config["final_sigmas_type"] == "sigma_min" and config["solver_type"] == "heun":
        config["euler_at_final"] = True
    if not kind and rng.random() < 0.15:
        config.update(use_lu_lambdas=True, final_sigmas_type="zero")
        config["algorithm_type"] = config["algorithm_type"].replace("++", "") + "++"
    elif not kind and rng.random() < 0.15 and config["algorithm_type"].endswith("++"):
        config.update(use_flow_sigmas=True, flow_shift=rng.choice([1.0, 3.0]), prediction_type="flow_prediction",
                      final_sigmas_type="zero")
    if config["beta_schedule"] == "squaredcos_cap_v2" and rng.random() < 0.5:
        config["lambda_min_clipped"] = -5.1
    if rng.random() < 0.2:
        config["thresholding"] = True
    if rng.random() < 0.15:
        config["rescale_betas_zero_snr"] = True


def _unipc(rng, case, config):
    config["solver_order"] = rng.choice([1, 2, 3])
    config["solver_type"] = rng.choice(["bh1", "bh2"])
    config["predict_x0"] = rng.choice([True, True, False])
    # bh1 at the end σ = 0 is ∞·0 in diffusers
    config["final_sigmas_type"] = "zero" if config["solver_type"] == "bh2" else "sigma_min"
    config["lower_order_final"] = True
    if rng.random() < 0.3:
        config["disable_corrector"] = rng.choice([[0], [0, 1, 2]])
    if not config["predict_x0"]:
        config["final_sigmas_type"] = "sigma_min"
        config["timestep_spacing"] = "linspace"
        return
    kind = _spacing(rng, config)
    if not kind and rng.random() < 0.4:
        config.update(use_flow_sigmas=True, flow_shift=rng.choice([1.0, 3.0, 5.0]), prediction_type="flow_prediction")
        if rng.random() < 0.4:
            config["use_dynamic_shifting"] = True
            config["time_shift_type"] = rng.choice(["exponential", "linear"])
            case["mu"] = rng.choice([0.63, 1.15])
        if rng.random() < 0.3:
            config["shift_terminal"] = 0.02
        if rng.random() < 0.2:
            # Troupe ends every explicit list at 0, whatever the config says.
            case["sigmas"] = [1.0, 0.8, 0.5, 0.2]
            config["final_sigmas_type"] = "zero"
    elif kind == "use_karras_sigmas" and rng.random() < 0.3:
        config.update(use_flow_sigmas=True, prediction_type="flow_prediction")
    if rng.random() < 0.2:
        config["thresholding"] = True


def _flow(rng, case, config):
    config["shift"] = rng.choice([1.0, 3.0, 7.0])
    if rng.random() < 0.4:
        config["use_dynamic_shifting"] = True
        config["time_shift_type"] = rng.choice(["exponential", "linear"])
        case["mu"] = rng.choice([0.63, 1.15])
    if rng.random() < 0.25 and case["num_inference_steps"] > 1:
        config["shift_terminal"] = rng.choice([0.1, 0.02])
    elif case["num_inference_steps"] > 1:
        _spacing(rng, config)
        if "sigma_max" in config:
            config["sigma_max"] = 0.9
    if rng.random() < 0.2:
        config["invert_sigmas"] = True
    elif rng.random() < 0.3:
        config["stochastic_sampling"] = True
    r = rng.random()
    if r < 0.2:
        case["sigmas"] = [1.0, 0.8, 0.5, 0.25]
    elif r < 0.3:
        case["timesteps"] = [1000.0, 700.0, 350.0, 125.0]
    if case.get("sigmas") or case.get("timesteps"):
        case["num_inference_steps"] = 4
