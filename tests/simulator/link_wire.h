#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "actors/random.h"
#include "net/link_frame.h"
#include "tests/simulator/models.h"

namespace troupe::actors::simulator {

/// The two ends of a link. The member's side dials.
enum class Side : std::uint8_t { member, listener };
inline constexpr int kNumSides = 2;
[[nodiscard]] constexpr Side other(Side side) {
  return side == Side::member ? Side::listener : Side::member;
}
[[nodiscard]] constexpr std::size_t index_of(Side side) {
  return static_cast<std::size_t>(side);
}

/// What passes between the sides, as ZeroMQ does it: one connection per lane. A
/// frame that is sent while its connection is being made again waits for it if
/// the dialler sent it (a beat does not); the listener's is lost, and so is
/// what the listener sends before it has heard the new connection. What was on
/// its way on a connection that broke is lost; some of it may have reached the
/// listener's host before, and is read late. Thread: one.
class LinkWire {
 public:
  /// Pipes: per lane one pipe to each side, and one to the listener for late
  /// reads.
  static constexpr std::size_t kPipesPerLane = 3;
  static constexpr std::size_t kNumPipes = net::kNumLanes * kPipesPerLane;

  /// A frame that its taker is to have.
  struct Arrived {
    net::Lane lane{};
    std::uint64_t connection = 0;  ///< of its lane
    net::Transmit frame;
  };

  LinkWire(const NetModel& model, Random random)
      : model_(model), random_(random) {}

  [[nodiscard]] static Side taker_of(std::size_t pipe) {
    return pipe % kPipesPerLane == index_of(Side::member) ? Side::member
                                                          : Side::listener;
  }

  /// The pipe and when to look at it; nothing if the frame is lost.
  struct Due {
    std::size_t pipe = 0;
    TimePoint when;
  };
  [[nodiscard]] std::optional<Due> send(Side from, net::Transmit frame,
                                        TimePoint now);
  /// The next frame of the pipe, if it is due. `again`: when to look again at a
  /// pipe that is blocked.
  [[nodiscard]] std::optional<Arrived> take(std::size_t pipe, TimePoint now,
                                            std::optional<TimePoint>& again);
  /// The listener was heard on this connection: it answers there.
  void learn(net::Lane lane, std::uint64_t connection) {
    route(lane) = connection;
  }

  /// The lane's connection breaks; it is made again after `down`. `lingers`:
  /// what was on its way to the listener is read late. Returns when to look at
  /// pipes.
  [[nodiscard]] std::vector<Due> cut(net::Lane lane, Duration down,
                                     bool lingers, TimePoint now);
  /// Nothing gets to this side before `until`.
  void block(Side to, TimePoint until);
  /// The sequence number of the first record's piece on its way there.
  [[nodiscard]] std::optional<std::uint64_t> next_record(Side to) const;

 private:
  struct OnWay {
    TimePoint due;
    std::uint64_t connection = 0;
    net::Transmit frame;
  };
  struct Pipe {
    std::deque<OnWay> frames;
    TimePoint free_at;   ///< when the last frame has left
    TimePoint last_due;  ///< of all frames so far
    TimePoint blocked_until;
  };
  struct Connection {
    std::uint64_t number = 1;
    TimePoint up_at;
    std::uint64_t route = 0;  ///< the listener's, as it knows
  };

  [[nodiscard]] static std::size_t pipe_to(Side side, net::Lane lane) {
    return static_cast<std::size_t>(lane) * kPipesPerLane + index_of(side);
  }
  [[nodiscard]] static std::size_t late_pipe(net::Lane lane) {
    return static_cast<std::size_t>(lane) * kPipesPerLane + kNumSides;
  }
  [[nodiscard]] Connection& connection(net::Lane lane) {
    return connections_[static_cast<std::size_t>(lane)];
  }
  [[nodiscard]] std::uint64_t& route(net::Lane lane) {
    return connection(lane).route;
  }

  NetModel model_;
  Random random_;
  std::array<Connection, net::kNumLanes> connections_;
  std::array<Pipe, kNumPipes> pipes_;
};

}  // namespace troupe::actors::simulator
