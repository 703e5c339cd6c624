#include "net/link_session.h"

#include <algorithm>
#include <string_view>
#include <type_traits>
#include <utility>

#include "kernels/core/error.h"
#include "kernels/core/text.h"

namespace troupe::net {
namespace {

using std::chrono::milliseconds;

/// Between two hellos.
constexpr Duration kGreetAgain = milliseconds(250);
[[nodiscard]] std::uint64_t in_ms(Duration duration) noexcept {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<milliseconds>(duration).count());
}

/// The role has b bytes; the rest is the record.
[[nodiscard]] bool is_greeting(const FrameArrived& frame) noexcept {
  const std::size_t size = frame.payload.size();
  return frame.head.b <= std::min(size, kMostSentenceBytes) &&
         size - frame.head.b <= kMostGreetingBytes;
}

}  // namespace

std::string to_text(Duration duration) {
  return std::to_string(in_ms(duration)) + " ms";
}

LinkSession::LinkSession(SessionOptions options, State state, TimePoint now)
    : options_(std::move(options)),
      state_(state),
      start_(now),
      greet_due_(now),
      last_event_(now),
      room_(options_.room),
      have_due_(now),
      control_heard_(now),
      here_due_(now),
      beat_interval_(options_.beat_interval),
      beat_due_(now),
      last_heard_(now),
      their_stamp_at_(now) {}

LinkSession LinkSession::dialling(SessionOptions options, std::string record,
                                  TimePoint now) {
  LinkSession session(std::move(options), State::dialling, now);
  session.id_.dialler = session.options_.random;
  session.greeting_ = std::move(record);
  return session;
}

LinkSession LinkSession::listening(SessionOptions options, TimePoint now) {
  return {std::move(options), State::listening, now};
}

std::vector<SessionCommand> LinkSession::on(const SessionEvent& event,
                                            TimePoint now) {
  if (state_ == State::ended) {
    return {};
  }
  if (now - last_event_ > options_.lease / 2) {
    // We did not run. What the peer said meanwhile may still be on its way.
    last_heard_ = std::max(last_heard_, now - options_.lease / 2);
    control_heard_ = std::max(control_heard_, now - options_.lease / 2);
  }
  last_event_ = now;
  std::visit(
      [&](const auto& it) {
        using Event = std::decay_t<decltype(it)>;
        if constexpr (std::is_same_v<Event, FrameArrived>) {
          arrived(it, now);
        } else if constexpr (std::is_same_v<Event, Woken>) {
          woken(now);
        } else if constexpr (std::is_same_v<Event, SendRecord>) {
          send(it, now);
        } else if constexpr (std::is_same_v<Event, SetBeat>) {
          beat_payload_ = it.payload;
        } else if constexpr (std::is_same_v<Event, Accept>) {
          accept(it, now);
        } else if constexpr (std::is_same_v<Event, Leave>) {
          leave(it);
        } else if constexpr (std::is_same_v<Event, OtherVersion>) {
          other_version(it);
        } else if constexpr (std::is_same_v<Event, LaneOpened>) {
          lane_opened(it.lane, now);
        } else if constexpr (std::is_same_v<Event, LaneClosed>) {
          lane_closed(it.lane, now);
        } else {
          trouble(it);
        }
      },
      event);
  return std::exchange(commands_, {});
}

std::optional<TimePoint> LinkSession::next_deadline() const {
  switch (state_) {
    case State::dialling:
      return std::min(greet_due_, start_ + options_.greeting_deadline);
    case State::listening:
      return start_ + options_.greeting_deadline;
    case State::up:
      return std::min({beat_due_, have_due_, silent_at(), closed_due_,
                       has_dialled() ? here_due_ : TimePoint::max()});
    case State::ended:
      break;
  }
  return std::nullopt;
}

void LinkSession::woken(TimePoint now) {
  if (state_ != State::up) {
    if (now >= start_ + options_.greeting_deadline) {
      const bool ours = state_ == State::listening;
      if (ours) {
        transmit({.kind = FrameKind::refuse},
                 sentence_payload("nobody answered the greeting within " +
                                  to_text(options_.greeting_deadline)));
      }
      end(Loss{LossCause::unreachable,
               options_.peer +
                   (ours ? " asked to join and was not answered within "
                         : " did not answer the greeting within ") +
                   to_text(options_.greeting_deadline) +
                   (trouble_.empty() ? "" : ": it " + trouble_),
               "it " + (trouble_.empty() ? "did not answer the greeting"
                                         : trouble_)});
    } else if (state_ == State::dialling && now >= greet_due_) {
      send_hello(now);
    }
    return;
  }
  if (is_silent(now) || is_closed(now)) {
    return;
  }
  if (now >= beat_due_) {
    send_beat(now);
  }
  if (now >= have_due_) {
    send_have(0, now);
  }
  if (has_dialled() && now >= here_due_) {
    send_here(now);
  }
}

void LinkSession::arrived(const FrameArrived& frame, TimePoint now) {
  const FrameHead& head = frame.head;
  if (head.kind == FrameKind::hello) {
    hello(frame, now);
  } else if (state_ == State::up) {
    if (head.session == id_) {
      arrived_up(frame, now);
    }
  } else if (state_ == State::dialling && head.session.dialler == id_.dialler) {
    if (head.kind == FrameKind::welcome) {
      welcome(frame, now);
    } else if (head.kind == FrameKind::refuse) {
      end(loss_of(LossCause::refused,
                  "refused: " + sentence_of(frame.payload)));
    }
  }
}

