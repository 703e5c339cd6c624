#include "actors/directory.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace troupe::actors {
namespace {

TEST(RunDirectory, ListsAHolderOnItsWordAlone) {
  RunDirectory values;
  values.expect(5, 2);
  EXPECT_FALSE(values.holder(5, 2));
  values.add(5, 3, {});  // was never asked for it
  EXPECT_FALSE(values.holder(5, 3));
  values.add(5, 2, {});
  EXPECT_EQ(values.holder(5, 0), 2);
  values.remove(5, 2);
  EXPECT_FALSE(values.holder(5, 0));
}

TEST(RunDirectory, PrefersTheNearHolder) {
  RunDirectory values;
  for (int process : {1, 2, 3}) {
    values.expect(5, process);
    values.add(5, process, {});
  }
  EXPECT_EQ(values.holder(5, 2), 2);
  EXPECT_EQ(values.holder(5, 3), 3);
  EXPECT_TRUE(values.holder(5, 9));
}

TEST(RunDirectory, NamesWhoHoldsAValueBesidesAProcess) {
  RunDirectory values;
  values.expect(5, 1);
  values.add(5, 1, {});
  values.expect(5, 2);
  EXPECT_FALSE(values.other_holder(5, 1)) << "it was only asked for it";
  EXPECT_TRUE(values.is_only_at(5, 1));
  EXPECT_FALSE(values.is_only_at(5, 2));
  EXPECT_FALSE(values.is_only_at(6, 1));
  values.add(5, 2, {});
  EXPECT_EQ(values.other_holder(5, 1), 2);
  EXPECT_EQ(values.other_holder(5, 2), 1);
  EXPECT_FALSE(values.is_only_at(5, 1));
}

TEST(RunDirectory, TellsOfAFreedValueWhoeverMayHoldIt) {
  RunDirectory values;
  values.expect(5, 1);
  values.expect(5, 2);
  values.add(5, 1, {});
  EXPECT_EQ(values.free(5), (InlineVector<int, 4>{1, 2}));
  EXPECT_TRUE(values.free(5).empty());
  values.add(5, 2, {});  // late: it has been asked to free it
  EXPECT_FALSE(values.holder(5, 2));
  EXPECT_EQ(values.processes(), (std::set<int>{1, 2}));
}

TEST(RunDirectory, LosesWhatLayInAProcessOrInAMemory) {
  constexpr Device kGpu{DeviceKind::cuda, 1};
  RunDirectory values;
  for (const samplers::Slot slot : {1U, 2U}) {
    for (int process : {1, 2}) {
      values.expect(slot, process);
    }
  }
  values.add(1, 1, kGpu);
  values.add(2, 1, {});
  values.add(2, 2, kGpu);
  values.lose(1, kGpu);
  EXPECT_FALSE(values.holder(1, 1));
  EXPECT_EQ(values.holder(2, 1), 1);
  EXPECT_EQ(values.holder(2, 2), 2) << "another process's GPU";
  values.lose(1);
  EXPECT_EQ(values.holder(2, 1), 2);
  EXPECT_EQ(values.free(2), (InlineVector<int, 4>{2}));
}

}  // namespace
}  // namespace troupe::actors
