#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/core/error.h"
#include "kernels/offload.h"
#include "tests/cuda/support.h"

namespace troupe::kernels {
namespace {

class OffloadOnGpu : public CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (!IsSkipped()) {
      ctx_.emplace(1, kGpu);
    }
  }
  [[nodiscard]] ExecContext& ctx() { return *ctx_; }

  struct Layers {
    std::vector<PackedLinear> resident;
    std::vector<PackedLinear> offloaded;
  };

  Layers make(int groups, std::int64_t width) {
    Layers layers;
    for (int i = 0; i < 2 * groups; ++i) {
      const Tensor weight =
          random({width + i, width}, DType::f32, 10 + static_cast<unsigned>(i));
      const Tensor bias =
          random({width + i}, DType::f32, 50 + static_cast<unsigned>(i));
      layers.resident.emplace_back(ctx(), weight, bias, DType::f32);
      layers.offloaded.emplace_back(ctx(), weight, bias, DType::f32);
    }
    return layers;
  }

  Tensor product(const Tensor& x, const PackedLinear& layer) {
    Tensor out =
        poisoned(ctx(), {1, x.dim(1), layer.out_features()}, DType::f32);
    linear(ctx(), x, layer, Activation::none, out);
    return out;
  }

 private:
  std::optional<ExecContext> ctx_;
};

TEST_F(OffloadOnGpu, GivesTheBytesOfResidentWeights) {
  constexpr int kGroups = 5;
  Layers layers = make(kGroups, 40);
  OffloadedLayers offloaded;
  for (int g = 0; g < kGroups; ++g) {
    const auto first = static_cast<std::size_t>(2 * g);
    EXPECT_EQ(offloaded.add(ctx(), {&layers.offloaded[first],
                                    &layers.offloaded[first + 1]}),
              static_cast<std::size_t>(g));
  }
  const Tensor x = upload(ctx(), random({1, 7, 40}, DType::f32, 1));
  std::vector<Tensor> got;
  std::vector<Tensor> want;
  // Three passes without a wait between: a place that is filled too early shows
  // in the products that were queued before.
  for (int pass = 0; pass < 3; ++pass) {
    for (int g = 0; g < kGroups; ++g) {
      offloaded.fetch(ctx(), static_cast<std::size_t>(g),
                      static_cast<std::size_t>((g + 1) % kGroups));
      for (const int i : {2 * g, 2 * g + 1}) {
        got.push_back(
            product(x, layers.offloaded[static_cast<std::size_t>(i)]));
        want.push_back(
            product(x, layers.resident[static_cast<std::size_t>(i)]));
      }
    }
  }
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_TRUE(bytes_equal(download(ctx(), got[i]), download(ctx(), want[i])))
        << i;
  }
}

TEST_F(OffloadOnGpu, MayBeFetchedOutOfTurnAndGrow) {
  Layers layers = make(3, 24);
  OffloadedLayers offloaded;
  offloaded.add(ctx(), {&layers.offloaded[0]});
  const Tensor x = upload(ctx(), random({1, 3, 24}, DType::f32, 2));
  offloaded.fetch(ctx(), 0, 0);
  const Tensor first = product(x, layers.offloaded[0]);
  offloaded.add(ctx(), {&layers.offloaded[1], &layers.offloaded[2]});
  offloaded.add(ctx(), {&layers.offloaded[3]});
  const std::array<std::size_t, 7> order = {2, 0, 0, 1, 2, 1, 0};
  for (const std::size_t group : order) {
    offloaded.fetch(ctx(), group, (group + 2) % 3);
    const std::size_t layer = group == 0 ? 0 : group == 1 ? 2 : 3;
    const Tensor got = product(x, layers.offloaded[layer]);
    const Tensor want = product(x, layers.resident[layer]);
    EXPECT_TRUE(bytes_equal(download(ctx(), got), download(ctx(), want)))
        << group;
  }
  EXPECT_TRUE(bytes_equal(download(ctx(), first),
                          download(ctx(), product(x, layers.resident[0]))));
}

TEST_F(OffloadOnGpu, ServesSeveralContextsAtOnce) {
  Layers layers = make(2, 32);
  OffloadedLayers offloaded;
  offloaded.add(ctx(), {&layers.offloaded[0]});
  offloaded.add(ctx(), {&layers.offloaded[1]});
  ctx().synchronize();
  ExecContext other(1, ctx().device());
  const Tensor host = random({1, 5, 32}, DType::f32, 3);
  const Tensor x = upload(ctx(), host);
  const Tensor there = upload(other, host);
  offloaded.fetch(ctx(), 0, 1);
  offloaded.fetch(other, 1, 0);
  Tensor a = product(x, layers.offloaded[0]);
  Tensor b =
      poisoned(other, {1, 5, layers.offloaded[1].out_features()}, DType::f32);
  linear(other, there, layers.offloaded[1], Activation::none, b);
  EXPECT_TRUE(bytes_equal(download(ctx(), a),
                          download(ctx(), product(x, layers.resident[0]))));
  EXPECT_TRUE(bytes_equal(download(other, b),
                          download(ctx(), product(x, layers.resident[1]))));
}

// The copy of the next group may still be running.
TEST_F(OffloadOnGpu, RefusesALayerThatWasNotFetchedLast) {
  Layers layers = make(2, 16);
  OffloadedLayers offloaded;
  offloaded.add(ctx(), {&layers.offloaded[0]});
  offloaded.add(ctx(), {&layers.offloaded[1]});
  const Tensor x = upload(ctx(), random({1, 2, 16}, DType::f32, 4));
  const auto expect_refused = [&](std::size_t layer) {
    try {
      (void)product(x, layers.offloaded[layer]);
      FAIL() << "layer " << layer << " was not fetched last";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Errc::internal);
    }
  };
  expect_refused(0);
  offloaded.fetch(ctx(), 0, 1);
  (void)product(x, layers.offloaded[0]);
  expect_refused(1);
  offloaded.fetch(ctx(), 1, 0);
  (void)product(x, layers.offloaded[1]);
  expect_refused(0);
}

}  // namespace
}  // namespace troupe::kernels