void LinkSession::arrived_up(const FrameArrived& frame, TimePoint now) {
  switch (frame.head.kind) {
    case FrameKind::record:
      control_heard_ = now;
      record(frame, now);
      break;
    case FrameKind::have:
      control_heard_ = now;
      have(frame, now);
      break;
    case FrameKind::beat:
      beat(frame, now);
      break;
    case FrameKind::bye:
      if ((frame.head.flags & kForgotten) != 0) {
        end(Loss{LossCause::forgotten,
                 options_.peer + " does not know this session any more"});
      } else {
        end(Loss{LossCause::left,
                 options_.peer + " left: " + sentence_of(frame.payload)});
      }
      break;
    default:  // a doubled welcome, or what is not for the session
      break;
  }
}

void LinkSession::hello(const FrameArrived& frame, TimePoint now) {
  const FrameHead& head = frame.head;
  if (state_ == State::up && head.session.dialler == id_.dialler &&
      options_.random == id_.listener) {
    send_welcome();  // the first one was lost
    return;
  }
  if (state_ != State::listening || id_.dialler != 0) {
    return;
  }
  if (head.session.dialler == 0 || !is_greeting(frame)) {
    end(Loss{LossCause::breach, options_.peer + " sent no good greeting"});
    return;
  }
  id_ = {head.session.dialler, options_.random};
  start_ = now;
  come_up(head, now);
  const std::string_view text = text_of(frame.payload);
  theirs_ = {std::string(text.substr(0, head.b)),
             std::string(text.substr(head.b))};
  commands_.emplace_back(Greeted{theirs_});
}

void LinkSession::welcome(const FrameArrived& frame, TimePoint now) {
  const FrameHead& head = frame.head;
  if (head.session.listener == 0 || !is_greeting(frame)) {
    return;
  }
  id_ = head.session;
  state_ = State::up;
  come_up(head, now);
  const std::string_view text = text_of(frame.payload);
  commands_.emplace_back(CameUp{
      {std::string(text.substr(0, head.b)), std::string(text.substr(head.b))}});
  send_have(0, now);
  send_here(now);
  send_beat(now);
}

/// Beats as often as the peer's lease needs.
void LinkSession::come_up(const FrameHead& head, TimePoint now) {
  const Duration their_lease =
      milliseconds(std::clamp<std::uint64_t>(head.a, 10, 3'600'000));
  beat_interval_ = std::min(options_.beat_interval, their_lease / 8);
  last_heard_ = now;
  control_heard_ = now;
  said(now);
}

void LinkSession::accept(const Accept& event, TimePoint now) {
  if (state_ != State::listening || id_.dialler == 0) {
    return;
  }
  greeting_ = event.record;
  if (!event.name.empty()) {
    options_.peer = event.name;
  }
  state_ = State::up;
  last_heard_ = now;
  control_heard_ = now;
  beat_due_ = now;
  said(now);
  send_welcome();
  commands_.emplace_back(CameUp{theirs_});
}

void LinkSession::leave(const Leave& event) {
  const FrameKind kind =
      state_ == State::listening ? FrameKind::refuse : FrameKind::bye;
  transmit({.kind = kind}, sentence_payload(event.sentence));
  end(std::nullopt);
}

void LinkSession::other_version(const OtherVersion& event) {
  const std::string ours = std::to_string(kLinkVersion);
  std::string what = "speaks version " + std::to_string(event.version) +
                     " of the link protocol, this side version " + ours;
  if (!event.sentence.empty()) {
    what += "; it says: " + event.sentence;
  }
  if (state_ == State::dialling) {
    end(loss_of(LossCause::version, what));
  }
}

void LinkSession::trouble(const ConnectionTrouble& event) {
  trouble_ = event.why;
  if (event.is_final && state_ == State::dialling) {
    end(loss_of(LossCause::refused, trouble_));
  }
}

bool LinkSession::has_dialled() const noexcept {
  return id_.dialler == options_.random;
}

void LinkSession::send_here(TimePoint now) {
  transmit({.kind = FrameKind::here});
  here_due_ = now + options_.lease / 4;
}

void LinkSession::send_hello(TimePoint now) {
  transmit({.kind = FrameKind::hello,
            .a = in_ms(options_.lease),
            .b = options_.role.size()},
           greeting_payload({options_.role, greeting_}));
  greet_due_ = now + kGreetAgain;
}

void LinkSession::send_welcome() {
  transmit({.kind = FrameKind::welcome,
            .a = in_ms(options_.lease),
            .b = options_.role.size()},
           greeting_payload({options_.role, greeting_}));
}

void LinkSession::breach(const std::string& what) {
  transmit({.kind = FrameKind::bye},
           sentence_payload("this side broke the protocol: " + what));
  end(Loss{LossCause::breach, options_.peer + " broke the protocol: " + what});
}

/// `does` goes on after the peer's name.
Loss LinkSession::loss_of(LossCause cause, const std::string& does) const {
  return {cause, options_.peer + " " + does, "it " + does};
}

void LinkSession::end(std::optional<Loss> loss) {
  state_ = State::ended;
  pieces_.clear();
  partial_.clear();
  commands_.emplace_back(Ended{std::move(loss)});
}

void LinkSession::transmit(FrameHead head, SharedBytes payload) {
  head.session = id_;
  commands_.emplace_back(Transmit{head, std::move(payload)});
}

}  // namespace troupe::net
