// What transformers computes, stored.

#include "kernels/linear.h"
#include "tests/models/helpers.h"
#include "tests/models/text/encoder_cases.h"

namespace troupe::models {
namespace {

class TextEncoderGolden : public testing::TestWithParam<std::filesystem::path> {
 protected:
  /// Calls `compare(name, ours, file)` for every tensor of every case.
  template <typename Compare>
  void for_each_result(DType compute, const Compare& compare) {
    ExecContext ctx(2);
    const EncoderFolder folder(GetParam());
    const auto encoder = folder.load(ctx, compute);
    const SafetensorsFile golden(GetParam() / "golden.safetensors");
    int count = 0;
    while (const auto one = read_case(golden, count)) {
      const EncodedText text = one->run(ctx, *encoder);
      const std::string name = std::to_string(count++);
      compare(name + ".hidden", text.hidden, golden);
      if (golden.find(name + ".pooled")) {
        compare(name + ".pooled", text.pooled, golden);
      } else {
        EXPECT_TRUE(text.pooled.empty());
      }
    }
    EXPECT_GE(count, 6);
  }
};

TEST_P(TextEncoderGolden, MatchesTransformersInF32) {
  double worst = 0.0;
  for_each_result(DType::f32, [&](const std::string& name, const Tensor& ours,
                                  const SafetensorsFile& golden) {
    const double error = relative_error(ours, golden.read(*golden.find(name)));
    EXPECT_LE(error, 2e-5) << name;
    worst = std::max(worst, error);
  });
  RecordProperty("relative_l2", std::to_string(worst * 1e6) + "e-6");
}

TEST_P(TextEncoderGolden, Bf16ErrorIsAtMostTransformersOwn) {
  if (!kernels::supports(DType::bf16)) {
    GTEST_SKIP() << "no bf16 on this CPU";
  }
  double worst = 0.0;
  for_each_result(DType::bf16, [&](const std::string& name, const Tensor& ours,
                                   const SafetensorsFile& golden) {
    const Tensor exact = golden.read(*golden.find(name));
    const double theirs =
        relative_error(golden.read(*golden.find(name + "_bf16")), exact);
    const double ratio = relative_error(ours, exact) / theirs;
    EXPECT_LE(ratio, 1.5) << name;
    worst = std::max(worst, ratio);
  });
  RecordProperty("ratio", std::to_string(worst));
}

TEST_P(TextEncoderGolden, HasNoTensorThatItsClassLacks) {
  const EncoderFolder folder(GetParam());
  const UnusedTensors unused = check_class_tensors(
      folder.files, "here", folder.class_name, folder.description->tensors());
  EXPECT_EQ(unused.count, 0U);
}

TEST_P(TextEncoderGolden, HashIsKnownWithoutPacking) {
  ExecContext ctx;
  const EncoderFolder folder(GetParam());
  FileWeights weights(ctx, folder.files);
  EXPECT_EQ(folder.description->weights_hash(ctx, weights),
            folder.load(ctx, DType::f32)->weights_hash());
}

TEST_P(TextEncoderGolden, IgnoresPositionIds) {
  const EncoderFolder folder(GetParam());
  const TemporaryFolder other;
  const NamedTensor ids{"text_model.embeddings.position_ids",
                        Tensor::zeros({1, 77}, DType::i64)};
  write_safetensors(other.path() / "ids.safetensors", {&ids, 1});
  const TensorFiles files(
      {GetParam() / "model.safetensors", other.path() / "ids.safetensors"});
  const UnusedTensors unused = check_class_tensors(
      files, "here", folder.class_name, folder.description->tensors());
  EXPECT_EQ(unused.count, 1U);
}

INSTANTIATE_TEST_SUITE_P(Folders, TextEncoderGolden,
                         testing::ValuesIn(golden_folders("text_")),
                         [](const auto& item) {
                           return item.param.filename().string();
                         });

}  // namespace
}  // namespace troupe::models
