// Messages that wait for a link.

#include "actors/remote/outbox.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "actors/remote/proxies.h"
#include "actors/system_config.h"
#include "actors/wire/codec.h"
#include "tests/actors/linked_company.h"

namespace troupe::actors {
namespace {

constexpr net::PeerId kPeer = 1;

/// A link without room, until there is.
class FullHub final : public HubBefore {
 public:
  FullHub() : HubBefore(nullptr) {}

  net::SendResult send(net::PeerId /*peer*/, net::SharedBytes record) override {
    if (has_room) {
      arrived.push_back(std::move(record));
    }
    return has_room ? net::SendResult::queued : net::SendResult::no_room;
  }

  bool has_room = false;
  std::vector<net::SharedBytes> arrived;
};

TEST(Outbox, CountsWhatWaits) {
  FullHub hub;
  Outbox outbox(hub, kPeer);
  outbox.send("ten bytes.");
  outbox.send(std::string(net::kMostRecordBytes, 'x'));
  // One byte of each record says whether more follows.
  EXPECT_EQ(outbox.num_waiting(), 10 + net::kMostRecordBytes + 3);
  hub.has_room = true;
  outbox.on_room();
  EXPECT_EQ(outbox.num_waiting(), 0U);
  EXPECT_EQ(hub.arrived.size(), 3U);
  outbox.send("gone at once");
  EXPECT_EQ(outbox.num_waiting(), 0U);
}

TEST(Outbox, GrowsByResultsAloneBehindASlowLink) {
  constexpr int kResults = 100;
  constexpr std::size_t kValues = 20'000;  // some 200 KiB
  FullHub hub;
  const auto outbox = std::make_shared<Outbox>(hub, kPeer);
  {
    SystemConfig config;
    caf::actor_system system(config);
    caf::scoped_actor self(system);
    const CoordinatorActor proxy = spawn_coordinator_proxy(
        system, {.outbox = outbox,
                 .classes = {},
                 .on_process = [](const ProcessActor&) {},
                 .on_worker = [](const WorkerUp&, const WorkerActor&) {},
                 .on_fault = [](const Failure&) {}});
    for (int i = 0; i < kResults; ++i) {
      GrantResult result;
      result.grants = {static_cast<std::uint64_t>(i)};
      result.reads.resize(kValues, {{1U << 30U, 1, 1}, 1U << 30U});
      self->send(proxy, CoordinatorEvent(std::move(result)));
      self->send(proxy, CoordinatorEvent(WorkerBeat{}));
    }
    // The proxy answers after it has sent all earlier messages.
    self->request(proxy, caf::infinite, halt_atom::value)
        .receive([] {}, [](const caf::error&) { ADD_FAILURE(); });
    self->send_exit(proxy, caf::exit_reason::user_shutdown);
    self->wait_for(proxy);
  }
  EXPECT_GT(outbox->num_waiting(), 8U << 20U);
  hub.has_room = true;
  outbox->on_room();
  std::vector<std::uint64_t> grants;
  int beats = 0;
  for (const net::SharedBytes& record : hub.arrived) {
    const wire::News news = wire::decode_news(record.span().subspan(1));
    if (const auto* result = std::get_if<GrantResult>(&news)) {
      grants.push_back(result->grants.at(0));
    } else {
      ++beats;
    }
  }
  ASSERT_EQ(grants.size(), std::size_t{kResults}) << "results are not lost";
  for (std::size_t i = 0; i < grants.size(); ++i) {
    EXPECT_EQ(grants[i], i);
  }
  EXPECT_GE(beats, 1);
  EXPECT_LT(beats, kResults / 2) << "beats are left out";
}

}  // namespace
}  // namespace troupe::actors
