// What a worker's process does with a job that makes no sense.

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "actors/cli/job_runner.h"
#include "actors/cli/signals.h"
#include "actors/remote/link_values.h"
#include "actors/remote/outbox.h"
#include "actors/wire/codec.h"
#include "config/config.h"
#include "net/link.h"
#include "tests/cli/program.h"

namespace troupe::test {
namespace {

using actors::Offer;

/// The condition with this hash, among those of classes.
models::Condition with_hash(std::uint64_t hash) {
  constexpr std::int64_t kMostClasses = 1001;
  for (std::int64_t label = 0; label < kMostClasses; ++label) {
    if (models::Condition(label).hash() == hash) {
      return label;
    }
  }
  return {};
}

/// A coordinator's process that sends one message to every process that comes.
/// It serves the conditions that are asked for, or always the condition
/// `always`. A process that asks to join gets JobOver.
class Director final : public net::LinkHandler {
 public:
  explicit Director(std::string message,
                    std::optional<models::Condition> always = {})
      : message_(std::move(message)),
        always_(std::move(always)),
        hub_(net::make_hub({.role = "coordinator"}, *this)) {
    hub_->listen(endpoint());
  }

  [[nodiscard]] std::string endpoint() const {
    return "ipc://" + folder_.path("link/a");
  }
  [[nodiscard]] bool was_joined() const {
    const std::lock_guard lock(mutex_);
    return was_joined_;
  }

 private:
  void on_greeting(net::PeerId peer,
                   const net::Greeting& /*greeting*/) override {
    hub_->accept(peer, actors::wire::encode(
                           actors::Welcome{.version = "test", .process = 1}));
  }
  void on_up(net::PeerId peer, const net::Greeting& /*greeting*/) override {
    outbox_ = std::make_unique<actors::Outbox>(*hub_, peer);
    outbox_->send(message_);
  }
  void on_record(net::PeerId /*peer*/,
                 std::span<const std::byte> record) override {
    const auto message = assembler_.add(record, actors::wire::kMostNewsBytes);
    if (message && std::holds_alternative<actors::Join>(
                       actors::wire::decode_news(net::bytes_of(*message)))) {
      const std::lock_guard lock(mutex_);
      was_joined_ = true;
      outbox_->send(
          actors::wire::encode(actors::wire::News(actors::JobOver{})));
    }
  }
  void on_room(net::PeerId /*peer*/) override { outbox_->on_room(); }
  void on_wanted(net::PeerId /*peer*/, net::WantId want,
                 std::string_view key) override {
    const auto asked = actors::wire::decode_key(net::bytes_of(key));
    if (const auto* its = std::get_if<actors::ConditionKey>(&asked)) {
      hub_->give(want, actors::to_link(actors::parcel_of(
                           always_ ? *always_ : with_hash(its->hash))));
    } else {
      hub_->give_nothing(want);
    }
  }
  void on_lost(net::PeerId /*peer*/, const net::Loss& /*loss*/) override {}

