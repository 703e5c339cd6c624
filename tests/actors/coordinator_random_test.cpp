// Jobs that go well in the end, whatever else the policy hears: news that come
// twice, too late, or about what was never there.

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "actors/random.h"
#include "samplers/parallel/method_row.h"
#include "tests/actors/policy_company.h"

namespace troupe::actors {
namespace {

using std::chrono::milliseconds;

constexpr std::uint64_t kNobody = 1'000'000;
constexpr int kEvents = 400;

/// A company in which workers end, freeze and answer late, and whose policy
/// hears nonsense besides. Everything follows from the seed.
class RandomCompany {
 public:
  explicit RandomCompany(std::uint64_t seed)
      : random_(seed),
        method_(drawn_method()),
        workers_(random_.between(1, 5)),
        samples_(1 + random_.below(8)),
        company_(method_, workers_, samples_, options()) {
    company_.raise_all();
    check();
  }

  void run() {
    for (int i = 0; i < kEvents && company_.times_ended == 0; ++i) {
      if (random_.chance(0.5)) {
        go_on();
      } else {
        nonsense();
      }
      check();
    }
    for (int i = 0; i < 100'000 && company_.times_ended == 0; ++i) {
      go_on();
      check();
    }
    EXPECT_EQ(company_.times_ended, 1) << "the job hangs";
    EXPECT_FALSE(company_.end.failure) << company_.end.failure->message;
    EXPECT_EQ(ended_.size(), samples_);
    EXPECT_EQ(company_.end.progress.calls_done,
              company_.end.progress.calls_total);
    const std::size_t granted = company_.grants.size();
    for (int i = 0; i < 20; ++i) {
      nonsense();
    }
    EXPECT_EQ(company_.times_ended, 1);
    EXPECT_EQ(company_.grants.size(), granted);
  }

  [[nodiscard]] int num_nonsense() const { return num_nonsense_; }

 private:
  samplers::MethodOptions drawn_method() {
    const samplers::MethodTable all = samplers::method_table();
    return {.kind = all[random_.below(all.size())],
            .window_size = 3,
            .num_segments = 3};
  }

  CoordinatorOptions options() {
    CoordinatorOptions options;
    options.workers = alike(workers_, random_.between(1, 3));
    const bool is_far = random_.chance(0.5);
    for (int w = 0; w < workers_ && is_far; ++w) {
      options.workers[static_cast<std::size_t>(w)].process = w / 2;
    }
    options.lease = {.least = milliseconds(200)};
    options.max_losses = 0;
    options.cuts = {.interval = milliseconds(1), .calls = 1};
    options.decode = random_.chance(0.5);
    options.outcome_bytes = random_.chance(0.3) ? kWriterCredit / 3 : 0;
    return options;
  }

  [[nodiscard]] int some_worker() { return random_.between(0, workers_ - 1); }

  /// What can befall a company.
  void go_on() {
    const int w = some_worker();
    company_.now += milliseconds(random_.below(4));
    if (random_.chance(0.02)) {
      company_.kill(w);
      company_.raise(w);
    } else if (random_.chance(0.02)) {
      company_.now += milliseconds(random_.below(400));
      company_.on(TimeTick{});
    } else if (!company_.fetches.empty() && random_.chance(0.5)) {
      const FetchValues fetch = company_.fetches.front();
      company_.fetches.pop_front();
      company_.on(ValuesFetched{
          fetch.sample_index, fetch.run, fetch.number, {}, fetch.is_rescue});
      fetched_.push_back(fetch);
    } else if (!company_.cuts.empty() && random_.chance(0.5)) {
      cut_.push_back(company_.take_cut(random_.chance(0.7)));
    } else if (!company_.mailboxes[static_cast<std::size_t>(w)].empty()) {
      said_.push_back(company_.answer(company_.take(w)));
      company_.on(said_.back());
    }
    for (const std::uint64_t sample : std::exchange(unwritten_, {})) {
      company_.on(OutcomeReleased{sample});
    }
    start_fenced_again();
  }

  void start_fenced_again() {
    for (const int w : std::exchange(company_.fenced, {})) {
      company_.kill(w);
      company_.raise(w);
    }
  }

  /// What a policy can hear late, twice or by mistake. It changes no byte.
  void nonsense() {
    ++num_nonsense_;
    const int w = some_worker();
    const std::uint32_t epoch = company_.epochs[static_cast<std::size_t>(w)];
    const auto old_epoch = static_cast<std::uint32_t>(random_.below(epoch + 1));
    switch (random_.below(14)) {
      case 0:
        return company_.hear(
            WorkerDown{w, old_epoch == epoch ? epoch + 7 : old_epoch});
      case 1:
        return company_.hear(WorkerUp{w, old_epoch});
      case 2:
        return company_.hear(
            WorkerBeat{w, old_epoch, random_.bits(), random_.chance(0.5)});
      case 3:
        return company_.hear(OutcomeReleased{random_.below(kNobody)});
      case 4:
        return company_.hear(ProcessDown{random_.between(50, 99), {}});
      case 5:
        return company_.hear(DrainProcess{
            random_.chance(0.5) ? kHomeProcess : random_.between(50, 99)});
      case 6:
        return late_answers_to_itself();
      case 7:
        return wrong_answer();
      case 8:
        return company_.hear(CancelSample{kNobody + random_.below(9)});
      case 9:  // the coordinator's own process is there already
        return company_.hear(
            ProcessJoined{kHomeProcess, {WorkerTraits{.device = {}}}});
      default:
        return late_result();
    }
  }

