#pragma once

#include <cudnn.h>

#include <cstddef>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

// Descriptors of the emulated cuDNN: what was set, checked against what the
// library documents.

namespace troupe::emulator {

struct DnnHandleObject {
  cudaStream_t stream = nullptr;
};

/// A kernel that the emulated library offers.
struct DnnOffer {
  enum class Kind : std::uint8_t {
    good,
    rounds,      ///< noted as using tensor cores: TF32 for f32
    varies,      ///< noted as not deterministic; computes nonsense
    transforms,  ///< noted as Winograd; computes nonsense
    refuses,     ///< cannot be planned
    vanishes,    ///< announced by the heuristics and then not delivered
    greedy,      ///< wants more workspace than there is memory
  };
  std::int64_t index = 0;
  std::int64_t knob = 0;
  Kind kind = Kind::good;
};

struct DnnObject {
  struct Values {
    cudnnBackendAttributeType_t type{};
    std::int64_t count = 0;
    std::vector<std::byte> bytes;
    std::vector<std::shared_ptr<const DnnObject>> objects;
  };

  cudnnBackendDescriptorType_t type{};
  bool is_final = false;
  std::map<cudnnBackendAttributeName_t, Values> values;
  DnnOffer offer;                 ///< of engines, their settings, and knobs
  std::vector<DnnOffer> results;  ///< of heuristics

  [[nodiscard]] bool has(cudnnBackendAttributeName_t name) const {
    return values.count(name) != 0;
  }
  template <typename Value>
  [[nodiscard]] std::vector<Value> all(cudnnBackendAttributeName_t name) const {
    const auto found = values.find(name);
    std::vector<Value> read;
    if (found != values.end()) {
      read.resize(static_cast<std::size_t>(found->second.count));
      std::memcpy(read.data(), found->second.bytes.data(),
                  found->second.bytes.size());
    }
    return read;
  }
  /// The first value, or `otherwise`.
  template <typename Value>
  [[nodiscard]] Value one(cudnnBackendAttributeName_t name,
                          Value otherwise = {}) const {
    const auto found = values.find(name);
    if (found != values.end()) {
      std::memcpy(&otherwise, found->second.bytes.data(), sizeof(Value));
    }
    return otherwise;
  }
  /// The descriptor that an attribute names, or null.
  [[nodiscard]] const DnnObject* object(
      cudnnBackendAttributeName_t name) const {
    const auto found = values.find(name);
    return found == values.end() ? nullptr
                                 : found->second.objects.front().get();
  }
};

/// Null for what is not alive.
[[nodiscard]] std::shared_ptr<DnnObject> dnn_object(const void* descriptor);
/// Keeps why a call failed for cudnnGetLastErrorString, and gives `status`.
cudnnStatus_t dnn_failure(cudnnStatus_t status, const char* why);

/// Whether a descriptor that is about to become final makes sense.
[[nodiscard]] cudnnStatus_t check_dnn_object(const DnnObject& object);

// The library's functions, by the names of kernels/cuda/libraries.cuh.
cudnnStatus_t dnn_create_descriptor(cudnnBackendDescriptorType_t type,
                                    cudnnBackendDescriptor_t* descriptor);
cudnnStatus_t dnn_destroy_descriptor(cudnnBackendDescriptor_t descriptor);
cudnnStatus_t dnn_set_attribute(cudnnBackendDescriptor_t descriptor,
                                cudnnBackendAttributeName_t name,
                                cudnnBackendAttributeType_t type,
                                std::int64_t count, const void* values);
void dnn_last_error(char* message, std::size_t size);

/// Runs the plan's graph on the bound memory: what execution queues. Numbers
/// of the host are bound to copies.
struct DnnExecution {
  std::shared_ptr<const DnnObject> graph;
  DnnOffer offer;
  bool backwards = false;      ///< several items
  bool few_backwards = false;  ///< few queries
  bool low_backwards = false;  ///< images of few rows
  std::map<std::int64_t, std::byte*> memory;
  std::map<std::int64_t, float> numbers;
  std::byte* workspace = nullptr;
  std::int64_t workspace_bytes = 0;

  void run() const;
};

}  // namespace troupe::emulator
