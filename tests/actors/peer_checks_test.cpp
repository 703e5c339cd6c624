// Processes that lie about numbers: they are left, and the job goes on.

#include "actors/remote/peer_checks.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "actors/wire/codec.h"
#include "kernels/core/error.h"
#include "tests/actors/linked_company.h"
#include "tests/actors/observed_job.h"

namespace troupe::actors {
namespace {

using samplers::MethodKind;
using samplers::Op;

constexpr int kMostNumber = std::numeric_limits<int>::max();

/// Samples [0, 5) of 8 calls and one segment.
Offer an_offer() {
  ObservedJob job({.kind = MethodKind::batch});
  return offer_of(job.spec);
}

TEST(PeerChecks, RefusePassesThatTookLongerThanAnyCan) {
  GrantResult result;
  check_result(result);
  for (const Duration lie : {Duration(-1), Duration::max()}) {
    result.span.duration = lie;
    EXPECT_THROW(check_result(result), Error);
  }
}

TEST(PeerChecks, RefuseGrantsThatAreNotOfTheJob) {
  const Offer offer = an_offer();
  SampleTask honest;
  honest.sample_index = 4;
  honest.task = {.op = Op::sweep,
                 .from = 5,
                 .to = 6,
                 .timestep_call = 5,
                 .inputs = {1, 2, 3, 4},
                 .outputs = {5, 6, 7},
                 .coefficients = {0.5, 2}};
  const auto check = [&](const SampleTask& task) {
    check_grant({.tasks = {task}}, offer.job);
  };
  check(honest);
  const auto refuse = [&](const std::function<void(SampleTask&)>& lie) {
    SampleTask task = honest;
    lie(task);
    EXPECT_THROW(check(task), Error);
  };
  refuse([](SampleTask& w) { w.sample_index = 5; });
  refuse([](SampleTask& w) { w.task.from = 8; });
  refuse([](SampleTask& w) { w.task.from = kMostNumber; });
  refuse([](SampleTask& w) { w.task.to = 9; });
  refuse([](SampleTask& w) { w.task.to = 5; });
  refuse([](SampleTask& w) { w.task.timestep_call = 8; });
  refuse([](SampleTask& w) { w.task.segment = 1; });
  refuse([](SampleTask& w) { w.task.inputs = {1, 2, 3}; });
  refuse([](SampleTask& w) { w.task.outputs = {}; });
  refuse([](SampleTask& w) { w.task.outputs = {5, 6, 7, 8}; });
  refuse([](SampleTask& w) { w.task.inputs = {1, 2, 3, 4, 5, 6, 7}; });
  refuse([](SampleTask& w) { w.task.coefficients = {0.5}; });
  refuse([](SampleTask& w) { w.task.coefficients = {0.5, INFINITY}; });
  refuse([](SampleTask& w) { w.task.coefficients = {0.5, NAN}; });
}

TEST(PeerChecks, RefuseSegmentsOfAnOnionWithoutTheirSkips) {
  Offer offer = an_offer();
  offer.job.method = {.kind = MethodKind::pipeline,
                      .cut = samplers::CutShape::onion};
  offer.job.cuts = {0, 1, 2, 3};
  const auto expect = [&](int segment, const samplers::Slots& inputs,
                          const samplers::Slots& outputs, bool is_good) {
    SampleTask work;
    work.task = {.op = Op::segment,
                 .segment = segment,
                 .inputs = inputs,
                 .outputs = outputs};
    if (is_good) {
      EXPECT_NO_THROW(check_grant({.tasks = {work}}, offer.job));
    } else {
      EXPECT_THROW(check_grant({.tasks = {work}}, offer.job), Error);
    }
  };
  expect(0, {0}, {1, 2}, true);
  expect(0, {0}, {1}, false);
  expect(1, {1}, {3}, true);
  expect(2, {3, 2}, {4}, true);
  expect(2, {3}, {4}, false);
}

using Lie = std::function<void(GrantResult&)>;

/// Changes the first result that its process sends.
class LyingHub final : public HubBefore {
 public:
  LyingHub(std::unique_ptr<net::Hub> hub, Lie lie, std::atomic<bool>& has_lied)
      : HubBefore(std::move(hub)), lie_(std::move(lie)), has_lied_(has_lied) {}

  net::SendResult send(net::PeerId peer, net::SharedBytes record) override {
    const std::span<const std::byte> bytes = record.span();
    wire::News news = wire::decode_news(bytes.subspan(1));
    auto* const result = std::get_if<GrantResult>(&news);
    if (result != nullptr &&
        std::holds_alternative<TasksDone>(result->outcome) &&
        !has_lied_.exchange(true)) {
      lie_(*result);
      record = net::share(std::string(1, static_cast<char>(bytes[0])) +
                          wire::encode(news));
    }
    return HubBefore::send(peer, std::move(record));
  }

 private:
  Lie lie_;
  std::atomic<bool>& has_lied_;
};

TEST(PeerChecks, EndWithAProcessWhoseResultCannotBe) {
  const auto expected = sequential();
  std::atomic<bool> has_lied = false;
  ObservedJob job({.kind = MethodKind::batch});
  const Lie lie = [](GrantResult& result) {
    result.span.duration = Duration(-1);
  };
  LinksOptions options;
  options.wrap_worker = [&](std::unique_ptr<net::Hub> hub) {
    return std::make_unique<LyingHub>(std::move(hub), lie, has_lied);
  };
  job.spec.workers = cpu_workers(2);
  const LinksResult result = run_over_links(job.spec, options);
  EXPECT_FALSE(result.job.failure) << result.job.failure->message;
  int dropped = 0;
  for (const Process& process : result.processes) {
    if (process.has_left()) {
      ++dropped;
      EXPECT_NE(process.cause.find("a pass that took longer"),
                std::string::npos)
          << process.cause;
    }
  }
  EXPECT_EQ(dropped, 1);
  expect_same(expected, job.seen.latents, "a process that was dropped");
}

}  // namespace
}  // namespace troupe::actors
