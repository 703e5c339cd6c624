// Sources: k-diffusion's sampling.py, the sampler and scheduler lists of A1111
// and ComfyUI, diffusers' schedulers and its table of names
// (docs/source/en/api/schedulers/overview.md).
#include "config/foreign_solvers.h"

#include <algorithm>
#include <array>

namespace troupe::config {
namespace {

constexpr std::string_view kSinglestepSde =
    "the singlestep SDE solver of k-diffusion with two network calls a step "
    "(diffusers' DPMSolverSDEScheduler)";
constexpr std::string_view kSinglestep =
    "a singlestep DPM-Solver with two or three network calls a step";
constexpr std::string_view kSinglestepAncestral =
    "k-diffusion's ancestral singlestep DPM-Solver++ with two network calls a "
    "step";
constexpr std::string_view kMidpoint =
    "k-diffusion's DPM-Solver-2 with two network calls a step (diffusers' "
    "KDPM2DiscreteScheduler)";
constexpr std::string_view kMidpointAncestral =
    "k-diffusion's ancestral DPM-Solver-2 (diffusers' "
    "KDPM2AncestralDiscreteScheduler)";
constexpr std::string_view kLinear = "a linear multistep solver of order 4";
constexpr std::string_view kDistilled = "for models that were distilled for it";
constexpr std::string_view kEdm = "for models with EDM's preconditioning";
constexpr std::string_view kBackwards = "from pictures back to noise";
constexpr std::string_view kOtherModels = "for models that Troupe does not run";
constexpr std::string_view kOther = "another solver";

constexpr auto kSolvers = std::to_array<ForeignSolver>({
    {"dpmppsde", kSinglestepSde, "dpm++2m-sde"},
    {"dpmsolversde", kSinglestepSde, "dpm++2m-sde"},
    {"dpmpp2s", kSinglestep, "dpm++2m"},
    {"dpmsolverpp2s", kSinglestep, "dpm++2m"},
    {"dpmsolversinglestep", kSinglestep, "dpm++2m"},
    {"dpmsolver2", kSinglestep, "dpmsolver"},
    {"dpmsolver3", kSinglestep, "dpmsolver"},
    {"dpmfast", kSinglestep, "dpm++2m"},
    {"dpmsolverfast", kSinglestep, "dpm++2m"},
    {"dpmadaptive", "a DPM-Solver that chooses its own number of steps",
     "dpm++3m"},
    {"dpmpp2sa", kSinglestepAncestral, "dpm++2m-sde"},
    {"dpmpp2sancestral", kSinglestepAncestral, "dpm++2m-sde"},
    {"dpm2", kMidpoint, "heun"},
    {"kdpm2", kMidpoint, "heun"},
    {"kdpm2discrete", kMidpoint, "heun"},
    {"dpm2a", kMidpointAncestral, "euler_a"},
    {"dpm2ancestral", kMidpointAncestral, "euler_a"},
    {"kdpm2a", kMidpointAncestral, "euler_a"},
    {"kdpm2ancestral", kMidpointAncestral, "euler_a"},
    {"kdpm2ancestraldiscrete", kMidpointAncestral, "euler_a"},
    {"lms", kLinear, "unipc"},
    {"lmsdiscrete", kLinear, "unipc"},
    {"ipndm", kLinear, "plms"},
    {"ipndmv", kLinear, "plms"},
    {"deis", "an exponential integrator fitted by polynomials", "unipc"},
    {"deismultistep", "an exponential integrator fitted by polynomials",
     "unipc"},
    {"heunpp", "a Heun of up to third order", "heun"},
    {"heunpp2", "a Heun of up to third order", "heun"},
    {"restart", "a Heun that goes back to noise in between", "heun"},
    {"sasolver", "a stochastic Adams solver", "dpm++3m-sde"},
    {"sasolverpece", "a stochastic Adams solver", "dpm++3m-sde"},
    {"resmultistep", kOther, "dpm++2m"},
    {"resmultistepancestral", kOther, "dpm++2m-sde"},
    {"ersde", kOther, "dpm++3m-sde"},
    {"seeds2", kOther, "dpm++2m-sde"},
    {"seeds3", kOther, "dpm++3m-sde"},
    {"expheun2x0", kOther, "heun"},
    {"gradientestimation", kOther, "euler"},
    {"lcm", kDistilled, "ddim"},
    {"tcd", kDistilled, "ddim"},
    {"flowmatchlcm", kDistilled, "flow"},
    {"cmstochasticiterative", kDistilled, "ddim"},
    {"scm", kDistilled, "flow"},
    {"flowmatchheun", "Heun's rule for flow models", "flow or unipc"},
    {"flowmatchheundiscrete", "Heun's rule for flow models", "flow or unipc"},
    {"flowmapeulerdiscrete", kDistilled, "flow"},
    {"ltxeulerancestralrf", "an ancestral rule for flow models", "flow"},
    {"edmeuler", kEdm, "euler"},
    {"edmdpmsolvermultistep", kEdm, "dpm++2m"},
    {"cosinedpmsolvermultistep", kEdm, "dpm++2m-sde"},
    {"ddiminverse", kBackwards, "ddim"},
    {"dpmsolvermultistepinverse", kBackwards, "dpm++2m"},
    {"cogvideoxddim", kOtherModels, "ddim"},
    {"cogvideoxdpm", kOtherModels, "dpm++2m-sde"},
    {"ddpmwuerstchen", kOtherModels, "ddpm"},
    {"unclip", kOtherModels, "ddpm"},
    {"repaint", "for filling in parts of a picture", "ddpm"},
    {"karrasve", kOtherModels, "heun"},
    {"scoresdeve", kOtherModels, "ddpm"},
    {"scoresdevp", kOtherModels, "ddpm"},
    {"vqdiffusion", kOtherModels, "ddpm"},
});

/// Suffixes of solver names that change the solver's behaviour.
constexpr auto kWords = std::to_array<ForeignSolver>({
    {"cfgpp", "CFG++, which changes guidance inside the step",
     "the same name without CFG++"},
    {"gpu",
     "ComfyUI's word for noise made on the GPU; Troupe makes it on the CPU, "
     "the same on every machine",
     "the same name without gpu"},
    {"sgmuniform", "the spacing \"SGM Uniform\" of A1111 and ComfyUI",
     "--timestep-spacing trailing, which diffusers has for it"},
    {"simple", "the spacing \"simple\" of A1111 and ComfyUI",
     "--timestep-spacing trailing, which diffusers has for it"},
    {"ddimuniform", "the spacing \"ddim_uniform\" of A1111 and ComfyUI",
     "--timestep-spacing leading"},
    {"polyexponential", "k-diffusion's polyexponential spacing",
     "--sigma-spacing exponential, or --sigmas LIST"},
    {"normal", "the spacing \"normal\" of A1111 and ComfyUI",
     "--timestep-spacing linspace"},
    {"uniform", "the spacing \"Uniform\" of A1111",
     "--timestep-spacing linspace"},
    {"kloptimal", "the spacing \"KL Optimal\"", "--sigmas LIST"},
    {"alignyoursteps", "the table \"Align Your Steps\"", "--timesteps LIST"},
    {"ays", "the table \"Align Your Steps\"", "--timesteps LIST"},
    {"linearquadratic", "the spacing \"linear_quadratic\" of ComfyUI",
     "--sigmas LIST"},
    {"turbo", "the spacing of distilled models", "--timesteps LIST"},
});

const ForeignSolver* find(std::string_view key) {
  const auto* const found =
      std::ranges::find(kSolvers, key, &ForeignSolver::key);
  return found == kSolvers.end() ? nullptr : found;
}

}  // namespace

ForeignSolver foreign_solver(
    std::string_view key,
    const std::function<bool(std::string_view key)>& is_solver) {
  if (const ForeignSolver* found = find(key)) {
    return *found;
  }
  for (const ForeignSolver& word : kWords) {
    if (!key.ends_with(word.key)) {
      continue;
    }
    const std::string_view before = key.substr(0, key.size() - word.key.size());
    if (const ForeignSolver* found = find(before)) {
      return *found;
    }
    if (is_solver(before)) {
      return {key, word.means, word.instead};
    }
  }
  return {};
}

}  // namespace troupe::config
