// schedule_probe: reads one JSON object per line on stdin and writes one per
// line on stdout.
//
//   in   config               a scheduler_config.json object
//        solver               optional: another solver, by any of its names
//        num_inference_steps, eta, mu, sigmas, timesteps   optional
//        model {kind, scale, learned_variance}, shape [C, H, W], seed
//        initial              optional: latents instead of seed's first draw
//   out  timesteps, sigmas, init_noise_sigma, initial, trajectory, or
//        error {code, message, hint}
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "config/scheduler_config.h"
#include "kernels/core/error.h"
#include "samplers/noise_source.h"
#include "samplers/schedule.h"
#include "samplers/solver.h"
#include "tests/samplers/trajectory.h"

namespace {

using nlohmann::json;
using troupe::DType;
using troupe::Shape;
using troupe::Tensor;
namespace samplers = troupe::samplers;

samplers::ScheduleOptions read_options(const json& in) {
  std::optional<troupe::config::SolverChoice> solver;
  if (in.contains("solver")) {
    solver = troupe::config::parse_solver(in["solver"].get<std::string>());
  }
  samplers::ScheduleOptions options = troupe::config::parse_scheduler_config(
      in.at("config").dump(), "stdin", solver);
  options.num_inference_steps =
      in.value("num_inference_steps", options.num_inference_steps);
  options.eta = in.value("eta", 0.0);
  options.sigmas = in.value("sigmas", std::vector<double>());
  options.timesteps = in.value("timesteps", std::vector<double>());
  if (in.contains("mu")) {
    options.mu = in["mu"].get<double>();
  }
  return options;
}

std::vector<float> values(const Tensor& tensor) {
  const auto span = tensor.span<float>();
  return {span.begin(), span.end()};
}

json answer(const json& in) {
  const samplers::Schedule schedule(read_options(in));
  json out;
  out["timesteps"] = std::vector<double>(schedule.timesteps().begin(),
                                         schedule.timesteps().end());
  json sigmas = json::array();
  for (const double sigma : schedule.sigmas()) {
    sigmas.push_back(sigma);
  }
  out["sigmas"] = sigmas;
  out["init_noise_sigma"] = schedule.init_noise_sigma();
  if (!in.contains("shape")) {
    return out;
  }
  const auto extents = in["shape"].get<std::vector<std::int64_t>>();
  const Shape shape{extents.at(0), extents.at(1), extents.at(2)};
  samplers::TorchNoise noise(in.value("seed", std::uint64_t{0}), schedule);
  samplers::SolverState state;
  if (in.contains("initial")) {
    const auto given = in["initial"].get<std::vector<float>>();
    state.latents = Tensor::from<float>(given, shape);
  } else {
    Tensor unit(shape, DType::f32);
    noise.initial(0, unit);
    troupe::ExecContext ctx;
    state = samplers::initial_state(ctx, schedule, unit);
  }
  samplers::testing::ToyModel model;
  const json wanted = in.value("model", json::object());
  model.kind = wanted.value("kind", model.kind);
  model.scale = wanted.value("scale", model.scale);
  model.learned_variance =
      wanted.value("learned_variance", model.learned_variance);
  out["trajectory"] = json::array();
  for (const Tensor& point :
       samplers::testing::run(schedule, model, state.latents, noise)) {
    out["trajectory"].push_back(values(point));
  }
  return out;
}

}  // namespace

int main() {
  std::string line;
  while (std::getline(std::cin, line)) {
    json out;
    try {
      out = answer(json::parse(line));
    } catch (const troupe::Error& error) {
      out["error"] = {{"code", std::string(to_string(error.code()))},
                      {"message", error.what()},
                      {"hint", error.hint()}};
    } catch (const std::exception& error) {
      out["error"] = {{"code", "invalid_argument"}, {"message", error.what()}};
    }
    std::cout << out.dump() << std::endl;
  }
  return 0;
}
