// Addresses of processes, and which members of a job get them.

#include "actors/remote/member_list.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "actors/wire/codec.h"
#include "kernels/core/error.h"
#include "tests/actors/linked_company.h"

namespace troupe::actors {
namespace {

using Texts = std::vector<std::string>;

TEST(DialledEndpoints, NameTheHostThatTheProcessDialledFrom) {
  const Texts any = {"tcp://0.0.0.0:7", "tcp://[::]:8", "tcp://*:9"};
  EXPECT_EQ(
      dialled_endpoints(any, "10.0.0.7"),
      (Texts{"tcp://10.0.0.7:7", "tcp://10.0.0.7:8", "tcp://10.0.0.7:9"}));
  EXPECT_EQ(dialled_endpoints({any[1]}, "fe80::1"), Texts{"tcp://[fe80::1]:8"});
  EXPECT_EQ(dialled_endpoints({any[1]}, "::ffff:10.0.0.7"),
            Texts{"tcp://10.0.0.7:8"});
  EXPECT_EQ(dialled_endpoints(any, ""), Texts{}) << "it came by no host";
  const Texts named = {"tcp://10.0.0.1:7", "ipc:///a", "inproc://b"};
  EXPECT_EQ(dialled_endpoints(named, "10.0.0.7"), named);
  for (const std::string& bad :
       {std::string("tcp://10.0.0.1:*"), std::string("10.0.0.1:7")}) {
    EXPECT_THROW((void)dialled_endpoints({bad}, ""), Error) << bad;
  }
}

/// Keeps what it is to send.
class Recorder final : public HubBefore {
 public:
  Recorder() : HubBefore(nullptr) {}
  net::SendResult send(net::PeerId peer, net::SharedBytes record) override {
    Assembler one;
    const auto message = one.add(record.span(), wire::kMostNewsBytes);
    said[peer].push_back(std::get<PeerAddress>(
        wire::decode_news(net::bytes_of(message.value()))));
    return net::SendResult::queued;
  }
  std::map<net::PeerId, std::vector<PeerAddress>> said;
};

class Members : public testing::Test {
 protected:
  std::shared_ptr<Member> add(net::PeerId peer, const Texts& endpoints,
                              const std::string& address) {
    auto member =
        members_.add(hub_, peer, {"test", "test", endpoints}, address);
    members_.came_up(*member);
    return member;
  }

  Recorder hub_;
  MemberList members_;
};

TEST_F(Members, HearOfEachOtherAndOfDepartures) {
  const auto first = add(11, {"ipc:///a"}, "");
  EXPECT_TRUE(hub_.said.empty());
  const auto second = add(12, {"ipc:///b"}, "");
  ASSERT_EQ(hub_.said[11].size(), 1U);
  ASSERT_EQ(hub_.said[12].size(), 1U);
  const PeerAddress& sent = hub_.said[11].front();
  EXPECT_EQ(sent.process, second->process);
  EXPECT_EQ(sent.endpoints, Texts{"ipc:///b"});
  EXPECT_EQ(sent.tokens.request, second->address.tokens.request);
  EXPECT_EQ(sent.tokens.answer, second->address.tokens.answer);
  EXPECT_EQ(members_.remove(12, true), second);
  ASSERT_EQ(hub_.said[11].size(), 2U);
  EXPECT_EQ(hub_.said[11].back().process, second->process);
  EXPECT_TRUE(hub_.said[11].back().endpoints.empty());
  EXPECT_EQ(members_.remove(12, true), nullptr);
}

TEST_F(Members, MayHaveOneName) {
  const auto first = add(11, {"ipc:///a"}, "");
  const auto second = add(12, {"ipc:///b"}, "");
  ASSERT_EQ(first->address.endpoints, Texts{"ipc:///a"});
  EXPECT_EQ(members_.known(*first).name, members_.known(*second).name);
  EXPECT_NE(first->process, second->process) << "numbers tell them apart";
  EXPECT_EQ(members_.find_process(second->process), second);
  EXPECT_EQ(members_.remove(11, true), first);
  EXPECT_EQ(members_.find_process(second->process), second);
  const auto third = add(13, {}, "");
  EXPECT_EQ(members_.known(*third).name, "test");
  EXPECT_NE(third->process, first->process) << "nor is a number used again";
  EXPECT_EQ(members_.known().size(), 3U);
}

TEST_F(Members, HaveTokensOfTheirOwn) {
  const PeerTokens a = add(11, {}, "")->address.tokens;
  const PeerTokens b = add(12, {}, "")->address.tokens;
  EXPECT_EQ(
      std::set<std::string>({a.request, a.answer, b.request, b.answer}).size(),
      4U);
  EXPECT_EQ(a.request.size(), 32U);
  EXPECT_TRUE(hub_.said.empty()) << "nobody can dial either";
}

TEST_F(Members, HearWhoGivesTheModel) {
  const auto first = add(11, {"ipc:///a"}, "");
  const auto second = add(12, {"ipc:///b"}, "");
  EXPECT_FALSE(hub_.said[12].at(0).gives_model);
  members_.gives_model(*first, true);
  members_.gives_model(*first, true);
  ASSERT_EQ(hub_.said[12].size(), 2U) << "once";
  EXPECT_EQ(hub_.said[12].back().process, first->process);
  EXPECT_EQ(hub_.said[12].back().endpoints, Texts{"ipc:///a"});
  EXPECT_TRUE(hub_.said[12].back().gives_model);
  EXPECT_EQ(hub_.said[11].size(), 1U) << "it knows of itself";
  add(13, {"ipc:///c"}, "");
  EXPECT_TRUE(hub_.said[13].at(0).gives_model) << "so does who comes later";
  EXPECT_FALSE(hub_.said[13].at(1).gives_model);
  members_.gives_model(*first, false);
  EXPECT_FALSE(hub_.said[12].back().gives_model);
}

TEST_F(Members, HearOnlyOfWhatTheyCanDial) {
  add(11, {"tcp://127.0.0.1:7"}, "127.0.0.1");
  add(12, {"tcp://0.0.0.0:8"}, "10.0.0.7");
  EXPECT_EQ(hub_.said[11].at(0).endpoints, Texts{"tcp://10.0.0.7:8"});
  EXPECT_TRUE(hub_.said[12].empty()) << "that is another machine's loopback";
  (void)members_.remove(11, true);
  EXPECT_TRUE(hub_.said[12].empty());
}

}  // namespace
}  // namespace troupe::actors
