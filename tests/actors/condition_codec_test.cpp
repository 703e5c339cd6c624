#include "actors/wire/condition_codec.h"

#include <gtest/gtest.h>

#include <vector>

#include "kernels/core/error.h"

namespace troupe::actors {
namespace {

std::span<const std::byte> view_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

TEST(ConditionCodec, IsRefusedWhenItsBytesAreNone) {
  const std::string label = wire::encode(models::Condition(7));
  const auto refused = [](const std::string& bytes) {
    try {
      (void)wire::decode_condition(view_of(bytes));
      return std::string();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Errc::corrupt_file);
      return error.message();
    }
  };
  EXPECT_EQ(refused(label), "");
  EXPECT_NE(refused(label + label).find("twice"), std::string::npos);
  std::string many;  // of empty tensors: field 1, no bytes
  for (int i = 0; i < 65; ++i) {
    many += std::string("\x0a\x00", 2);
  }
  EXPECT_NE(refused(many).find("more than 64"), std::string::npos);
  EXPECT_NE(refused(label + "\xc0\x3e\x01").find("newer"), std::string::npos);
}

TEST(ConditionCodec, TravelsWithItsTensors) {
  models::Condition prompt;
  prompt.add("prompt_embeds", Tensor::zeros({4, 3}, DType::bf16), 2);
  prompt.add("pooled", Tensor::from<float>(std::vector{1.0F, -0.0F}, {2}));
  for (const models::Condition& condition :
       {prompt, models::Condition(7), models::Condition()}) {
    const std::string bytes = wire::encode(condition);
    const models::Condition back = wire::decode_condition(view_of(bytes));
    EXPECT_EQ(back.hash(), condition.hash());
    EXPECT_EQ(wire::encode(back), bytes);
    for (std::size_t cut = 0; cut < bytes.size(); ++cut) {
      try {
        // A cut between two tensors leaves another condition.
        EXPECT_NE(wire::decode_condition(view_of(bytes.substr(0, cut))).hash(),
                  condition.hash());
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Errc::corrupt_file);
      }
    }
  }
}

}  // namespace
}  // namespace troupe::actors
