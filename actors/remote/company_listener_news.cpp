// The part of CompanyListener for what processes say.

#include <algorithm>
#include <utility>
#include <variant>

#include "actors/remote/company_listener.h"
#include "actors/remote/peer_checks.h"
#include "kernels/core/error.h"
#include "kernels/core/log.h"

namespace troupe::actors {

using net::bytes_of;
using wire::News;

void CompanyListener::on_record(net::PeerId peer,
                                std::span<const std::byte> record) {
  const auto member = member_of(peer);
  if (!member) {
    if (spec_.clients != nullptr) {
      spec_.clients->hear(*hub_, peer, record);
    }
    return;
  }
  try {
    if (const auto message =
            member->assembler.add(record, wire::kMostNewsBytes)) {
      News news = wire::decode_news(bytes_of(*message));
      if (const auto* value = std::get_if<DamagedValue>(&news)) {
        blame(member, *value);
      } else {
        hear(*member, std::move(news));
      }
    }
  } catch (const Error& error) {
    std::unique_lock lock(mutex_);
    const std::string who = label_of(members_.known(*member));
    lock.unlock();
    breach(peer, who + ": " + error.what());
  }
}

/// Drops one process: the holder that gave the damaged value, or the reader
/// that reports the damage. The report is believed, because the reader gets
/// other values whole. A reader that names a second holder is dropped itself:
/// more likely this reader is wrong than both holders. The coordinator's
/// process cannot be dropped. Errors: Errc::corrupt_file if the reader is to be
/// dropped.
void CompanyListener::blame(const std::shared_ptr<Member>& by,
                            const DamagedValue& value) {
  const auto expect = [](bool is_so, const char* what) {
    require(is_so, Errc::corrupt_file, "value", what);
  };
  {
    const std::lock_guard lock(mutex_);
    expect(value.process == by->process &&
               value.holder <= static_cast<int>(members_.known().size()),
           "it speaks for somebody else");
    if (is_over_) {
      return;
    }
    expect(value.holder != kHomeProcess,
           "what the first process gave it came damaged");
    expect(by->blamed.value_or(value.holder) == value.holder,
           "what two processes gave it came damaged");
    by->blamed = value.holder;
  }
  damaged(value.holder, "a value of process " + std::to_string(value.holder) +
                            " came damaged to process " +
                            std::to_string(value.process) +
                            ", which gets others whole");
}

void CompanyListener::hear(Member& member, News news) {
  const auto expect = [&](bool is_its_own) {
    require(is_its_own, Errc::corrupt_file, "message",
            "it speaks for somebody else");
  };
  const auto pass_on = [&](auto& message) {
    if (coordinator_) {
      caf::anon_send(coordinator_, std::move(message));
    }
  };
  const std::lock_guard lock(mutex_);
  if (auto* join = std::get_if<Join>(&news)) {
    expect(join->joined.process == member.process && !member.join);
    this->join(member, std::move(*join));
  } else if (auto* up = std::get_if<WorkerUp>(&news)) {
    expect(member.has(up->worker));
    if (system_ != nullptr) {
      WorkerActor& worker = member.workers[up->worker];
      caf::anon_send_exit(worker, caf::exit_reason::user_shutdown);
      worker = spawn_worker_proxy(*system_, member.outbox, *up);
      caf::anon_send(coordinator_, *up, worker);
    }
  } else if (auto* down = std::get_if<WorkerDown>(&news)) {
    expect(member.has(down->worker));
    if (down->gone && !is_over_) {
      ++member.num_lost;
      log_lost_worker(members_.known(member), rest(), down->gone->message);
    }
    pass_on(*down);
  } else if (auto* beat = std::get_if<WorkerBeat>(&news)) {
    expect(member.has(beat->worker));
    pass_on(*beat);
  } else if (auto* result = std::get_if<GrantResult>(&news)) {
    expect(member.has(result->worker));
    check_result(*result, spec_.offer);
    result->span.worker = result->worker;
    result->span.process = member.process;
    member.clock.place(result->span, SteadyClock().now());
    RemoteProcess& known = members_.known(member);
    known.clock_error = std::max(known.clock_error, member.clock.error());
    pass_on(*result);
  } else if (auto* drain = std::get_if<DrainProcess>(&news)) {
    expect(drain->process == member.process);
    member.drains = true;
    pass_on(*drain);
  } else if (const auto* report = std::get_if<ProcessReport>(&news)) {
    expect(report->process == member.process);
    RemoteProcess& known = members_.known(member);
    known.bytes_sent = report->bytes_given;
    known.bytes_received = report->bytes_fetched;
    members_.gives_model(member, report->gives_model);
  } else {
    expect(false);
  }
}

/// Translates the class numbers of the process to those of the job, then
/// presents the process to the coordinator.
void CompanyListener::join(Member& member, Join join) {
  const std::string& required = spec_.required_class;
  const std::vector<ClassRecord>& offered = spec_.offer.job.execution_classes;
  for (WorkerTraits& worker : join.joined.workers) {
    const ClassRecord& own =
        join.classes[static_cast<std::size_t>(worker.execution_class)];
    if (!required.empty() && own.name != required) {
      const std::string why =
          "the process computes other bytes than the job: got class " +
          own.name + ", expected " + required;
      member.outbox->send(wire::encode(News(RefuseProcess{
          member.process,
          {Errc::another_class, "execution class", why,
           "use the same build on hosts of one kind, or hold all to one level "
           "with --isa"}})));
      member.is_refused = true;
      log_refused(label_of(members_.known(member)), why);
      return;
    }
    worker.execution_class = spec_.classes->number_of(own);
    if (spec_.row_seconds) {
      worker.row_seconds = spec_.row_seconds(
          own, device_name(join.joined.means, worker.device), worker.threads);
    }
    std::vector<std::string>& known = members_.known(member).execution_classes;
    if (std::ranges::find(known, own.name) != known.end()) {
      continue;
    }
    known.push_back(own.name);
    if (std::ranges::find(offered, own.name, &ClassRecord::name) ==
        offered.end()) {
      log_message(LogLevel::warning,
                  label_of(members_.known(member)) +
                      " computes in another execution class: its images have "
                      "the bytes of class " +
                      own.name +
                      " (--isa or --require-class holds all to one)");
    }
  }
  member.join = std::move(join);
  if (system_ != nullptr) {
    present(member, *member.join);
  }
}

/// Shows the process to the coordinator.
void CompanyListener::present(Member& member, const Join& join) {
  const net::PeerId peer = member.peer;
  member.actor = spawn_process_proxy(
      *system_, {.outbox = member.outbox,
                 .on_answer =
                     [this, peer](const AdmitProcess& admit) {
                       const auto its = member_of(peer);
                       const std::lock_guard lock(mutex_);
                       if (its) {
                         its->first_worker = admit.first_worker;
                         its->num_workers = admit.num_workers;
                         members_.known(*its).num_workers = admit.num_workers;
                         log_joined(members_.known(*its), its->join->joined);
                       }
                     },
                 .on_refusal =
                     [this, peer](const Failure& why) {
                       const auto its = member_of(peer);
                       const std::lock_guard lock(mutex_);
                       if (its) {
                         its->is_refused = true;
                         log_refused(label_of(members_.known(*its)),
                                     why.message);
                       }
                     },
                 .on_end =
                     [this, peer] {
                       const auto its = member_of(peer);
                       const std::lock_guard lock(mutex_);
                       if (its && its->actor) {  // let go by the coordinator
                         its->outbox->send(wire::encode(News(JobOver{})));
                       }
                     }});
  caf::anon_send(coordinator_, join.joined, member.actor);
}

}  // namespace troupe::actors
