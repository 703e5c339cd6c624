#include "kernels/check.h"
#include "kernels/cuda/devices.h"
#include "kernels/cuda/ops.h"

// A build without CUDA: the same functions, which say so.

namespace troupe {

std::shared_ptr<DeviceBackend> make_device_backend(
    Device device, const DeviceOptions& /*options*/) {
  throw Error(Errc::unsupported, to_string(device),
              "this build has no CUDA device layer",
              "run on the CPU (--device cpu), or build with the cuda preset");
}

}  // namespace troupe

namespace troupe::kernels {

CudaDevices cuda_devices() {
  return {{}, "this build has no CUDA device layer"};
}

DeviceMemory cuda_memory(int index) {
  throw Error(Errc::unsupported, to_string(Device{DeviceKind::cuda, index}),
              "this build has no CUDA device layer");
}

std::vector<LibraryVersion> cuda_libraries() { return {}; }

namespace cuda {

void activate(ExecContext& ctx, const Tensor& /*x*/, Activation /*activation*/,
              Tensor& /*out*/) {
  throw_no_backend("activate", ctx.device());
}

void activate_gated(ExecContext& ctx, const Tensor& /*x*/,
                    Activation /*activation*/, Tensor& /*out*/) {
  throw_no_backend("activate_gated", ctx.device());
}

void softmax(ExecContext& ctx, const Tensor& /*x*/, Tensor& /*out*/) {
  throw_no_backend("softmax", ctx.device());
}

void attention(ExecContext& ctx, const HeadsView& /*q*/, const HeadsView& /*k*/,
               const HeadsView& /*v*/, std::int64_t /*num_heads*/,
               std::int64_t /*head_dim*/, const WholeItem& /*whole*/,
               Tensor& /*out*/) {
  throw_no_backend("attention", ctx.device());
}

bool can_multiply(ExecContext& ctx, DType /*compute*/) {
  throw_no_backend("can_multiply", ctx.device());
}

LinearWeights pack_linear(ExecContext& ctx, const Tensor& /*weight*/,
                          const Tensor& /*bias*/, DType /*compute*/) {
  throw_no_backend("pack_linear", ctx.device());
}

void linear(ExecContext& ctx, const Tensor& /*x*/,
            const LinearWeights& /*weights*/, Activation /*activation*/,
            std::int64_t /*whole_rows*/, Tensor& /*out*/) {
  throw_no_backend("linear", ctx.device());
}

void linear_add_gated(ExecContext& ctx, const Tensor& /*x*/,
                      const LinearWeights& /*weights*/,
                      const Tensor& /*modulation*/,
                      std::int64_t /*gate_column*/, std::int64_t /*whole_rows*/,
                      Tensor& /*residual*/) {
  throw_no_backend("linear_add_gated", ctx.device());
}

Tensor pinned_memory(ExecContext& ctx, std::int64_t /*bytes*/) {
  throw_no_backend("weights", ctx.device());
}

void visit_weights(ExecContext& ctx, const Tensor& /*group*/,
                   const Tensor& /*next*/, std::size_t /*room*/) {
  throw_no_backend("weights", ctx.device());
}

Tensor visiting_weight(ExecContext& ctx, const Tensor& /*pinned*/) {
  throw_no_backend("weights", ctx.device());
}

ConvWeights pack_conv2d(ExecContext& ctx, const Tensor& /*weight*/,
                        const Tensor& /*bias*/, std::int64_t /*stride*/,
                        std::int64_t /*padding*/, DType /*compute*/) {
  throw_no_backend("pack_conv2d", ctx.device());
}

void conv2d(ExecContext& ctx, const Tensor& /*x*/,
            const ConvWeights& /*weights*/, Tensor& /*out*/) {
  throw_no_backend("conv2d", ctx.device());
}

void upsample_nearest2x(ExecContext& ctx, const Tensor& /*x*/,
                        Tensor& /*out*/) {
  throw_no_backend("upsample_nearest2x", ctx.device());
}

void layer_norm_modulate(ExecContext& ctx, const Tensor& /*x*/,
                         const Tensor& /*modulation*/,
                         std::int64_t /*shift_column*/,
                         std::int64_t /*scale_column*/, float /*eps*/,
                         Tensor& /*out*/) {
  throw_no_backend("layer_norm_modulate", ctx.device());
}

void add_gated_layer_norm_modulate(ExecContext& ctx,
                                   const Tensor& /*modulation*/,
                                   std::int64_t /*gate_column*/,
                                   const Tensor& /*y*/,
                                   std::int64_t /*shift_column*/,
                                   std::int64_t /*scale_column*/, float /*eps*/,
                                   Tensor& /*x*/, Tensor& /*out*/) {
  throw_no_backend("add_gated_layer_norm_modulate", ctx.device());
}

void rms_norm(ExecContext& ctx, const Tensor& /*x*/, const Tensor& /*weight*/,
              float /*eps*/, Tensor& /*out*/) {
  throw_no_backend("rms_norm", ctx.device());
}

void group_norm(ExecContext& ctx, const Tensor& /*x*/, const Tensor& /*weight*/,
                const Tensor& /*bias*/, std::int64_t /*num_groups*/,
                float /*eps*/, Activation /*activation*/, Tensor& /*out*/) {
  throw_no_backend("group_norm", ctx.device());
}

void rms_norm_rope(ExecContext& ctx, const Tensor& /*weight*/,
                   const Tensor& /*cosines*/, const Tensor& /*sines*/,
                   std::int64_t /*num_heads*/, std::int64_t /*head_dim*/,
                   float /*eps*/, HeadsView& /*x*/) {
  throw_no_backend("rms_norm_rope", ctx.device());
}

void add_gated(ExecContext& ctx, const Tensor& /*modulation*/,
               std::int64_t /*gate_column*/, const Tensor& /*y*/,
               Tensor& /*x*/) {
  throw_no_backend("add_gated", ctx.device());
}

void add(ExecContext& ctx, const Tensor& /*y*/, Tensor& /*x*/) {
  throw_no_backend("add", ctx.device());
}

void convert(ExecContext& ctx, const Tensor& /*x*/, Tensor& /*out*/) {
  throw_no_backend("convert", ctx.device());
}

void combine(ExecContext& ctx, std::span<const Term> /*terms*/,
             Tensor& /*out*/) {
  throw_no_backend("combine", ctx.device());
}

void clamp(ExecContext& ctx, float /*low*/, float /*high*/, Tensor& /*x*/) {
  throw_no_backend("clamp", ctx.device());
}

void guide(ExecContext& ctx, const Tensor& /*cond*/, const Tensor& /*uncond*/,
           float /*scale*/, std::int64_t /*num_guided*/, Tensor& /*out*/) {
  throw_no_backend("guide", ctx.device());
}

void scale_by_learned_variance(ExecContext& ctx, const Tensor& /*variance*/,
                               bool /*is_range*/, float /*low*/, float /*high*/,
                               Tensor& /*noise*/) {
  throw_no_backend("scale_by_learned_variance", ctx.device());
}

void sum_squared_difference(ExecContext& ctx, const Tensor& /*a*/,
                            const Tensor& /*b*/, Tensor& /*values*/,
                            std::size_t /*index*/) {
  throw_no_backend("sum_squared_difference", ctx.device());
}

void sum_squares(ExecContext& ctx, const Tensor& /*a*/, Tensor& /*values*/,
                 std::size_t /*index*/) {
  throw_no_backend("sum_squares", ctx.device());
}

void bytes_equal(ExecContext& ctx, const Tensor& /*a*/, const Tensor& /*b*/,
                 Tensor& /*values*/, std::size_t /*index*/) {
  throw_no_backend("bytes_equal", ctx.device());
}

void all_finite(ExecContext& ctx, const Tensor& /*x*/, Tensor& /*values*/,
                std::size_t /*index*/) {
  throw_no_backend("all_finite", ctx.device());
}

void add_carry(ExecContext& ctx, const Tensor& /*step*/, float /*carry*/,
               const Tensor& /*x_new*/, const Tensor& /*x_old*/,
               Tensor& /*out*/) {
  throw_no_backend("add_carry", ctx.device());
}

void gather(ExecContext& ctx, std::span<const Tensor> /*rows*/,
            Tensor& /*out*/) {
  throw_no_backend("gather", ctx.device());
}

void scatter(ExecContext& ctx, const Tensor& /*in*/,
             std::span<Tensor> /*rows*/) {
  throw_no_backend("scatter", ctx.device());
}

void patchify(ExecContext& ctx, const Tensor& /*x*/,
              std::int64_t /*patch_size*/, Tensor& /*out*/) {
  throw_no_backend("patchify", ctx.device());
}

void unpatchify(ExecContext& ctx, const Tensor& /*x*/,
                std::int64_t /*patch_size*/, Tensor& /*out*/) {
  throw_no_backend("unpatchify", ctx.device());
}

void to_channels_last(ExecContext& ctx, const Tensor& /*x*/, Tensor& /*out*/) {
  throw_no_backend("to_channels_last", ctx.device());
}

void to_channels_first(ExecContext& ctx, const Tensor& /*x*/, Tensor& /*out*/) {
  throw_no_backend("to_channels_first", ctx.device());
}

}  // namespace cuda
}  // namespace troupe::kernels
