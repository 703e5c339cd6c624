#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "kernels/core/tensor.h"
#include "kernels/cpu/amx.h"
#include "kernels/linear.h"

namespace troupe::models {

/// A way through the kernels that a DiT's bits may take.
struct DitCase {
  std::string name;
  DType compute = DType::f32;
  std::int64_t head_dim = 12;

  friend void PrintTo(const DitCase& dit, std::ostream* out) {
    *out << dit.name;
  }
};

/// Heads of 12 leave no side of a block's weights a multiple of 32, so bf16
/// products go through the library; heads of 32 make every side one, so they
/// go through the tile unit of a processor that has it.
inline std::vector<DitCase> dit_cases() {
  return {{"f32", DType::f32, 12},
          {"bf16", DType::bf16, 12},
          {"bf16_tiles", DType::bf16, 32}};
}

/// A test of what a DiT promises in every dtype it computes in.
class DitTest : public testing::TestWithParam<DitCase> {
 protected:
  void SetUp() override {
    if (!kernels::supports(GetParam().compute)) {
      GTEST_SKIP() << "no " << to_string(GetParam().compute)
                   << " on this processor";
    }
    if (GetParam().name == "bf16_tiles" && !kernels::cpu::has_tiles()) {
      GTEST_SKIP() << "no tile unit on this processor: it would be bf16 again";
    }
  }
};

inline std::string name_of_dit(const testing::TestParamInfo<DitCase>& dit) {
  return dit.param.name;
}

}  // namespace troupe::models
