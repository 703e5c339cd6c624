#include "kernels/cuda/numbers.cuh"
#include "kernels/cuda/ops.h"

namespace troupe::kernels::cuda {
namespace {

/// Images [B, C, H, W] and the patches that tile them.
struct Patches {
  std::int64_t channels;
  std::int64_t height;
  std::int64_t width;
  std::int64_t size;
};

/// [B, C, H, W] → [B, patches, C·p·p], a row in order (c, y, x). A thread
/// writes one element, its neighbours the next; reads are runs of a patch's
/// row in lines that other threads of the block read on in.
template <typename To>
struct Patchify {
  static constexpr const char* kName = "patchify";
  static constexpr int kThreads = 256;
  static constexpr bool kCooperates = false;

  Patches patches;
  const float* x;
  To* out;
  std::int64_t count;

  template <typename Lane>
  TROUPE_DEVICE void operator()(Lane& lane) const {
    const std::int64_t at = lane.block() * kThreads + lane.thread();
    if (at >= count) {
      return;
    }
    const std::int64_t p = patches.size;
    const std::int64_t run = at / p;
    const std::int64_t square = run / p;
    const std::int64_t token = square / patches.channels;
    const std::int64_t columns = patches.width / p;
    const std::int64_t band = token / columns;  // of patches, over all images
    const std::int64_t item = band / (patches.height / p);

    const std::int64_t c = square - token * patches.channels;
    const std::int64_t row =
        (band - item * (patches.height / p)) * p + (run - square * p);
    const std::int64_t column = (token - band * columns) * p + (at - run * p);
    out[at] = from_float<To>(
        x[((item * patches.channels + c) * patches.height + row) *
              patches.width +
          column]);
  }
};

/// [B, patches, p·p·C], a row in order (y, x, c) → [B, C, H, W].
struct Unpatchify {
  static constexpr const char* kName = "unpatchify";
  static constexpr int kThreads = 256;
  static constexpr bool kCooperates = false;

  Patches patches;
  const float* x;
  float* out;
  std::int64_t count;

  template <typename Lane>
  TROUPE_DEVICE void operator()(Lane& lane) const {
    const std::int64_t at = lane.block() * kThreads + lane.thread();
    if (at >= count) {
      return;
    }
    const std::int64_t p = patches.size;
    const std::int64_t line = at / patches.width;
    const std::int64_t plane = line / patches.height;
    const std::int64_t item = plane / patches.channels;
    const std::int64_t column = at - line * patches.width;
    const std::int64_t row = line - plane * patches.height;
    const std::int64_t c = plane - item * patches.channels;

    const std::int64_t band = item * (patches.height / p) + row / p;
    const std::int64_t token = band * (patches.width / p) + column / p;
    out[at] =
        x[((token * p + row % p) * p + column % p) * patches.channels + c];
  }
};

Patches patches_of(const Tensor& image, std::int64_t size) {
  return {image.dim(1), image.dim(2), image.dim(3), size};
}

}  // namespace

void patchify(ExecContext& ctx, const Tensor& x, std::int64_t patch_size,
              Tensor& out) {
  Backend& backend = Backend::of(ctx);
  with_element(out.dtype(), [&](auto element) {
    using To = decltype(element);
    using Kernel = Patchify<To>;
    const Kernel kernel{patches_of(x, patch_size), x.data<float>(),
                        out.data<To>(), out.num_elements()};
    launch(backend, kernel, {blocks_for(kernel.count, Kernel::kThreads)});
  });
}

void unpatchify(ExecContext& ctx, const Tensor& x, std::int64_t patch_size,
                Tensor& out) {
  Backend& backend = Backend::of(ctx);
  const Unpatchify kernel{patches_of(out, patch_size), x.data<float>(),
                          out.data<float>(), out.num_elements()};
  launch(backend, kernel, {blocks_for(kernel.count, Unpatchify::kThreads)});
}

}  // namespace troupe::kernels::cuda
