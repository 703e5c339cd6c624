#include "actors/messages.h"

#include <gtest/gtest.h>

#include <caf/binary_serializer.hpp>

#include "actors/shells.h"

namespace troupe::actors {
namespace {

class Config final : public caf::actor_system_config {
 public:
  Config() {
    add_message_types<caf::id_block::troupe>();
    set("scheduler.policy", caf::atom("testing"));
  }
};

template <typename T>
class InProcessMessages : public testing::Test {};
using Types = testing::Types<WorkerMessage, ProcessMessage, CoordinatorEvent,
                             ObserverEvent, ProcessJoined, HolderAsked,
                             WorkerUp, WorkerDown, DropRuns, WorkerFault>;
TYPED_TEST_SUITE(InProcessMessages, Types);

TYPED_TEST(InProcessMessages, RefuseToBeSerialised) {
  Config config;
  caf::actor_system system(config);
  std::vector<char> bytes;
  caf::binary_serializer sink(system, bytes);
  TypeParam value{};
  EXPECT_THROW((void)sink(value), Error);
}

TEST(Errors, KeepTheirCodeAndTextAsCafErrors) {
  const caf::error error =
      to_caf_error({Errc::out_of_memory, "x", "no memory", {}});
  EXPECT_EQ(error, caf::make_error(Errc::out_of_memory));
  EXPECT_EQ(error.context().get_as<std::string>(0), "no memory");
}

TEST(Errors, SurviveTheWayThroughAFailure) {
  const Error before(Errc::io, "png", "cannot write: got EIO", "try elsewhere");
  Failure failure;
  try {
    throw before;
  } catch (...) {
    failure = current_failure();
  }
  const Error after = to_error(failure);
  EXPECT_EQ(after.code(), before.code());
  EXPECT_STREQ(after.what(), before.what());
  EXPECT_EQ(after.hint(), before.hint());
}

}  // namespace
}  // namespace troupe::actors
