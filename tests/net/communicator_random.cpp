#include <algorithm>
#include <cstdlib>

#include "tests/net/communicator_program.h"

// Random programs of operations. Every kind has to give the bytes that the
// communicator inside one process gives.

namespace troupe::net {
namespace {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr std::uint64_t kPrograms = 10;
#else
constexpr std::uint64_t kPrograms = 40;
#endif

int ranks_of_program(std::uint64_t seed) {
  return static_cast<int>(
      1 + std::min(hash_of({seed, 1}) % 16, hash_of({seed, 2}) % 16));
}

/// What every rank got.
std::vector<Bytes> run_program(const CommunicatorKind& kind,
                               std::uint64_t seed) {
  const int ranks = ranks_of_program(seed);
  std::vector<Bytes> got(static_cast<std::size_t>(ranks));
  expect_no_errors(run_ranks(kind, ranks, [&](TestRank& self) {
    got[static_cast<std::size_t>(self.rank())] = ProgramRank(self, seed).run();
  }));
  return got;
}

class CommunicatorProgramTest
    : public testing::TestWithParam<CommunicatorKind> {};

TEST_P(CommunicatorProgramTest, GivesTheBytesOfTheReference) {
  const char* text = std::getenv("TROUPE_COMMUNICATOR_PROGRAMS");
  const std::uint64_t count =
      text != nullptr ? std::strtoull(text, nullptr, 10) : kPrograms;
  std::size_t num_bytes = 0;
  for (std::uint64_t seed = 0; seed < count; ++seed) {
    const std::vector<Bytes> want = run_program(inproc_kind(), seed);
    ASSERT_TRUE(run_program(GetParam(), seed) == want) << "program " << seed;
    for (const Bytes& bytes : want) {
      num_bytes += bytes.size();
    }
  }
  RecordProperty("bytes", std::to_string(num_bytes));
  EXPECT_GT(num_bytes, count * 100);
}

INSTANTIATE_TEST_SUITE_P(Kinds, CommunicatorProgramTest,
                         testing::ValuesIn(communicator_kinds()),
                         [](const auto& kind) { return kind.param.name; });

}  // namespace
}  // namespace troupe::net