  void late_answers_to_itself() {
    const std::uint64_t unknown = kNobody + random_.below(9);
    company_.hear(ValuesFetched{unknown, 0, 1, {}, random_.chance(0.5)});
    company_.hear(CutTaken{unknown, 0, random_.below(9), {}});
    for (const FetchValues& fetch : fetched_) {
      if (ended_.contains(fetch.sample_index)) {
        company_.hear(ValuesFetched{fetch.sample_index, fetch.run, fetch.number,
                                    fetch.values, fetch.is_rescue});
      }
    }
    for (const TakeCut& cut : cut_) {
      if (ended_.contains(cut.sample_index) ||
          cut.run < newest_run_[cut.sample_index]) {
        company_.hear(
            CutTaken{cut.sample_index, cut.run, cut.number, cut.values});
      }
    }
  }

  /// A result for grants that were answered before, or that never existed.
  void late_result() {
    if (said_.empty()) {
      return;
    }
    GrantResult result = said_[random_.below(said_.size())];
    const int kind = random_.between(0, 5);
    if (kind == 0) {
      result.epoch = static_cast<std::uint32_t>(random_.bits());
    } else if (kind == 1) {
      result.worker = some_worker();
      result.held.clear();
    } else if (kind == 2) {
      result.outcome = TasksReturned{};
    } else if (kind == 3) {
      auto& gone = result.outcome.emplace<InputsGone>();
      for (const HeldValue& value : result.held) {
        gone.values.push_back({value.name, random_.between(0, 99)});
      }
    } else if (kind == 4) {
      const Errc codes[] = {Errc::non_finite, Errc::internal,
                            Errc::interrupted};
      result.outcome = TasksFailed{
          {codes[random_.below(std::size(codes))], "test", "late", {}}};
    }
    if (random_.chance(0.3)) {
      for (std::uint64_t& grant : result.grants) {
        grant += kNobody;
      }
    }
    company_.hear(result);
  }

  /// Of grants that are open: nobody can know what it is of.
  void wrong_answer() {
    const int w = some_worker();
    const auto& box = company_.mailboxes[static_cast<std::size_t>(w)];
    if (box.empty()) {
      return;
    }
    GrantResult result = company_.answer(box.front());
    result.held.clear();
    auto& results = std::get<TasksDone>(result.outcome).results;
    switch (random_.below(4)) {
      case 0: {
        // The result names a worker that did not get the grant.
        result.worker = some_worker();
        result.epoch = company_.epochs[static_cast<std::size_t>(result.worker)];
        if (result.worker != w) {
          company_.hear(result);
        }
        return;
      }
      case 1:
        results.pop_back();
        break;
      case 2:
        results.front().id += 1 + random_.below(3);
        break;
      default:
        ++results.front().version;
        break;
    }
    company_.hear(result);
    // A result is not checked if its sample no longer waits for it.
    EXPECT_LE(company_.fenced.size(), 1U);
    start_fenced_again();
  }

  /// What has come out of the policy since the last call.
  void check() {
    for (; seen_grants_ < company_.grants.size(); ++seen_grants_) {
      check(company_.grants[seen_grants_]);
    }
    for (; seen_reports_ < company_.reports.size(); ++seen_reports_) {
      const SampleReport& report = company_.reports[seen_reports_];
      EXPECT_EQ(report.status, SampleStatus::done);
      EXPECT_EQ(report.progress.accepted, report.progress.total);
      EXPECT_LT(report.sample_index, samples_);
      EXPECT_TRUE(ended_.insert(report.sample_index).second);
      unwritten_.push_back(report.sample_index);
    }
    EXPECT_TRUE(company_.retired.empty());
    EXPECT_TRUE(company_.released.empty() || company_.released.front() >= 50);
  }

  void check(const Grant& grant) {
    ASSERT_LT(grant.worker, workers_);
    EXPECT_LE(grant.epoch,
              company_.epochs[static_cast<std::size_t>(grant.worker)]);
    EXPECT_FALSE(grant.tasks.empty());
    EXPECT_LE(grant.tasks.size(), 16U);
    for (const SampleTask& work : grant.tasks) {
      EXPECT_LT(work.sample_index, samples_);
      // A grant that is sent again goes to the same incarnation.
      const std::pair holder(grant.worker, grant.epoch);
      EXPECT_EQ(holder_.emplace(work.grant, holder).first->second, holder);
      std::uint32_t& newest = newest_run_[work.sample_index];
      EXPECT_GE(work.run, newest);
      newest = work.run;
    }
  }

  Random random_;
  samplers::MethodOptions method_;
  int workers_;
  std::uint64_t samples_;
  Company company_;
  std::vector<GrantResult> said_;
  std::vector<FetchValues> fetched_;
  std::vector<TakeCut> cut_;
  std::size_t seen_grants_ = 0;
  std::size_t seen_reports_ = 0;
  std::set<std::uint64_t> ended_;
  std::vector<std::uint64_t> unwritten_;
  /// By grant: worker and incarnation.
  std::map<std::uint64_t, std::pair<int, std::uint32_t>> holder_;
  std::map<std::uint64_t, std::uint32_t> newest_run_;  ///< by sample
  int num_nonsense_ = 0;
};

TEST(CoordinatorPolicy, EndsItsJobWellWhateverNonsenseItHears) {
  int heard = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomCompany company(seed);
    company.run();
    heard += company.num_nonsense();
    ASSERT_FALSE(testing::Test::HasFailure());
  }
  EXPECT_GE(heard, 10'000);
}

}  // namespace
}  // namespace troupe::actors
