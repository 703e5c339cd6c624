#include "net/nccl.h"
#include "tests/net/communicator_world.h"

namespace troupe::net {

std::vector<CommunicatorKind> communicator_kinds() { return {inproc_kind()}; }

namespace {

// With the real library, or without any; not with the emulated one.
TEST(Nccl, SaysItsVersionOrWhyItIsNotThere) {
  try {
    EXPECT_THAT(nccl_version(), testing::MatchesRegex("2\\.[0-9]+\\.[0-9]+"));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::unsupported);
    EXPECT_THAT(error.message(), testing::HasSubstr("NCCL"));
    EXPECT_THAT(error.message(), testing::Not(testing::HasSubstr("\n")));
    EXPECT_FALSE(error.hint().empty());
  }
}

}  // namespace
}  // namespace troupe::net
