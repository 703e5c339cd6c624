#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "kernels/elementwise.h"
#include "tests/cuda/support.h"
#include "tests/parallel/support.h"

// Samplers on a GPU with the networks of tests/parallel, which compute on the
// host.

namespace troupe::samplers::testing {

/// A toy network for a context of any device: rows go to the host, through the
/// network, and back. Branches are combined where they are.
class PortedEvaluator : public Evaluator {
 public:
  explicit PortedEvaluator(ToyEvaluator& inner) : inner_(inner) {}

  [[nodiscard]] Shape latent_shape() const override {
    return inner_.latent_shape();
  }
  [[nodiscard]] std::int64_t out_channels() const override {
    return inner_.out_channels();
  }
  [[nodiscard]] int num_segments() const override {
    return inner_.num_segments();
  }
  void evaluate(ExecContext& ctx, std::span<EvaluateRow> rows) override {
    std::vector<EvaluateRow> at_host(rows.begin(), rows.end());
    for (EvaluateRow& row : at_host) {
      row.latents = kernels::on_host(ctx, row.latents);
      row.output = Tensor(row.output.shape(), DType::f32);
    }
    inner_.evaluate(host_, at_host);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      kernels::copy(ctx, at_host[i].output, rows[i].output);
    }
  }
  void evaluate_cached(ExecContext& ctx, std::span<CachedRow> rows) override {
    std::vector<CachedRow> at_host(rows.begin(), rows.end());
    for (CachedRow& row : at_host) {
      row.latents = kernels::on_host(ctx, row.latents);
      row.output = Tensor(row.output.shape(), DType::f32);
      for (NamedTensor& named : row.cache) {
        named.tensor = kernels::on_host(ctx, named.tensor);
      }
    }
    inner_.evaluate_cached(host_, at_host);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      kernels::copy(ctx, at_host[i].output, rows[i].output);
      rows[i].is_reused = at_host[i].is_reused;
      rows[i].cache = at_host[i].cache;
      for (NamedTensor& named : rows[i].cache) {
        named.tensor = kernels::on_device(ctx, named.tensor);
      }
    }
  }
  void combine(ExecContext& ctx, double /*timestep*/, const Tensor& cond,
               const Tensor& uncond, Tensor& out) override {
    kernels::guide(ctx, cond, uncond, 1.5, latent_shape()[0], out);
  }
  void run_segment(ExecContext& ctx, int segment,
                   std::span<SegmentRow> rows) override {
    std::vector<SegmentRow> at_host(rows.begin(), rows.end());
    for (SegmentRow& row : at_host) {
      row.latents = kernels::on_host(ctx, row.latents);
      for (NamedTensor& named : row.boundary) {
        named.tensor = kernels::on_host(ctx, named.tensor);
      }
      if (!row.output.empty()) {
        row.output = Tensor(row.output.shape(), DType::f32);
      }
    }
    inner_.run_segment(host_, segment, at_host);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      rows[i].boundary = at_host[i].boundary;
      for (NamedTensor& named : rows[i].boundary) {
        named.tensor = kernels::on_device(ctx, named.tensor);
      }
      if (!rows[i].output.empty()) {
        kernels::copy(ctx, at_host[i].output, rows[i].output);
      }
    }
  }
  void decode(ExecContext& ctx, const Tensor& latents,
              Tensor& pixels) override {
    pixels = kernels::on_host(ctx, latents);
  }

 private:
  ToyEvaluator& inner_;
  ExecContext host_;
};

/// A state whose tensors are all on ctx's device.
[[nodiscard]] inline SolverState upload(ExecContext& ctx, SolverState state) {
  const auto move = [&](Tensor& tensor) {
    tensor = kernels::on_device(ctx, tensor);
  };
  move(state.latents);
  move(state.anchor);
  move(state.slope);
  for (Tensor& tensor : state.history) {
    move(tensor);
  }
  return state;
}

/// Tensors of a state that has some.
[[nodiscard]] inline std::vector<Tensor> tensors_of(const SolverState& state) {
  std::vector<Tensor> tensors = {state.latents};
  for (const Tensor& tensor : {state.anchor, state.slope}) {
    if (!tensor.empty()) {
      tensors.push_back(tensor);
    }
  }
  tensors.insert(tensors.end(), state.history.begin(), state.history.end());
  return tensors;
}

}  // namespace troupe::samplers::testing
