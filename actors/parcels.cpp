#include "actors/parcels.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace troupe::actors {
namespace {

using samplers::SlotTable;
using samplers::SolverState;

constexpr const char* kTensor = "tensor";
constexpr const char* kBoundary = "boundary";
constexpr const char* kState = "state";
constexpr const char* kLatents = "latents";
constexpr const char* kHistory = "history";
constexpr const char* kAnchor = "anchor";
constexpr const char* kSlope = "slope";

/// Of any multistep solver.
constexpr int kHighestOrder = 4;

Tensor numbers_of(const SolverState& state) {
  std::vector<std::int64_t> numbers{state.order};
  numbers.insert(numbers.end(), state.history_calls.begin(),
                 state.history_calls.end());
  return Tensor::from<std::int64_t>(
      numbers, Shape{static_cast<std::int64_t>(numbers.size())});
}

/// False if they are no such numbers.
bool read_numbers(const Tensor& tensor, SolverState& state) {
  if (tensor.dtype() != DType::i64 || tensor.empty()) {
    return false;
  }
  std::vector<int> numbers;
  for (const std::int64_t number : tensor.span<std::int64_t>()) {
    if (number < 0 || number > std::numeric_limits<int>::max()) {
      return false;
    }
    numbers.push_back(static_cast<int>(number));
  }
  state.order = numbers.front();
  state.history_calls.assign(numbers.begin() + 1, numbers.end());
  return true;
}

std::optional<SlotTable::Value> state_of(const Parcel& parcel) {
  SolverState state;
  if (!read_numbers(parcel[0].tensor, state)) {
    return std::nullopt;
  }
  for (std::size_t i = 1; i < parcel.size(); ++i) {
    const auto& [name, tensor] = parcel[i];
    if (name == kHistory) {
      state.history.push_back(tensor);
      continue;
    }
    Tensor* const place = name == kLatents  ? &state.latents
                          : name == kAnchor ? &state.anchor
                          : name == kSlope  ? &state.slope
                                            : nullptr;
    if (place == nullptr || !place->empty()) {
      return std::nullopt;
    }
    *place = tensor;
  }
  // Heun remembers a call, and not its output; its order is 0.
  const bool is_whole =
      !state.latents.empty() && state.order <= kHighestOrder &&
      state.history.size() <= state.history_calls.size() &&
      (state.order > 0 || state.history.empty() || state.anchor.empty());
  return is_whole ? std::optional<SlotTable::Value>(std::move(state))
                  : std::nullopt;
}

Parcel packed(const Tensor& tensor, HostReader& reader) {
  return {{kTensor, reader.read(tensor)}};
}

Parcel packed(const Boundary& boundary, HostReader& reader) {
  Parcel parcel{{kBoundary, Tensor()}};
  for (const NamedTensor& one : boundary) {
    parcel.push_back({one.name, reader.read(one.tensor)});
  }
  return parcel;
}

Parcel packed(const SolverState& state, HostReader& reader) {
  Parcel parcel{{kState, numbers_of(state)},
                {kLatents, reader.read(state.latents)}};
  for (const Tensor& one : state.history) {
    parcel.push_back({kHistory, reader.read(one)});
  }
  if (!state.anchor.empty()) {
    parcel.push_back({kAnchor, reader.read(state.anchor)});
  }
  if (!state.slope.empty()) {
    parcel.push_back({kSlope, reader.read(state.slope)});
  }
  return parcel;
}

}  // namespace

Parcel pack(const SlotTable::Value& value, HostReader& reader) {
  return std::visit([&reader](const auto& one) { return packed(one, reader); },
                    value);
}

std::optional<SlotTable::Value> unpack(const Parcel& parcel) {
  if (parcel.empty()) {
    return std::nullopt;
  }
  const std::string& kind = parcel.front().name;
  if (kind == kTensor && parcel.size() == 1) {
    return parcel.front().tensor;
  }
  if (kind == kBoundary) {
    return Boundary(parcel.begin() + 1, parcel.end());
  }
  return kind == kState ? state_of(parcel) : std::nullopt;
}

}  // namespace troupe::actors
