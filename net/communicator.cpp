#include "net/communicator.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

namespace troupe::net {
namespace {

void check_arguments(bool condition, const std::string& message) {
  require(condition, Errc::invalid_argument, kCommunicatorPlace, message);
}

void check_rank(int rank, int world_size) {
  check_arguments(rank >= 0 && rank < world_size,
                  "no such rank: got " + std::to_string(rank) +
                      ", expected one below " + std::to_string(world_size));
}

/// The ranks of a collective operation.
struct Members {
  std::vector<int> ranks;
  std::size_t own = 0;  ///< this rank's position

  [[nodiscard]] std::size_t size() const { return ranks.size(); }
};

Members members_of(std::span<const int> group, const Communicator& self) {
  Members members{.ranks = {group.begin(), group.end()}};
  if (group.empty()) {
    members.ranks.resize(static_cast<std::size_t>(self.world_size()));
    std::iota(members.ranks.begin(), members.ranks.end(), 0);
  }
  std::vector<int> sorted = members.ranks;
  std::ranges::sort(sorted);
  check_rank(sorted.front(), self.world_size());
  check_rank(sorted.back(), self.world_size());
  check_arguments(std::ranges::adjacent_find(sorted) == sorted.end(),
                  "a rank is twice in the group");
  const auto own = std::ranges::find(members.ranks, self.rank());
  check_arguments(own != members.ranks.end(),
                  "rank " + std::to_string(self.rank()) +
                      " is not in the group of its operation");
  members.own = static_cast<std::size_t>(own - members.ranks.begin());
  return members;
}

void check_count(std::size_t count, const Members& members) {
  check_arguments(count == members.size(),
                  "got " + std::to_string(count) + " parts, expected " +
                      std::to_string(members.size()) + ", one for each member");
}

}  // namespace

std::string name_ranks(std::vector<int> ranks) {
  std::ranges::sort(ranks);
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  std::string text;
  for (const int rank : ranks) {
    text += (text.empty() ? "rank " : " or rank ") + std::to_string(rank);
  }
  return text;
}

Error disagreement(int peer, const MessageHead& got,
                   const MessageHead& expected) {
  const auto text = [](const MessageHead& head) {
    return std::to_string(head.bytes) + " bytes with tag " +
           std::to_string(head.tag);
  };
  return {Errc::internal, kCommunicatorPlace,
          "rank " + std::to_string(peer) + " is in another operation: got " +
              text(got) + ", expected " + text(expected)};
}

Error peer_ended(int peer, const std::string& why) {
  return {Errc::unreachable, kCommunicatorPlace,
          "rank " + std::to_string(peer) + " has ended: " + why};
}

Error peers_late(std::vector<int> peers, Communicator::Tag tag) {
  return {Errc::unreachable, kCommunicatorPlace,
          name_ranks(std::move(peers)) +
              " did not answer by the deadline of tag " + std::to_string(tag)};
}

Error aborted(const std::string& why) {
  return {Errc::interrupted, kCommunicatorPlace, "it was aborted: " + why};
}

void Communicator::exchange(const Call& call, std::span<const Send> sends,
                            std::span<const Receive> receives) {
  std::vector<Send> out;
  std::vector<Receive> in;
  std::vector<std::span<const std::byte>> own;
  for (const Send& send : sends) {
    check_rank(send.to, world_size());
    if (send.to == rank()) {
      own.push_back(send.bytes);
    } else if (!send.bytes.empty()) {
      out.push_back(send);
    }
  }
  std::vector<std::span<std::byte>> own_targets;
  for (const Receive& receive : receives) {
    check_rank(receive.from, world_size());
    if (receive.from == rank()) {
      own_targets.push_back(receive.bytes);
    } else if (!receive.bytes.empty()) {
      in.push_back(receive);
    }
  }
  const auto size = [](const auto& bytes) { return bytes.size(); };
  check_arguments(std::ranges::equal(own, own_targets, {}, size, size),
                  "what a rank sends to itself is not what it receives");
  for (std::size_t i = 0; i < own.size(); ++i) {
    if (!own[i].empty() && own[i].data() != own_targets[i].data()) {
      copy_own(own[i], own_targets[i]);
    }
  }
  exchange_with_others(call, out, in);
}

void Communicator::send(const Call& call, int to,
                        std::span<const std::byte> bytes) {
  const Send message{to, bytes};
  exchange(call, {&message, 1}, {});
}

void Communicator::receive(const Call& call, int from,
                           std::span<std::byte> bytes) {
  const Receive message{from, bytes};
  exchange(call, {}, {&message, 1});
}

void Communicator::broadcast(const Call& call, int root,
                             std::span<std::byte> bytes) {
  const Members members = members_of(call.group, *this);
  check_arguments(std::ranges::find(members.ranks, root) != members.ranks.end(),
                  "rank " + std::to_string(root) +
                      " is to give its bytes, but is not in the group");
  if (root != rank()) {
    return receive(call, root, bytes);
  }
  std::vector<Send> sends;
  for (const int to : members.ranks) {
    if (to != root) {
      sends.push_back({to, bytes});
    }
  }
  exchange(call, sends, {});
}

void Communicator::all_gather(const Call& call, std::span<const std::byte> mine,
                              std::span<const std::span<std::byte>> parts) {
  const std::vector<std::span<const std::byte>> to(parts.size(), mine);
  all_to_all(call, to, parts);
}

void Communicator::all_to_all(const Call& call,
                              std::span<const std::span<const std::byte>> to,
                              std::span<const std::span<std::byte>> from) {
  const Members members = members_of(call.group, *this);
  check_count(to.size(), members);
  check_count(from.size(), members);
  std::vector<Send> sends;
  std::vector<Receive> receives;
  for (std::size_t i = 0; i < members.size(); ++i) {
    sends.push_back({members.ranks[i], to[i]});
    receives.push_back({members.ranks[i], from[i]});
  }
  exchange(call, sends, receives);
}

void Communicator::all_reduce(const Call& call, std::span<float> values) {
  const Members members = members_of(call.group, *this);
  // Each member sums one slice, and gives the sums to all.
  const auto slice = [&](std::size_t i) {
    const std::size_t begin = values.size() * i / members.size();
    const std::size_t end = values.size() * (i + 1) / members.size();
    return values.subspan(begin, end - begin);
  };
  const std::span<float> own = slice(members.own);
  const std::span<std::byte> terms = scratch(own.size_bytes() * members.size());
  std::vector<std::span<const std::byte>> to;
  std::vector<std::span<std::byte>> from;
  std::vector<std::span<std::byte>> sums;
  for (std::size_t i = 0; i < members.size(); ++i) {
    to.push_back(std::as_bytes(slice(i)));
    from.push_back(terms.subspan(own.size_bytes() * i, own.size_bytes()));
    sums.push_back(std::as_writable_bytes(slice(i)));
  }
  all_to_all(call, to, from);
  if (!own.empty()) {
    add_terms({reinterpret_cast<const float*>(terms.data()),
               own.size() * members.size()},
              own);
  }
  all_gather(call, std::as_bytes(own), sums);
}

void Communicator::ring_exchange(const Call& call,
                                 std::span<const std::byte> to_next,
                                 std::span<std::byte> from_previous) {
  const Members members = members_of(call.group, *this);
  const std::size_t next = (members.own + 1) % members.size();
  const std::size_t previous =
      (members.own + members.size() - 1) % members.size();
  const Send send{members.ranks[next], to_next};
  const Receive receive{members.ranks[previous], from_previous};
  exchange(call, {&send, 1}, {&receive, 1});
}

void Communicator::barrier(const Call& call) {
  const Members members = members_of(call.group, *this);
  // What these bytes are does not matter.
  const std::span<std::byte> bytes = scratch(members.size());
  std::vector<std::span<std::byte>> parts;
  for (std::size_t i = 0; i < members.size(); ++i) {
    parts.push_back(bytes.subspan(i, 1));
  }
  all_gather(call, parts[members.own], parts);
}

void Communicator::copy_own(std::span<const std::byte> from,
                            std::span<std::byte> to) {
  std::memcpy(to.data(), from.data(), from.size());
}

std::span<std::byte> Communicator::scratch(std::size_t bytes) {
  const std::size_t floats = (bytes + sizeof(float) - 1) / sizeof(float);
  if (scratch_.size() < floats) {
    scratch_.resize(floats);
  }
  return std::as_writable_bytes(std::span(scratch_)).first(bytes);
}

void Communicator::add_terms(std::span<const float> terms,
                             std::span<float> sum) {
  std::ranges::copy(terms.first(sum.size()), sum.begin());
  for (std::size_t term = sum.size(); term < terms.size(); term += sum.size()) {
    for (std::size_t i = 0; i < sum.size(); ++i) {
      sum[i] += terms[term + i];
    }
  }
}

}  // namespace troupe::net
