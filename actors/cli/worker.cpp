#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <future>
#include <mutex>
#include <optional>
#include <stop_token>
#include <utility>
#include <variant>
#include <vector>

#include "actors/cli/cache_file.h"
#include "actors/cli/encode_offered.h"
#include "actors/cli/job_search.h"
#include "actors/cli/link_options.h"
#include "actors/cli/member_request.h"
#include "actors/cli/model_cache.h"
#include "actors/cli/notes.h"
#include "actors/cli/pass_times.h"
#include "actors/cli/peer_options.h"
#include "actors/cli/verbs.h"
#include "actors/cli/versions.h"
#include "actors/remote/company_member.h"
#include "kernels/core/error.h"
#include "kernels/core/system/machine.h"
#include "kernels/core/text.h"

namespace troupe::actors {
namespace {

/// For the first process to say which files its model has.
constexpr auto kListAnswer = std::chrono::seconds(5);

/// What the two signals ask for: SIGTERM to hand back and leave, Ctrl-C to
/// leave at once.
class Wishes {
 public:
  Wishes(const Invocation& invocation, const StopFlag& stop)
      : callback_(stop.token(), [this, &invocation] {
          const bool is_gentle =
              invocation.signals->received() == Errc::terminated;
          (is_gentle ? drain_ : stop_).request_stop();
        }) {}

  [[nodiscard]] std::stop_token drain() const { return drain_.get_token(); }
  [[nodiscard]] std::stop_token stop() const { return stop_.get_token(); }

 private:
  std::stop_source drain_;
  std::stop_source stop_;
  std::stop_callback<std::function<void()>> callback_;
};

void tell(const Invocation& invocation, const std::string& what) {
  if (!invocation.config.quiet) {
    say(stderr, "troupe: " + what);
  }
}

/// What this process computes an offered job with.
class Preparation {
 public:
  std::optional<JobRequest> request;
  std::optional<JobRunner> runner;
  MemberJob job;
  /// To hand back the work and leave, also because of a wrong model.
  std::stop_source leaves;

  void run(const config::Config& config, const Offer& offer,
           const JobValues& values, StopFlag& stop,
           Reading reading = Reading::what_is_used) {
    request.emplace(member_request(config, offer.job, reading));
    if (auto note = choose_shard_plan(config, *request, stop)) {
      request->notes.push_back(*std::move(note));
    }
    print_notes(request->notes);
    request->source.on_wrong_model([this](const Error& error) {
      const std::lock_guard lock(mutex_);
      wrong_model_ = {error.code(), error.place(), error.message(),
                      error.hint()};
    });
    runner.emplace(*request, stop);
    job = member_job(offer, values, *request, *runner);
    job.on_device_lost = [this] {  // the first process knows of it
      if (wrong_model()) {
        leaves.request_stop();
      }
    };
  }
  void forget() {
    job = {};
    runner.reset();
    request.reset();
  }
  /// What a part of the model had that was read while the job ran.
  [[nodiscard]] std::optional<Failure> wrong_model() {
    const std::lock_guard lock(mutex_);
    return wrong_model_;
  }

