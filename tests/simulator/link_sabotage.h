#pragma once

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "net/link_session.h"
#include "net/value_transfer.h"
#include "tests/simulator/simulate.h"

namespace troupe::actors::simulator {

/// Leaves out what a session asks for where `is_left_out` says so of a command
/// of this kind.
template <typename Command, typename IsLeftOut>
Sabotage leaving_out(IsLeftOut is_left_out) {
  Sabotage sabotage;
  sabotage.of_links.of_session =
      [is_left_out](std::vector<net::SessionCommand>& commands) {
        std::erase_if(commands, [&](const net::SessionCommand& command) {
          const auto* one = std::get_if<Command>(&command);
          return one != nullptr && is_left_out(*one);
        });
      };
  return sabotage;
}

/// What was lost with a connection.
inline Sabotage not_sending_again() {
  return leaving_out<net::Transmit>([](const net::Transmit& frame) {
    return frame.head.kind == net::FrameKind::record && frame.head.c > 1;
  });
}

inline Sabotage not_asking_for_what_is_missing() {
  return leaving_out<net::Transmit>([](const net::Transmit& frame) {
    return frame.head.kind == net::FrameKind::have &&
           (frame.head.flags & net::kGap) != 0;
  });
}

inline Sabotage delivering_twice() {
  Sabotage sabotage;
  sabotage.of_links.of_session =
      [](std::vector<net::SessionCommand>& commands) {
        std::vector<net::SessionCommand> all;
        for (const net::SessionCommand& command : commands) {
          all.push_back(command);
          if (std::holds_alternative<net::DeliverRecord>(command)) {
            all.push_back(command);
          }
        }
        commands = std::move(all);
      };
  return sabotage;
}

inline Sabotage leaving_out_records() {
  return leaving_out<net::DeliverRecord>([](const net::DeliverRecord& record) {
    return record.record.size() % 64 == 0;
  });
}

inline Sabotage resuming_a_lost_session() {
  Sabotage sabotage;
  sabotage.of_links.resumes_lost_sessions = true;
  return sabotage;
}

inline Sabotage not_reporting_a_loss() {
  Sabotage sabotage;
  sabotage.hides_losses = true;
  return sabotage;
}

inline Sabotage not_noticing_silence() {
  return leaving_out<net::Ended>([](const net::Ended& ended) {
    return ended.loss && ended.loss->cause == net::LossCause::silent;
  });
}

inline Sabotage going_on_without_a_link() {
  Sabotage sabotage;
  sabotage.outlives_links = true;
  return sabotage;
}

inline Sabotage keeping_room() {
  return leaving_out<net::MadeRoom>([](const net::MadeRoom&) { return true; });
}

inline Sabotage forgetting_to_beat() {
  return leaving_out<net::Transmit>([](const net::Transmit& frame) {
    return frame.head.kind == net::FrameKind::beat;
  });
}

/// One record more than has arrived.
inline Sabotage acknowledging_too_much() {
  Sabotage sabotage;
  sabotage.of_links.of_session =
      [](std::vector<net::SessionCommand>& commands) {
        for (net::SessionCommand& command : commands) {
          auto* frame = std::get_if<net::Transmit>(&command);
          if (frame != nullptr && (frame->head.kind == net::FrameKind::record ||
                                   frame->head.kind == net::FrameKind::have)) {
            ++frame->head.b;
          }
        }
      };
  return sabotage;
}

/// Of a value that needs more than the first credit.
inline Sabotage giving_no_more_credit() {
  Sabotage sabotage;
  sabotage.of_links.of_asker = [](std::vector<net::AskerCommand>& commands) {
    std::erase_if(commands, [](const net::AskerCommand& command) {
      const auto* frame = std::get_if<net::Transmit>(&command);
      return frame != nullptr && frame->head.kind == net::FrameKind::want &&
             frame->head.c > net::kFirstCredit;
    });
  };
  return sabotage;
}

inline Sabotage never_ending_a_lost_question() {
  Sabotage sabotage;
  sabotage.of_links.of_asker = [](std::vector<net::AskerCommand>& commands) {
    std::erase_if(commands, [](const net::AskerCommand& command) {
      const auto* ended = std::get_if<net::FetchEnded>(&command);
      return ended != nullptr &&
             ended->fetched.status == net::FetchStatus::lost;
    });
  };
  return sabotage;
}

/// As if the answer to one question were that to the one before.
inline Sabotage mixing_up_answers() {
  Sabotage sabotage;
  sabotage.of_links.of_asker =
      [last = std::optional<net::Value>()](
          std::vector<net::AskerCommand>& commands) mutable {
        for (net::AskerCommand& command : commands) {
          auto* ended = std::get_if<net::FetchEnded>(&command);
          if (ended != nullptr &&
              ended->fetched.status == net::FetchStatus::found) {
            auto own = ended->fetched.value;
            if (last) {
              ended->fetched.value = *last;
            }
            last = std::move(own);
          }
        }
      };
  return sabotage;
}

/// The holder says nothing where it has nothing.
inline Sabotage not_saying_that_a_value_is_gone() {
  Sabotage sabotage;
  sabotage.of_links.of_holder = [](std::vector<net::HolderCommand>& commands) {
    std::erase_if(commands, [](const net::HolderCommand& command) {
      const auto* frame = std::get_if<net::Transmit>(&command);
      return frame != nullptr && frame->head.kind == net::FrameKind::gone;
    });
  };
  return sabotage;
}

}  // namespace troupe::actors::simulator
