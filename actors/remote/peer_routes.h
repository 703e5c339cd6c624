#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "actors/session.h"
#include "kernels/core/clock.h"
#include "net/link.h"

namespace troupe::actors {

/// How a process gets to the values of another: over a link between the two, or
/// through the coordinator's process. A link is made when the first value is
/// asked for: of many processes only few exchange values. That question waits
/// for the link. If the link cannot be made, or breaks, questions are relayed.
/// After a while the next of them makes another link, and waits no more.
///
///   known ──ask──▶ dialling ──answer──▶ linked ◀──── the peer dials
///                  ▲   │ nobody there    │ lost
///          a while │   ▼                 │
///                 resting ◀──────────────┘
///
/// Decides only; what it says in Moves is for the caller to do. Thread: one.
class PeerRoutes {
 public:
  struct Dial {
    int process = 0;
    std::string endpoint;
    PeerGreeting greeting;
  };
  struct Moves {
    std::optional<Dial> dial;
    std::vector<net::PeerId> leave;  ///< links that nobody needs any more
  };
  enum class Way : std::uint8_t {
    direct,
    wait,   ///< ask again when something was heard of the process
    relay,  ///< through the coordinator's process
  };
  struct Route {
    Way way = Way::relay;
    net::PeerId peer = 0;  ///< of a direct one
    Moves moves;
  };

  /// Until this call no process is let in or dialled. `tokens`: by which other
  /// processes recognise this one.
  void begin(int own_process, PeerTokens tokens);
  [[nodiscard]] int own_process() const noexcept { return own_process_; }

  /// A link that others made, from now on used first.
  void link(int process, net::PeerId peer);
  /// Where a process can be reached from now on, or that it has left.
  [[nodiscard]] Moves set_address(const PeerAddress& address);
  /// The way to the process, for a question now.
  [[nodiscard]] Route ask(int process, TimePoint now);
  /// A Dial was carried out.
  void dialled(int process, net::PeerId peer);
  /// The Dial could not be carried out.
  [[nodiscard]] Moves not_dialled(int process, TimePoint now);
  /// A link is up: the dialled process has accepted this one and answered, or
  /// this process has accepted the peer.
  [[nodiscard]] Moves came_up(net::PeerId peer, const PeerGreeting& greeting,
                              TimePoint now);
  /// The answer to the greeting of a peer that dials; nothing: it is no process
  /// of the job.
  [[nodiscard]] std::optional<PeerGreeting> accept(
      net::PeerId peer, const PeerGreeting& greeting);
  /// A link or a dial has ended.
  [[nodiscard]] Moves lost(net::PeerId peer, TimePoint now);
  /// What came from the process over a link of its own was damaged: it is
  /// relayed from now on.
  [[nodiscard]] Moves distrust(int process);

  /// Processes that serve files of the model, by their addresses.
  [[nodiscard]] std::vector<int> model_givers() const;
  /// The process of this link or dial.
  [[nodiscard]] std::optional<int> process_of(net::PeerId peer) const;

 private:
  struct Peer {
    PeerAddress address;
    std::size_t next_endpoint = 0;    ///< to dial
    bool is_dialling = false;         ///< until the last endpoint has failed
    bool was_dialled = false;         ///< once: nobody waits for it again
    std::optional<net::PeerId> dial;  ///< under way
    std::vector<net::PeerId> links;   ///< up, the first is used
    TimePoint rests_until;
    bool is_distrusted = false;
  };

  [[nodiscard]] Moves dial_next(Peer& peer, TimePoint now);
  [[nodiscard]] static std::vector<net::PeerId> take_links(Peer& peer);

  int own_process_ = -1;
  PeerTokens tokens_;
  std::map<int, Peer> peers_;
  std::map<net::PeerId, int> whose_;  ///< links, dials, greeting peers
};

}  // namespace troupe::actors
