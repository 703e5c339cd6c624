#include "tests/cuda/emulator/dnn.h"

#include <algorithm>
#include <array>
#include <mutex>
#include <set>

#include "tests/cuda/emulator/dnn_objects.h"
#include "tests/cuda/emulator/libraries.h"
#include "tests/cuda/emulator/streams.h"

// The emulated cuDNN: which engines it offers for a graph, and how a plan is
// queued.

namespace troupe::emulator {
namespace {

constexpr std::int64_t kWorkspaceBytes = 1000;
constexpr std::int64_t kGreedyBytes = std::int64_t{1} << 40U;

struct State {
  std::mutex mutex;
  DnnBehaviour behaviour;
  DnnCounters counters;
  std::set<const void*> handles;
};
State& state() {
  static auto* const one = new State();
  return *one;
}

bool is_handle(const void* handle) {
  const std::lock_guard lock(state().mutex);
  return state().handles.count(handle) != 0;
}

cudnnStatus_t create(cudnnHandle_t* handle) {
  auto* made = new DnnHandleObject();
  const std::lock_guard lock(state().mutex);
  state().handles.insert(made);
  *handle = reinterpret_cast<cudnnHandle_t>(made);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t destroy(cudnnHandle_t handle) {
  const std::lock_guard lock(state().mutex);
  if (state().handles.erase(handle) == 0) {
    return CUDNN_STATUS_BAD_PARAM;
  }
  delete reinterpret_cast<DnnHandleObject*>(handle);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t set_stream(cudnnHandle_t handle, cudaStream_t stream) {
  if (!is_handle(handle)) {
    return CUDNN_STATUS_BAD_PARAM;
  }
  reinterpret_cast<DnnHandleObject*>(handle)->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}

std::size_t version() { return CUDNN_VERSION; }

const char* error_string(cudnnStatus_t status) {
  return status == CUDNN_STATUS_SUCCESS ? "CUDNN_STATUS_SUCCESS"
                                        : "CUDNN_STATUS_ of the emulator";
}

/// In the library's order of preference. The best come with a catch.
std::vector<DnnOffer> offers_for(const DnnObject& heuristics) {
  using Kind = DnnOffer::Kind;
  const auto& graph = *heuristics.object(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
  const auto& first =
      *graph.values.at(CUDNN_ATTR_OPERATIONGRAPH_OPS).objects.front();
  const bool is_attention =
      first.type == CUDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR;
  const auto& input =
      *first.object(is_attention ? CUDNN_ATTR_OPERATION_SDPA_FWD_QDESC
                                 : CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X);
  const auto dims = input.all<std::int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS);
  const bool is_float = input.one<cudnnDataType_t>(
                            CUDNN_ATTR_TENSOR_DATA_TYPE) == CUDNN_DATA_FLOAT;
  const DnnBehaviour behaviour = dnn_behaviour();
  if (behaviour.refuses_everything ||
      (is_attention && (is_float || dims[3] % 8 != 0))) {
    return {{.index = 3, .kind = Kind::vanishes}};
  }
  const bool is_fallback =
      heuristics.one<cudnnBackendHeurMode_t>(CUDNN_ATTR_ENGINEHEUR_MODE) ==
      CUDNN_HEUR_MODE_FALLBACK;
  std::int64_t knob = behaviour.engines_depend_on_batch ? dims[0] : 7;
  if (is_attention && behaviour.engines_depend_on_queries) {
    knob = dims[2];
  }
  if (!is_attention && behaviour.engines_depend_on_height) {
    knob = dims[2];
  }
  if (is_fallback) {
    return {{.index = 11, .knob = 1}};
  }
  std::vector<DnnOffer> offers{{.index = 3, .kind = Kind::vanishes},
                               {.index = 5, .kind = Kind::varies},
                               {.index = 6, .kind = Kind::refuses},
                               {.index = 8, .kind = Kind::greedy}};
  if (is_float) {
    offers.push_back({.index = 51, .knob = 2, .kind = Kind::rounds});
    offers.push_back({.index = 1, .kind = Kind::transforms});
    // Exact f32 only from the second list.
    return offers;
  }
  offers.push_back({.index = 9, .knob = knob, .kind = Kind::rounds});
  return offers;
}

cudnnStatus_t finalize(cudnnBackendDescriptor_t descriptor) {
  const auto object = dnn_object(descriptor);
  if (object == nullptr || object->is_final) {
    return dnn_failure(CUDNN_STATUS_BAD_PARAM, "nothing to make final");
  }
  const cudnnStatus_t status = check_dnn_object(*object);
  if (status != CUDNN_STATUS_SUCCESS) {
    return status;
  }
  if (object->type == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR) {
    object->results = offers_for(*object);
  }
  if (object->type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) {
    object->offer =
        object->object(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG)->offer;
    if (object->offer.kind == DnnOffer::Kind::refuses) {
      return dnn_failure(CUDNN_STATUS_NOT_SUPPORTED, "an engine that cannot");
    }
    const std::lock_guard lock(state().mutex);
    ++state().counters.plans;
  }
  object->is_final = true;
  return CUDNN_STATUS_SUCCESS;
}

/// Makes a descriptor of the caller's one that the library has filled.
bool fill(void* descriptor, cudnnBackendDescriptorType_t type,
          const DnnOffer& offer,
          const std::shared_ptr<const DnnObject>& graph) {
  const auto object = dnn_object(descriptor);
  if (object == nullptr || object->type != type || object->is_final) {
    return false;
  }
  object->offer = offer;
  object->values[CUDNN_ATTR_ENGINE_OPERATION_GRAPH].objects = {graph};
  object->is_final = true;
  return true;
}

template <typename Value>
cudnnStatus_t give(const std::vector<Value>& values, std::int64_t wanted,
                   std::int64_t* count, void* out) {
  *count = static_cast<std::int64_t>(values.size());
  const auto copied = std::min(wanted, *count);
  std::copy_n(values.begin(), copied, static_cast<Value*>(out));
  return CUDNN_STATUS_SUCCESS;
}

std::vector<cudnnBackendNumericalNote_t> notes_of(const DnnOffer& offer) {
  switch (offer.kind) {
    case DnnOffer::Kind::rounds:
      return {CUDNN_NUMERICAL_NOTE_TENSOR_CORE};
    case DnnOffer::Kind::varies:
      return {CUDNN_NUMERICAL_NOTE_TENSOR_CORE,
              CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC};
    case DnnOffer::Kind::transforms:
      return {CUDNN_NUMERICAL_NOTE_WINOGRAD};
    default:
      return {CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP};
  }
}

cudnnStatus_t give_results(const DnnObject& heuristics, std::int64_t wanted,
                           std::int64_t* count, void* out) {
  const auto& results = heuristics.results;
  if (wanted == 0) {
    *count = static_cast<std::int64_t>(results.size());
    return CUDNN_STATUS_SUCCESS;
  }
  const auto graph = heuristics.values.at(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH)
                         .objects.front();
  *count = 0;
  for (const DnnOffer& offer : results) {
    if (offer.kind != DnnOffer::Kind::vanishes && *count < wanted) {
      if (!fill(static_cast<cudnnBackendDescriptor_t*>(out)[*count],
                CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, offer, graph)) {
        return dnn_failure(CUDNN_STATUS_BAD_PARAM, "no room for results");
      }
      ++*count;
    }
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t give_one(const DnnObject& object, void* out,
                       cudnnBackendDescriptorType_t type) {
  const bool filled =
      fill(*static_cast<cudnnBackendDescriptor_t*>(out), type, object.offer,
           object.values.at(CUDNN_ATTR_ENGINE_OPERATION_GRAPH).objects.front());
  return filled ? CUDNN_STATUS_SUCCESS
                : dnn_failure(CUDNN_STATUS_BAD_PARAM, "the wrong descriptor");
}

cudnnStatus_t get_attribute(cudnnBackendDescriptor_t const descriptor,
                            cudnnBackendAttributeName_t name,
                            cudnnBackendAttributeType_t type,
                            std::int64_t wanted, std::int64_t* count,
                            void* out) {
  const auto object = dnn_object(descriptor);
  if (object == nullptr || !object->is_final || count == nullptr) {
    return dnn_failure(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED,
                       "read from what is not final");
  }
  const auto asked = [&](cudnnBackendDescriptorType_t descriptor_type,
                         cudnnBackendAttributeName_t attribute,
                         cudnnBackendAttributeType_t value_type) {
    return object->type == descriptor_type && name == attribute &&
           type == value_type;
  };
  const DnnOffer& offer = object->offer;
  if (asked(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, CUDNN_ATTR_ENGINEHEUR_RESULTS,
            CUDNN_TYPE_BACKEND_DESCRIPTOR)) {
    return give_results(*object, wanted, count, out);
  }
  if (asked(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, CUDNN_ATTR_ENGINECFG_ENGINE,
            CUDNN_TYPE_BACKEND_DESCRIPTOR)) {
    *count = 1;
    return give_one(*object, out, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  }
  if (asked(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR,
            CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR)) {
    *count = 1;
    return give_one(*object, out, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
  }
  if (asked(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR,
            CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE)) {
    return give(std::vector{CUDNN_KNOB_TYPE_KERNEL_CFG}, wanted, count, out);
  }
  if (asked(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR,
            CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64)) {
    return give(std::vector{offer.knob}, wanted, count, out);
  }
  if (asked(CUDNN_BACKEND_ENGINE_DESCRIPTOR, CUDNN_ATTR_ENGINE_GLOBAL_INDEX,
            CUDNN_TYPE_INT64)) {
    return give(std::vector{offer.index}, wanted, count, out);
  }
  if (asked(CUDNN_BACKEND_ENGINE_DESCRIPTOR, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
            CUDNN_TYPE_NUMERICAL_NOTE)) {
    return give(notes_of(offer), wanted, count, out);
  }
  if (asked(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR,
            CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64)) {
    const bool is_greedy = offer.kind == DnnOffer::Kind::greedy;
    return give(std::vector{is_greedy ? kGreedyBytes : kWorkspaceBytes}, wanted,
                count, out);
  }
  return dnn_failure(CUDNN_STATUS_NOT_SUPPORTED, "an attribute nobody reads");
}

/// Binds a graph's tensors to what the caller gave. False when something is
/// missing or not as aligned as the graph says.
bool bind(const DnnObject& graph, const DnnObject& pack,
          DnnExecution& execution) {
  std::map<std::int64_t, void*> given;
  const auto ids = pack.all<std::int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const auto pointers = pack.all<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (!given.emplace(ids[i], pointers[i]).second) {
      return false;
    }
  }
  for (const auto& operation :
       graph.values.at(CUDNN_ATTR_OPERATIONGRAPH_OPS).objects) {
    for (const auto& [name, values] : operation->values) {
      if (values.objects.empty() ||
          values.objects[0]->type != CUDNN_BACKEND_TENSOR_DESCRIPTOR ||
          values.objects[0]->one<bool>(CUDNN_ATTR_TENSOR_IS_VIRTUAL)) {
        continue;
      }
      const DnnObject& tensor = *values.objects[0];
      const auto id = tensor.one<std::int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID);
      const auto found = given.find(id);
      const auto alignment = static_cast<std::uintptr_t>(
          tensor.one<std::int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT));
      if (found == given.end() || found->second == nullptr ||
          reinterpret_cast<std::uintptr_t>(found->second) % alignment != 0) {
        return false;
      }
      if (tensor.one<bool>(CUDNN_ATTR_TENSOR_IS_BY_VALUE)) {
        std::memcpy(&execution.numbers[id], found->second, sizeof(float));
      } else {
        execution.memory[id] = static_cast<std::byte*>(found->second);
      }
    }
  }
  return true;
}

cudnnStatus_t execute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan_at,
                      cudnnBackendDescriptor_t pack_at) {
  const auto plan = dnn_object(plan_at);
  const auto pack = dnn_object(pack_at);
  if (!is_handle(handle) || plan == nullptr || pack == nullptr ||
      !plan->is_final || !pack->is_final ||
      plan->type != CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR ||
      pack->type != CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR ||
      plan->one<const void*>(CUDNN_ATTR_EXECUTION_PLAN_HANDLE) != handle) {
    return dnn_failure(CUDNN_STATUS_BAD_PARAM, "nothing that can run");
  }
  const auto* config = plan->object(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  DnnExecution execution;
  execution.graph =
      config->values.at(CUDNN_ATTR_ENGINE_OPERATION_GRAPH).objects.front();
  execution.offer = plan->offer;
  execution.backwards = dnn_behaviour().bits_depend_on_batch;
  execution.few_backwards = dnn_behaviour().bits_depend_on_queries;
  execution.low_backwards = dnn_behaviour().bits_depend_on_height;
  execution.workspace_bytes = kWorkspaceBytes;
  execution.workspace =
      pack->one<std::byte*>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
  if (execution.workspace == nullptr ||
      !bind(*execution.graph, *pack, execution)) {
    return dnn_failure(CUDNN_STATUS_BAD_PARAM,
                       "a tensor or the workspace is not bound, or not aligned "
                       "as promised");
  }
  const cudaStream_t stream =
      reinterpret_cast<DnnHandleObject*>(handle)->stream;
  const cudaError_t status =
      enqueue(stream, "cuDNN graph",
              [execution = std::move(execution)] { execution.run(); });
  if (status != cudaSuccess) {
    return CUDNN_STATUS_EXECUTION_FAILED_CUDART;
  }
  const std::lock_guard lock(state().mutex);
  ++state().counters.executions;
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace

void set_dnn_behaviour(const DnnBehaviour& behaviour) {
  const std::lock_guard lock(state().mutex);
  state().behaviour = behaviour;
  state().counters = {};
}

DnnBehaviour dnn_behaviour() {
  const std::lock_guard lock(state().mutex);
  return state().behaviour;
}

DnnCounters dnn_counters() {
  const std::lock_guard lock(state().mutex);
  return state().counters;
}

kernels::cuda::Dnn emulated_dnn() {
  return {.create = create,
          .destroy = destroy,
          .set_stream = set_stream,
          .version = version,
          .error_string = error_string,
          .last_error_string = dnn_last_error,
          .create_descriptor = dnn_create_descriptor,
          .destroy_descriptor = dnn_destroy_descriptor,
          .set_attribute = dnn_set_attribute,
          .get_attribute = get_attribute,
          .finalize = finalize,
          .execute = execute};
}

}  // namespace troupe::emulator
