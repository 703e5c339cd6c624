#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/link_table.h"
#include "actors/messages.h"
#include "actors/process.h"
#include "actors/remote/outbox.h"
#include "actors/remote/peer_clock.h"
#include "actors/session.h"
#include "net/link.h"

namespace troupe::actors {

/// A process that was let in.
struct Member {
  net::PeerId peer = 0;
  int process = 0;
  std::shared_ptr<Outbox> outbox;
  Assembler assembler;  ///< of the hub's thread
  PeerClock clock;
  Duration round_trip{};        ///< smoothed
  double bytes_per_second = 0;  ///< the most that was measured; 0: not known
  LinkPace reported;            ///< to the coordinator
  TimePoint measure_at = TimePoint::max();  ///< when to measure again
  bool is_presented = false;  ///< to the coordinator, once it was measured
  std::optional<Join> join;
  // Of its links to other workers' processes:
  PeerAddress address;  ///< no endpoints: it cannot be dialled
  bool is_of_this_host = false;
  bool is_up = false;
  std::optional<int> blamed;  ///< whose value came damaged to it
  bool is_refused = false;    ///< RefuseProcess was sent
  // Once it was admitted:
  int first_worker = 0;
  int num_workers = 0;
  int num_lost = 0;     ///< of them, for good
  bool drains = false;  ///< it is to leave, and begins nothing more
  // While the company is there:
  ProcessActor actor;
  std::map<int, WorkerActor> workers;

  [[nodiscard]] bool has(int worker) const {
    return worker >= first_worker && worker < first_worker + num_workers;
  }
  /// Whether workers of it take tasks.
  [[nodiscard]] bool works() const {
    return actor && !drains && num_workers > num_lost;
  }
};

/// Endpoints of an applicant that dialled from the host `address`, as others
/// can dial them: where it listens at any address, that host stands instead.
/// Those of which no host is known are left out. Errors: Errc::invalid_argument
/// for an endpoint that is none, or that has no port. Thread: any.
[[nodiscard]] std::vector<std::string> dialled_endpoints(
    const std::vector<std::string>& endpoints, const std::string& address);

/// Whether an applicant is of another version of Troupe than `own`: then it is
/// refused, and the log says so. Thread: any.
[[nodiscard]] bool refuse_other_version(net::Hub& hub, net::PeerId peer,
                                        const Applicant& applicant,
                                        const std::string& own);

/// Random tokens for a new process. Thread: any.
[[nodiscard]] PeerTokens new_tokens();

/// The processes that a job let in. Sends each process the addresses of the
/// others. Thread: one at a time.
class MemberList {
 public:
  /// A new member, with the next number. Errors: those of dialled_endpoints.
  [[nodiscard]] std::shared_ptr<Member> add(net::Hub& hub, net::PeerId peer,
                                            const Applicant& applicant,
                                            const std::string& address);
  /// The link of the member is up. Sends all known addresses to the new member,
  /// and the new address to all members.
  void came_up(Member& member);
  /// Whether it serves files of the model. The others are notified.
  void gives_model(Member& member, bool gives);
  /// Null: no member has this link.
  [[nodiscard]] std::shared_ptr<Member> find(net::PeerId peer) const;
  [[nodiscard]] std::shared_ptr<Member> find_process(int process) const;
  /// Its link has ended. `notifies`: the others are notified. Null: no such
  /// member.
  [[nodiscard]] std::shared_ptr<Member> remove(net::PeerId peer, bool notifies);

  [[nodiscard]] const auto& all() const noexcept { return members_; }
  [[nodiscard]] bool empty() const noexcept { return members_.empty(); }
  [[nodiscard]] bool anyone_works() const;
  /// Whether the same process, by its name, was here before and has gone.
  [[nodiscard]] bool has_gone_before(const Member& member) const;
  /// All processes that ever came, and that of a member.
  [[nodiscard]] const std::vector<Process>& known() const noexcept {
    return known_;
  }
  [[nodiscard]] Process& known(const Member& member) {
    return known_[static_cast<std::size_t>(member.process - 1)];
  }

 private:
  std::map<net::PeerId, std::shared_ptr<Member>> members_;
  std::vector<Process> known_;
};

}  // namespace troupe::actors
