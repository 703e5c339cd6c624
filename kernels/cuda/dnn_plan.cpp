#include <algorithm>
#include <array>

#include "kernels/core/error.h"
#include "kernels/cuda/dnn_graph.cuh"
#include "kernels/cuda/stream.cuh"

namespace troupe::kernels::cuda {
namespace {

// Kernels whose results differ from run to run, or from an f32 sum of products
// of the given numbers.
constexpr std::array kForbidden{
    CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS,
    CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION,
    CUDNN_NUMERICAL_NOTE_FFT,
    CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC,
    CUDNN_NUMERICAL_NOTE_WINOGRAD,
    CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4,
    CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6,
    CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13};
constexpr std::int64_t kMostNotes = 32;
constexpr std::int64_t kMostKnobs = 64;

/// The engine of a proposal and whether its notes keep to the rules.
struct Engine {
  DnnDescriptor descriptor;

  Engine(const Dnn& dnn, const DnnDescriptor& proposal)
      : descriptor(dnn, CUDNN_BACKEND_ENGINE_DESCRIPTOR) {
    cudnnBackendDescriptor_t engine = descriptor.get();
    proposal.read(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                  &engine);
  }

  [[nodiscard]] std::int64_t index() const {
    return descriptor.read<std::int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX,
                                         CUDNN_TYPE_INT64);
  }

  [[nodiscard]] bool keeps_to(const DnnRules& rules) const {
    std::array<cudnnBackendNumericalNote_t, kMostNotes> notes{};
    const std::int64_t count =
        descriptor.read(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                        CUDNN_TYPE_NUMERICAL_NOTE, kMostNotes, notes.data());
    return std::none_of(notes.begin(), notes.begin() + count, [&](auto note) {
      return std::find(kForbidden.begin(), kForbidden.end(), note) !=
                 kForbidden.end() ||
             (!rules.tensor_cores && note == CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
    });
  }
};

std::vector<std::pair<std::int32_t, std::int64_t>> knobs_of(
    const Dnn& dnn, const DnnDescriptor& proposal) {
  std::vector<DnnDescriptor> choices;
  std::array<cudnnBackendDescriptor_t, kMostKnobs> filled{};
  for (auto& choice : filled) {
    choice =
        choices.emplace_back(dnn, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR).get();
  }
  const std::int64_t count =
      proposal.read(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES,
                    CUDNN_TYPE_BACKEND_DESCRIPTOR, kMostKnobs, filled.data());
  choices.resize(static_cast<std::size_t>(count));
  std::vector<std::pair<std::int32_t, std::int64_t>> knobs;
  for (const DnnDescriptor& choice : choices) {
    knobs.emplace_back(
        static_cast<std::int32_t>(choice.read<cudnnBackendKnobType_t>(
            CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE)),
        choice.read<std::int64_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE,
                                  CUDNN_TYPE_INT64));
  }
  std::sort(knobs.begin(), knobs.end());
  return knobs;
}

}  // namespace

std::vector<DnnDescriptor> DnnPlan::propose(cudnnBackendHeurMode_t mode) const {
  const DnnTarget& target = graph_.target_;
  DnnDescriptor heuristics(target.dnn, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, operations_);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, mode);
  if (target.device != nullptr) {
    heuristics.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, *target.device);
  }
  heuristics.finalize();
  std::int64_t count = heuristics.read(
      CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, nullptr);
  std::vector<DnnDescriptor> proposals;
  std::vector<cudnnBackendDescriptor_t> filled;
  for (std::int64_t i = 0; i < count; ++i) {
    filled.push_back(
        proposals.emplace_back(target.dnn, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)
            .get());
  }
  if (count > 0) {
    // The library returns fewer plans than announced: plans that cannot work
    // are left out.
    count =
        heuristics.read(CUDNN_ATTR_ENGINEHEUR_RESULTS,
                        CUDNN_TYPE_BACKEND_DESCRIPTOR, count, filled.data());
    proposals.resize(static_cast<std::size_t>(count));
  }
  return proposals;
}

bool DnnPlan::take(DnnDescriptor proposal, const DnnRules& rules,
                   std::string* why) {
  const DnnTarget& target = graph_.target_;
  const Engine engine(target.dnn, proposal);
  DnnEngine chosen{engine.index(), knobs_of(target.dnn, proposal)};
  if (!engine.keeps_to(rules) || (rules.only && !(chosen == *rules.only))) {
    return false;
  }
  DnnDescriptor plan(target.dnn, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, proposal);
  if (target.handle != nullptr) {
    plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE,
             target.handle);
  }
  if (target.device != nullptr) {
    plan.set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, *target.device);
  }
  const cudnnStatus_t status = target.dnn.finalize(plan.get());
  if (status != CUDNN_STATUS_SUCCESS) {
    check_alive("cudnn");
    *why += std::string("; an engine: ") + target.dnn.error_string(status);
    return false;
  }
  const auto bytes = plan.read<std::int64_t>(
      CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64);
  if (bytes > rules.max_workspace_bytes) {
    *why += "; an engine: needs " + std::to_string(bytes) + " bytes";
    return false;
  }
  config_ = std::move(proposal);
  plan_ = std::move(plan);
  workspace_bytes_ = bytes;
  engine_ = std::move(chosen);
  return true;
}

DnnDescriptor DnnPlan::settings(const DnnEngine& wanted) {
  const DnnTarget& target = graph_.target_;
  const auto add = [&](cudnnBackendDescriptorType_t type) -> DnnDescriptor& {
    return parts_.emplace_back(target.dnn, type);
  };
  parts_.reserve(wanted.knobs.size() + 1);
  DnnDescriptor& engine = add(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  engine.set(CUDNN_ATTR_ENGINE_OPERATION_GRAPH, operations_);
  engine.set(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, wanted.index);
  if (target.device != nullptr) {
    engine.set(CUDNN_ATTR_ENGINE_DEVICEPROP, *target.device);
  }
  engine.finalize();
  std::vector<cudnnBackendDescriptor_t> choices;
  for (const auto& [type, value] : wanted.knobs) {
    DnnDescriptor& choice = add(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
    choice.set(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE,
               static_cast<cudnnBackendKnobType_t>(type));
    choice.set(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, value);
    choice.finalize();
    choices.push_back(choice.get());
  }
  DnnDescriptor made(target.dnn, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  made.set(CUDNN_ATTR_ENGINECFG_ENGINE, engine);
  if (!choices.empty()) {
    made.set(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR,
             static_cast<std::int64_t>(choices.size()), choices.data());
  }
  made.finalize();
  return made;
}

std::optional<DnnPlan> DnnPlan::find(DnnGraph graph, const DnnRules& rules,
                                     std::string* why) {
  DnnPlan plan(std::move(graph));
  plan.operations_ = plan.graph_.finish();
  *why = "no engine keeps to the rules";
  const auto may_work = [&](const auto& fn) {
    try {
      return fn();
    } catch (const Error& error) {
      if (error.code() != Errc::unsupported) {
        throw;
      }
      *why += std::string("; ") + error.what();
      return false;
    }
  };
  for (const auto mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    if (may_work([&] {
          auto proposals = plan.propose(mode);
          return std::ranges::any_of(proposals, [&](DnnDescriptor& proposal) {
            return plan.take(std::move(proposal), rules, why);
          });
        })) {
      return plan;
    }
  }
  // The library proposes fast engines, and may leave this one out.
  if (rules.only != nullptr && may_work([&] {
        return plan.take(plan.settings(*rules.only), rules, why);
      })) {
    return plan;
  }
  return std::nullopt;
}

}  // namespace troupe::kernels::cuda