 private:
  std::mutex mutex_;
  std::optional<Failure> wrong_model_;
};

std::string said_of(const FetchProgress& progress) {
  std::string text =
      fmt::format("{} of {} of the model fetched", human_bytes(progress.there),
                  human_bytes(progress.total));
  if (progress.from_workers > 0) {
    text += fmt::format(", {} of it from other workers",
                        human_bytes(progress.from_workers));
  }
  return text;
}

/// The same with a copy of the model from the job's processes. A copy that
/// turns out to be damaged is fetched anew, once, and from the first process
/// alone: nobody knows which part of it was wrong. So the whole copy is read,
/// and its hash says whether the copy is damaged, whatever error refused it.
void run_from_cache(const Invocation& invocation, const Offer& offer,
                    const JobValues& values, CompanyMember& member,
                    StopFlag& stop, Preparation& preparation) {
  config::Config config = invocation.config;
  const ModelCache cache(config.cache);
  FetchCalls calls;
  calls.progress = [&](const FetchProgress& progress) {
    tell(invocation, said_of(progress));
  };
  calls.check = [&] {
    stop.check("worker", "stopped while it fetched the model");
    require(!member.is_over(), Errc::unreachable, config.join,
            "the job is over");
  };
  calls.waits = [&] {
    tell(invocation, "another process of this host fetches the model to " +
                         config.cache + ": waiting for it");
  };
  const auto fetch = [&](FetchFrom from) {
    config.model_dir =
        cache.fetch(offer.job.model, member, from, calls).string();
  };
  fetch(FetchFrom::anyone);
  try {
    preparation.run(config, offer, values, stop, Reading::all);
  } catch (const Error& error) {
    calls.check();
    if (has_model(config, offer.job, stop)) {
      throw;
    }
    tell(invocation, std::string("the model in the cache is damaged, and is "
                                 "fetched again: ") +
                         error.what());
    preparation.forget();
    member.give_model(nullptr);
    cache.remove(offer.job.model, calls.check);
    fetch(FetchFrom::first_process);
    preparation.run(config, offer, values, stop, Reading::all);
  }
}

/// Others may fetch the model from here, too, if its folder has the files that
/// the first process gives. Weights may lie in other files elsewhere.
void offer_files(CompanyMember& member, const JobRequest& request) {
  const auto& checkpoint = request.source.checkpoint();
  if (!checkpoint || member.gives_model()) {
    return;
  }
  auto answered = std::make_shared<std::promise<net::Fetched>>();
  member.ask(
      kHomeProcess, ModelFilesKey{},
      {.most_bytes = kMostModelListBytes, .deadline = kListAnswer},
      [answered](net::Fetched its) { answered->set_value(std::move(its)); });
  const net::Fetched fetched = answered->get_future().get();
  if (fetched.status != net::FetchStatus::found || fetched.value.size() != 1) {
    return;
  }
  const net::SharedBytes& list = fetched.value.front();
  const std::vector<ModelFile> files = decode_model_files(
      {reinterpret_cast<const char*>(list.data.get()), list.size});
  if (has_files(checkpoint->folder, files)) {
    ModelChunks chunks(files);
    std::vector<bool> there(chunks.size(), true);
    member.give_model(std::make_shared<ModelGiver>(
        checkpoint->folder, std::move(chunks), std::move(there)));
  }
}

/// Encodes the prompts before the job begins, or reports why it cannot. Then
/// another process is asked to encode, and this process may still compute the
/// job.
void encode_for(const Invocation& invocation, const EncodingRecord& record,
                CompanyMember& member, StopFlag& stop) {
  const config::Config& config = invocation.config;
  const auto num_texts =
      std::ranges::count(record.texts, false, &EncodingText::is_kept);
  tell(invocation,
       fmt::format("encodes {} for the job at {}",
                   counted(static_cast<std::uint64_t>(num_texts), "text"),
                   config.join));
  try {
    encode_offered(config, record, member, stop);
  } catch (const Error& error) {
    if (stop.is_set() || member.end()) {
      return;  // whoever waits for the next offer hears of it
    }
    member.answer(EncodingRefused{current_failure()});
    tell(invocation, std::string("does not encode them: ") + error.what());
  }
}

/// The job that this process is offered, once the prompts are encoded; nothing:
/// there is no job.
std::optional<Offer> await_job(const Invocation& invocation,
                               CompanyMember& member, StopFlag& stop) {
  bool is_told = false;
  const auto on_stand_by = [&] {
    if (!std::exchange(is_told, true)) {
      tell(invocation, "the job at " + invocation.config.join +
                           " has not begun: waiting for it");
    }
  };
  while (auto offered = member.wait_for_offer(stop.token(), on_stand_by)) {
    if (auto* job = std::get_if<Offer>(&*offered)) {
      return std::move(*job);
    }
    encode_for(invocation, std::get<EncodingOffer>(*offered).record, member,
               stop);
  }
  return std::nullopt;
}

/// One membership, from dialling to its end. Errors: Errc::unreachable; what is
/// wrong with this process's own options. Who cannot do the job is refused.
MemberEnd work_once(const Invocation& invocation, StopFlag& stop,
                    const Wishes& wishes, Duration deadline,
                    const config::WorkerCount& workers) {
  const config::Config& config = invocation.config;
  const PeerPlace place(config);
  net::DialOptions dial = dial_options(config);
  dial.deadline = deadline;
  CompanyMember member({.version = version(),
                        .name = process_name(),
                        .hub = hub_options(config, kWorkerRole),
                        .endpoint = config.join,
                        .place = config.place_of("join"),
                        .workers = workers,
                        .dial = std::move(dial),
                        .peers = place.spec()});
  std::optional<Offer> offered;
  Preparation ready;
  try {
    offered = await_job(invocation, member, stop);
    if (!offered) {
      return member.end().value_or(MemberEnd{});
    }
    const Offer& offer = *offered;
    const JobValues values = member.values_of(offer.job, stop.token());
    if (!config.cache.empty() && lacks_model(config, offer.job)) {
      run_from_cache(invocation, offer, values, member, stop, ready);
    } else {
      ready.run(config, offer, values, stop);
    }
    if (place.spec()) {
      offer_files(member, *ready.request);
    }
  } catch (const Error& error) {
    member.decline(current_failure());
    if (member.is_over()) {
      return {};
    }
    if (error.code() == Errc::unreachable && !offered && !member.stands_by()) {
      throw;
    }
    if (error.code() == Errc::unreachable) {
      return {MemberEnd::Kind::lost, current_failure()};
    }
    return {MemberEnd::Kind::refused, current_failure()};
  }
  tell(invocation,
       fmt::format("process {} of the job at {}: {} for {}", member.process(),
                   config.join, describe_company(*ready.request),
                   offered->job.model.name));
  const std::stop_callback leave(wishes.drain(),
                                 [&ready] { ready.leaves.request_stop(); });
  MemberEnd end = member.serve(std::move(ready.job), ready.leaves.get_token(),
                               wishes.stop());
  if (auto wrong = ready.wrong_model()) {
    return {MemberEnd::Kind::refused, std::move(wrong)};
  }
  return end;
}

}  // namespace

int run_worker(Invocation& invocation) {
  const config::Config& config = invocation.config;
  require(!config.join.empty(), Errc::invalid_argument, "--join",
          "missing: where the job listens",
          "troupe sample --listen ADDR says so when it begins");
  (void)checked_endpoint(config, config.join, config.place_of("join"));
  check_peers(config);
  if (!config.cache.empty()) {
    check_cache_folder(config.cache);
  }
  StopFlag& stop = invocation.stop.emplace(*invocation.signals);
  const Wishes wishes(invocation, stop);
  const config::WorkerCount workers = workers_of_member(config);
  JobSearch search(invocation, stop);
  for (;;) {
    std::optional<MemberEnd> end;
    try {
      end =
          work_once(invocation, stop, wishes, search.answer_within(), workers);
    } catch (const Error& error) {
      stop.check("worker", "stopped before it had work");
      if (error.code() != Errc::unreachable) {
        throw;
      }
      if (!search.may_try_again(error)) {
        stop.check("worker", "stopped before it had work");
        throw search.in_vain(error);
      }
      continue;
    }
    search.reached();
    stop.check("worker", "left the job");
    const Error cause = to_error(end->cause.value_or(Failure{}));
    if (end->kind == MemberEnd::Kind::over) {
      tell(invocation, end->cause ? "the job failed: " + cause.message()
                                  : std::string("the job is over"));
      if (!config.stay) {
        return 0;
      }
    } else if (end->kind == MemberEnd::Kind::refused && config.stay) {
      search.await_another_job(cause);
      continue;
    } else if (end->kind == MemberEnd::Kind::lost) {
      tell(invocation, cause.message());
    } else if (end->kind != MemberEnd::Kind::next) {
      throw cause;
    }
    if (!search.may_try_again(cause)) {
      stop.check("worker", "left the job");
      throw search.in_vain(cause);
    }
  }
}

}  // namespace troupe::actors
