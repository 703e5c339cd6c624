// Text encoders on a GPU against the CPU.

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tests/cuda/support.h"
#include "tests/models/helpers.h"
#include "tests/models/text/encoder_cases.h"

namespace troupe::models {
namespace {

using kernels::CudaTest;
using kernels::kGpu;

struct GpuEncoderCase {
  const char* name;
  const char* folder;
  DType compute;
  double tolerance;  ///< ‖gpu − cpu‖ / ‖cpu‖, the CPU in f32
};

class TextEncoderOnGpu : public CudaTest,
                         public testing::WithParamInterface<GpuEncoderCase> {
 protected:
  [[nodiscard]] static std::filesystem::path folder() {
    return std::filesystem::path(TROUPE_GOLDEN_DIR) / GetParam().folder;
  }
};

TEST_P(TextEncoderOnGpu, AgreesWithTheCpu) {
  ExecContext cpu;
  ExecContext gpu(1, kGpu);
  const EncoderFolder files(folder());
  const auto there = files.load(cpu, DType::f32);
  const auto here = files.load(gpu, GetParam().compute);
  EXPECT_EQ(here->weights_hash(), there->weights_hash());
  const SafetensorsFile golden(folder() / "golden.safetensors");
  // The longest take seconds on an emulated GPU.
  for (const int i : {1, 4}) {
    const auto one = read_case(golden, i);
    ASSERT_TRUE(one.has_value());
    const EncodedText want = one->run(cpu, *there);
    const EncodedText got = one->run(gpu, *here);
    const EncodedText again = one->run(gpu, *here);
    EXPECT_LE(relative_error(got.hidden, want.hidden), GetParam().tolerance)
        << i;
    EXPECT_TRUE(bytes_equal(again.hidden, got.hidden)) << i;
    if (!want.pooled.empty()) {
      EXPECT_LE(relative_error(got.pooled, want.pooled), GetParam().tolerance)
          << i;
    }
  }
}

TEST_P(TextEncoderOnGpu, NeverSeesWhatPadsTheText) {
  ExecContext gpu(1, kGpu);
  const auto encoder = EncoderFolder(folder()).load(gpu, GetParam().compute);
  const EncoderCase text{{3, 17, 40, 98, 5, 6}, 4, {}};
  const EncoderCase padded{{3, 17, 40, 98, 0, 0}, 4, {}};
  EXPECT_TRUE(bytes_equal(padded.run(gpu, *encoder).hidden.slice(0, 4),
                          text.run(gpu, *encoder).hidden.slice(0, 4)));
}

TEST_P(TextEncoderOnGpu, RefusesIdsOutsideTheVocabulary) {
  ExecContext gpu(1, kGpu);
  const auto encoder = EncoderFolder(folder()).load(gpu, GetParam().compute);
  const Error error = error_of([&] {
    (void)EncoderCase{{3, 99}, 2, {}}.run(gpu, *encoder);
  });
  EXPECT_EQ(error.code(), Errc::invalid_argument);
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, TextEncoderOnGpu,
    testing::Values(GpuEncoderCase{"clip_f32", "text_clip", DType::f32, 1e-5},
                    GpuEncoderCase{"clip_bf16", "text_clip", DType::bf16, 3e-2},
                    GpuEncoderCase{"projection_f32", "text_clip_projection",
                                   DType::f32, 1e-5},
                    GpuEncoderCase{"projection_f16", "text_clip_projection",
                                   DType::f16, 4e-3},
                    GpuEncoderCase{"t5_f32", "text_t5", DType::f32, 1e-5},
                    GpuEncoderCase{"t5_bf16", "text_t5", DType::bf16, 3e-2},
                    GpuEncoderCase{"t5_plain_f32", "text_t5_plain", DType::f32,
                                   1e-5}),
    [](const auto& item) { return std::string(item.param.name); });

}  // namespace
}  // namespace troupe::models
