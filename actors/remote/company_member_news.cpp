// The part of CompanyMember for what its links bring.

#include <utility>
#include <variant>

#include "actors/remote/company_member.h"
#include "actors/remote/peer_checks.h"
#include "actors/shells.h"
#include "kernels/core/error.h"
#include "kernels/core/log.h"

namespace troupe::actors {

using net::bytes_of;
using wire::News;

bool CompanyMember::is_coordinator(net::PeerId peer) const {
  const std::lock_guard lock(mutex_);
  return peer == peer_;
}

void CompanyMember::on_knock(net::PeerId peer, const net::Greeting& greeting) {
  channel_->accept(*hub_, peer, greeting);
}

void CompanyMember::on_up(net::PeerId peer, const net::Greeting& greeting) {
  if (!is_coordinator(peer)) {
    channel_->came_up(peer, greeting);
    return;
  }
  try {
    const Welcome welcome = wire::decode_welcome(bytes_of(greeting.record));
    if (welcome.is_over) {
      finish({});
      return;
    }
    channel_->set_peer(kHomeProcess, peer);
    channel_->open(*hub_, welcome.process, welcome.tokens);
    const std::lock_guard lock(mutex_);
    process_ = welcome.process;
  } catch (const Error& error) {
    finish({MemberEnd::Kind::failed, current_failure()});
  }
}

void CompanyMember::on_room(net::PeerId /*peer*/) { outbox_->on_room(); }

void CompanyMember::on_lost(net::PeerId peer, const net::Loss& loss) {
  if (!is_coordinator(peer)) {
    channel_->lost(peer, loss.what);
    return;
  }
  const bool is_refusal = loss.cause == net::LossCause::refused ||
                          loss.cause == net::LossCause::version;
  finish({is_refusal ? MemberEnd::Kind::refused : MemberEnd::Kind::lost,
          Failure{is_refusal ? Errc::invalid_argument : Errc::unreachable,
                  spec_.endpoint,
                  loss.seen.empty() ? loss.what : loss.seen,
                  {}}});
}

void CompanyMember::on_record(net::PeerId peer,
                              std::span<const std::byte> record) {
  if (!is_coordinator(peer)) {
    const std::string what = "a worker's process has no orders to give";
    hub_->leave(peer, what);
    channel_->lost(peer, what);
    return;
  }
  try {
    if (const auto message = assembler_.add(record, wire::kMostNewsBytes)) {
      hear(wire::decode_news(bytes_of(*message)));
    }
  } catch (const Error&) {
    finish({MemberEnd::Kind::failed, current_failure()});
  }
}

void CompanyMember::tell_worker(int worker, const auto& message) {
  const auto found = workers_.find(worker);
  if (found != workers_.end()) {
    caf::anon_send(found->second.actor, message);
  }
}

void CompanyMember::end_worker(const EndWorker& end) {
  const auto found = workers_.find(end.worker);
  // It may have come late: the one that was meant has ended, and its successor
  // is at work.
  if (found != workers_.end() && found->second.epoch == end.epoch) {
    if (end.cause.code == Errc::device_lost) {
      log_message(LogLevel::warning,
                  "a worker of this process ends: " + end.cause.message);
    }
    const WorkerActor& worker = found->second.actor;
    caf::anon_send(caf::actor_cast<caf::actor>(worker),
                   caf::exit_msg{worker.address(), to_caf_error(end.cause)});
  }
}

void CompanyMember::hear(News news) {
  if (auto* over = std::get_if<JobOver>(&news)) {
    finish({MemberEnd::Kind::over, std::move(over->cause)});
    return;
  }
  if (std::holds_alternative<NextJob>(news)) {
    finish({MemberEnd::Kind::next, {}});
    return;
  }
  if (auto* refuse = std::get_if<RefuseProcess>(&news)) {
    finish({MemberEnd::Kind::refused, std::move(refuse->cause)});
    return;
  }
  if (const auto* address = std::get_if<PeerAddress>(&news)) {
    if (spec_.peers) {
      channel_->set_address(*address);
    }
    return;
  }
  const std::lock_guard lock(mutex_);
  const auto tell_node = [&](const auto& message) {
    if (node_) {
      caf::anon_send(node_, message);
    }
  };
  if (auto* offer = std::get_if<Offer>(&news)) {
    shows_previews_ = offer->previews;
    shows_trajectory_ = offer->trajectory;
    traces_ = offer->trace;
    job_ = offer->job;
    offer_ = std::move(*offer);
    news_.notify_all();
  } else if (auto* encoding = std::get_if<EncodingOffer>(&news)) {
    check(encoding->record);
    stands_by_ = true;  // what follows it takes its time, too
    offer_ = std::move(*encoding);
    news_.notify_all();
  } else if (std::holds_alternative<StandBy>(news)) {
    stands_by_ = true;
    news_.notify_all();
  } else if (auto* admit = std::get_if<AdmitProcess>(&news)) {
    is_admitted_ = true;
    tell_node(*admit);
  } else if (auto* free = std::get_if<FreeValues>(&news)) {
    tell_node(*free);
  } else if (auto* drop = std::get_if<DropRuns>(&news)) {
    tell_node(*drop);
  } else if (auto* grant = std::get_if<Grant>(&news)) {
    check_grant(*grant, job_);
    tell_worker(grant->worker, *grant);
  } else if (auto* recall = std::get_if<Recall>(&news)) {
    tell_worker(recall->worker, *recall);
  } else if (auto* end = std::get_if<EndWorker>(&news)) {
    end_worker(*end);
  } else {
    throw Error(Errc::corrupt_file, "message", "it is for a coordinator");
  }
}

void CompanyMember::on_wanted(net::PeerId /*peer*/, net::WantId want,
                              std::string_view key) {
  if (asks_for_model(key)) {
    std::shared_ptr<ModelGiver> giver;
    {
      const std::lock_guard lock(mutex_);
      giver = giver_;
    }
    if (giver) {
      giver->answer(*hub_, want, key);
    } else {
      hub_->give_nothing(want);
    }
  } else if (!channel_->answer(want, key)) {
    hub_->give_nothing(want);
  }
}

}  // namespace troupe::actors