  TempFolder folder_;
  std::string message_;
  std::optional<models::Condition> always_;
  mutable std::mutex mutex_;
  bool was_joined_ = false;
  actors::Assembler assembler_;
  std::unique_ptr<actors::Outbox> outbox_;
  std::unique_ptr<net::Hub> hub_;  // last: it calls what stands above
};

struct Answer {
  Outcome outcome;
  bool joined = false;
};

Answer answer_to(std::string message, const std::vector<std::string>& more = {},
                 std::optional<models::Condition> always = {}) {
  const Director director(std::move(message), std::move(always));
  Answer answer;
  std::vector<std::string> arguments = {
      "worker",    "--join", director.endpoint(),
      "--workers", "1",      "--threads",
      "1",         "--wait", "20"};
  arguments = overridden(std::move(arguments), more);
  answer.outcome = run(arguments);
  answer.joined = director.was_joined();
  return answer;
}

/// A job that the program can compute, as its coordinator's process offers it.
/// `model`: a folder; empty: random weights.
Offer good_offer(const std::string& model = {}) {
  config::Config config;
  config.model_dir = model;
  config.random_weights = model.empty() ? "dit-tiny" : "";
  config.classes = {"1"};
  config.samples = {0, 2};
  config.compute = config::ComputeType::f32;
  config.sampler.steps = 4;
  config.method.kind = samplers::MethodKind::stale;
  config.num_workers = 2;
  config.num_threads = 1;
  const actors::JobRequest request = actors::make_request(config);
  actors::SignalWatch signals;
  actors::StopFlag stop(signals);
  return actors::JobRunner(request, stop).offer();
}

/// A field of a protobuf message that is itself bytes.
std::string field(int number, const std::string& bytes) {
  std::string text(1, static_cast<char>(number << 3 | 2));
  std::size_t rest = bytes.size();
  for (; rest >= 128; rest >>= 7U) {
    text.push_back(static_cast<char>(rest % 128 + 128));
  }
  text.push_back(static_cast<char>(rest));
  return text + bytes;
}

/// The offer of a job whose bytes nobody has looked at.
std::string offer_with(const std::string& job) {
  const auto kind = actors::wire::News(Offer()).index();
  return field(static_cast<int>(kind) + 1, field(1, job));
}

TEST(OfferedJob, IsTakenIfItMakesSense) {
  const Offer offer = good_offer();
  const std::string message = offer_with(actors::wire::encode(offer.job));
  EXPECT_EQ(message, actors::wire::encode(actors::wire::News(offer)));
  const Answer answer = answer_to(message);
  EXPECT_EQ(answer.outcome.exit_code, 0) << answer.outcome.err;
  EXPECT_TRUE(answer.joined);
}

/// The worker's process says what is wrong in one line, and ends.
void expect_refusal(std::string message, int exit_code,
                    const std::string& words,
                    const std::vector<std::string>& more = {},
                    std::optional<models::Condition> always = {}) {
  const Answer answer = answer_to(std::move(message), more, std::move(always));
  const Outcome& outcome = answer.outcome;
  EXPECT_FALSE(answer.joined) << words;
  EXPECT_EQ(outcome.exit_code, exit_code) << outcome.err;
  EXPECT_EQ(outcome.err_lines(), 1) << outcome.err;
  EXPECT_EQ(outcome.out, "");
  EXPECT_NE(outcome.err.find(words), std::string::npos) << outcome.err;
  if (!is_sanitized()) {
    EXPECT_LT(outcome.peak_rss_bytes, std::uint64_t{256} << 20U) << words;
  }
}

TEST(OfferedJob, IsRefusedIfItsBytesAreNoJob) {
  const Offer offer = good_offer();
  const std::string job = actors::wire::encode(offer.job);
  const std::string message = offer_with(job);
  expect_refusal(message.substr(0, message.size() / 2), 6, "cut on its way");
  expect_refusal(offer_with(job.substr(0, job.size() / 2)), 6,
                 "cut on its way");
  expect_refusal(offer_with(""), 6, "solver: got ''");
  // Field 1, again, and field 1000, a varint: a newer Troupe's.
  expect_refusal(offer_with(job + job.substr(0, 2)), 6, "does not know");
  expect_refusal(offer_with(job + "\xc0\x3e\x01"), 6, "does not know");
}

void expect_refusal_of(const std::function<void(Offer&)>& change, int exit_code,
                       const std::string& words) {
  Offer offer = good_offer();
  change(offer);
  expect_refusal(actors::wire::encode(actors::wire::News(offer)), exit_code,
                 words);
}

TEST(OfferedJob, IsRefusedIfItsNumbersAreOutOfRange) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  expect_refusal_of([](Offer& o) { o.job.end = o.job.begin; }, 6,
                    "no range of samples");
  expect_refusal_of([](Offer& o) { o.job.guidance.scale = kNan; }, 6,
                    "guidance_scale");
  expect_refusal_of(
      [](Offer& o) {
        o.job.latent_shape = {4, 1 << 30, 1 << 30};
      },
      6, "latent_shape");
  expect_refusal_of([](Offer& o) { o.job.schedule.timesteps[0] = kNan; }, 6,
                    "timesteps[0]");
  expect_refusal_of([](Offer& o) { o.job.method.warmup_steps = -1; }, 6,
                    "warmup_steps");
  expect_refusal_of([](Offer& o) { o.job.cuts = {0, 1 << 30}; }, 6, "cuts");
  expect_refusal_of([](Offer& o) { o.job.model.denoiser_config = "{"; }, 6,
                    "denoiser_config");
}

TEST(OfferedJob, IsRefusedIfItsConditionsAreOthers) {
  expect_refusal(actors::wire::encode(actors::wire::News(good_offer())), 6,
                 "no value with the hash", {}, models::Condition(7));
}

/// Each of these names would lead from the root to the job's own model.
TEST(OfferedJob, IsRefusedIfItsModelsNameChoosesAPath) {
  const std::filesystem::path models =
      std::filesystem::path(TROUPE_DEMO).parent_path();
  Offer offer = good_offer(TROUPE_DEMO);
  const auto offer_of = [&offer](const std::string& name) {
    offer.job.model.name = name;
    return actors::wire::encode(actors::wire::News(offer));
  };
  const Answer inside =
      answer_to(offer_of("demo"), {"--model-root", models.string()});
  EXPECT_EQ(inside.outcome.exit_code, 0) << inside.outcome.err;
  EXPECT_TRUE(inside.joined);
  const std::string inner = (models / "demo/transformer").string();
  const std::vector<std::pair<std::string, std::string>> paths = {
      {inner, ".."},
      {inner, "../../demo"},
      {inner, TROUPE_DEMO},
      {TROUPE_DEMO, "."},
      {TROUPE_DEMO, ""},
      {TROUPE_DEMO, "transformer/.."},
      {models.string(), "demo/"},
      {models.string(), "./demo"},
      {models.string(), std::string("demo\0", 5)},
      {models.string(), std::string("demo\0/etc", 9)}};
  for (const auto& [root, name] : paths) {
    expect_refusal(offer_of(name), 2,
                   "[--model-root] the job's model has no name of a folder: "
                   "got '",
                   {"--model-root", root});
  }
}

}  // namespace
}  // namespace troupe::test
