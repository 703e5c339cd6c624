#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/core/dtype.h"
#include "kernels/cuda/libraries.cuh"

// cuDNN's graph interface. Operations on tensor descriptions make a graph; the
// library proposes engines for it; a plan is a graph with an engine that runs
// it.
// Source: NVIDIA cuDNN 9 backend API reference, "cudnn_graph library".

namespace troupe::kernels::cuda {

/// Throws the error that `status` means: Errc::unsupported where the library
/// refuses the request (a later version or another shape may work),
/// Errc::device_full or Errc::internal; for a failed execution, the error of
/// the CUDA runtime.
void check(const Dnn& dnn, cudnnStatus_t status, std::string_view place);

/// A descriptor of the library, destroyed with its owner.
class DnnDescriptor {
 public:
  DnnDescriptor() = default;
  /// Errors: Errc::unsupported when the library does not know the type.
  DnnDescriptor(const Dnn& dnn, cudnnBackendDescriptorType_t type);
  ~DnnDescriptor();
  DnnDescriptor(DnnDescriptor&& other) noexcept;
  DnnDescriptor& operator=(DnnDescriptor&& other) noexcept;

  [[nodiscard]] cudnnBackendDescriptor_t get() const { return descriptor_; }

  /// Errors (all): Errc::unsupported.
  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
           std::int64_t count, const void* values);
  template <typename Value>
  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
           const Value& value) {
    set(name, type, 1, &value);
  }
  void set(cudnnBackendAttributeName_t name, const DnnDescriptor& value);
  void set_integers(cudnnBackendAttributeName_t name,
                    const std::vector<std::int64_t>& values);
  void finalize();

  /// The number of values written, at most `capacity`.
  std::int64_t read(cudnnBackendAttributeName_t name,
                    cudnnBackendAttributeType_t type, std::int64_t capacity,
                    void* values) const;
  template <typename Value>
  [[nodiscard]] Value read(cudnnBackendAttributeName_t name,
                           cudnnBackendAttributeType_t type) const {
    Value value{};
    read(name, type, 1, &value);
    return value;
  }

 private:
  const Dnn* dnn_ = nullptr;
  cudnnBackendDescriptor_t descriptor_ = nullptr;
};

/// The device that plans are made for: a handle's device, or a mere description
/// (without a GPU, plans can be made but not run).
struct DnnTarget {
  const Dnn& dnn;
  cudnnHandle_t handle = nullptr;
  const DnnDescriptor* device = nullptr;  ///< CUDNN_BACKEND_DEVICEPROP
};

/// A tensor of four axes as an operation sees it.
struct DnnTensor {
  enum class Kind : std::uint8_t {
    memory,   ///< bound to an address when the plan runs
    between,  ///< a result that only another operation of the graph reads
    number    ///< one value, read from the host when the plan is queued
  };
  std::int64_t id = 0;
  DType dtype = DType::f32;
  std::array<std::int64_t, 4> dims{};
  std::array<std::int64_t, 4> strides{};  ///< in elements
  std::int64_t alignment = 16;            ///< of every address bound, bytes
  Kind kind = Kind::memory;
};

/// Several operations in one plan. Errors (all): Errc::unsupported.
class DnnGraph {
 public:
  explicit DnnGraph(const DnnTarget& target) : target_(target) {}

  /// y = x ⋆ w, sums in f32. Axes: x [N, I, H, W], w [O, I, kh, kw],
  /// y [N, O, P, Q], in whatever order the strides say. `padding_y` rows of
  /// zeros above x and below it, `padding_x` columns on either side.
  void convolve(const DnnTensor& x, const DnnTensor& w, const DnnTensor& y,
                std::int64_t stride, std::int64_t padding_y,
                std::int64_t padding_x);
  /// y = x + b in f32, b with axes of 1 where it is repeated.
  void add(const DnnTensor& x, const DnnTensor& b, const DnnTensor& y);
  /// y = x in another type.
  void convert(const DnnTensor& x, const DnnTensor& y);
  /// o = softmax(scale · q·kᵀ) · v per item and head: axes [B, H, N, D]. The
  /// library's own flash attention; cuDNN 9.13.1 and later.
  void attend(const DnnTensor& q, const DnnTensor& k, const DnnTensor& v,
              const DnnTensor& scale, const DnnTensor& o);

 private:
  friend class DnnPlan;
  [[nodiscard]] const DnnDescriptor& tensor(const DnnTensor& tensor);
  [[nodiscard]] DnnDescriptor make(cudnnBackendDescriptorType_t type) const {
    return {target_.dnn, type};
  }
  void pointwise(cudnnPointwiseMode_t mode, const DnnTensor& x,
                 const DnnTensor* b, const DnnTensor& y);
  /// Finalises the operation and makes it the graph's next.
  void append(DnnDescriptor operation);
  [[nodiscard]] DnnDescriptor finish();

  DnnTarget target_;
  std::vector<std::pair<std::int64_t, DnnDescriptor>> tensors_;
  std::vector<DnnDescriptor> parts_;
  std::vector<DnnDescriptor> operations_;
};

/// One of the library's implementations: an engine and its settings.
struct DnnEngine {
  std::int64_t index = -1;
  std::vector<std::pair<std::int32_t, std::int64_t>> knobs;

  bool operator==(const DnnEngine&) const = default;
};

/// What an engine must comply with.
struct DnnRules {
  /// Off: f32 products are exact, not TF32.
  bool tensor_cores = true;
  std::int64_t max_workspace_bytes = std::int64_t{256} << 20U;
  /// If set, this engine and no other.
  const DnnEngine* only = nullptr;
};

/// A graph with the engine that runs it, ready to be queued any number of
/// times. The first engine in the library's order of preference that complies
/// is taken; none is timed. So the choice depends on graph, library and device
/// alone. Refused are engines whose bits may vary from run to run, that sum in
/// less than f32, round their inputs or transform them (Winograd, FFT).
class DnnPlan {
 public:
  /// Nothing when no engine complies with the rules; *why then says what was
  /// refused. Takes up to seconds, because some engines are compiled.
  [[nodiscard]] static std::optional<DnnPlan> find(DnnGraph graph,
                                                   const DnnRules& rules,
                                                   std::string* why);

  [[nodiscard]] cudnnBackendDescriptor_t get() const { return plan_.get(); }
  [[nodiscard]] std::int64_t workspace_bytes() const {
    return workspace_bytes_;
  }
  [[nodiscard]] const DnnEngine& engine() const { return engine_; }

 private:
  DnnPlan(DnnGraph graph) : graph_(std::move(graph)) {}
  [[nodiscard]] std::vector<DnnDescriptor> propose(
      cudnnBackendHeurMode_t mode) const;
  /// An engine with its settings, which the library need not have proposed.
  /// Errors: Errc::unsupported.
  [[nodiscard]] DnnDescriptor settings(const DnnEngine& engine);
  /// Takes the proposed engine if it complies with the rules and can be used.
  [[nodiscard]] bool take(DnnDescriptor proposal, const DnnRules& rules,
                          std::string* why);

  // As long as a plan lives, the library may read what it was made from.
  DnnGraph graph_;
  DnnDescriptor operations_;
  std::vector<DnnDescriptor> parts_;  ///< of `settings`
  DnnDescriptor config_;
  DnnDescriptor plan_;
  std::int64_t workspace_bytes_ = 0;
  DnnEngine engine_;
};

}  // namespace troupe::kernels::cuda
