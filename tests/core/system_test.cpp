#include "kernels/core/system.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "kernels/core/error.h"
#include "temporary_folder.h"

namespace troupe {
namespace {

class FakeMachine : public testing::Test {
 protected:
  void put(const std::string& path, const std::string& content) {
    const auto file = folder_.path() / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << content;
  }
  void put_meminfo() {
    put("proc/meminfo",
        "MemTotal:       8000 kB\nMemFree:  100 kB\nMemAvailable:   6000 kB\n");
  }
  [[nodiscard]] MemoryInfo memory() const {
    return memory_info(folder_.path());
  }
  TemporaryFolder folder_;
};

TEST_F(FakeMachine, MemoryIsWhatMeminfoSaysWithoutAControlGroup) {
  put_meminfo();
  EXPECT_EQ(memory().physical_bytes, 8000U * 1024);
  EXPECT_EQ(memory().available_bytes, 6000U * 1024);
  EXPECT_FALSE(memory().is_limited_by_cgroup);
}

TEST_F(FakeMachine, ControlGroupLimitCountsLessItsUse) {
  put_meminfo();
  put("proc/self/cgroup", "0::/job/step\n");
  put("sys/fs/cgroup/job/step/memory.max", "3000000\n");
  put("sys/fs/cgroup/job/step/memory.current", "1000000\n");
  EXPECT_EQ(memory().available_bytes, 2000000U);
  EXPECT_TRUE(memory().is_limited_by_cgroup);
}

TEST_F(FakeMachine, AddressSpaceLimitCountsLessItsUseAndAReserve) {
  put_meminfo();
  put("proc/self/status", "VmPeak: 9 kB\nVmSize: 1000 kB\n");
  put("proc/self/limits",
      "Max address space         1075965824           unlimited  bytes\n");
  // 2^30 reserved, 1,024,000 in use.
  EXPECT_EQ(memory().available_bytes, 1200000U);
}

TEST_F(FakeMachine, NoAddressSpaceLimitTakesNothing) {
  put_meminfo();
  put("proc/self/limits",
      "Max address space         unlimited            unlimited  bytes\n");
  EXPECT_EQ(memory().available_bytes, 6000U * 1024);
}

TEST(HumanBytes, HasThreeDigitsInTheUnitThatFits) {
  EXPECT_EQ(human_bytes(0), "0 B");
  EXPECT_EQ(human_bytes(512), "512 B");
  EXPECT_EQ(human_bytes(1000), "0.98 KiB");
  EXPECT_EQ(human_bytes(32'900'000), "31.4 MiB");
  EXPECT_EQ(human_bytes(std::uint64_t{2} << 30U), "2.00 GiB");
  EXPECT_EQ(human_bytes(std::uint64_t{200} << 30U), "200 GiB");
}

TEST_F(FakeMachine, InactiveFilePagesOfTheGroupCountAsFree) {
  put_meminfo();
  put("proc/self/cgroup", "0::/\n");
  put("sys/fs/cgroup/memory.max", "3000000\n");
  put("sys/fs/cgroup/memory.current", "1000000\n");
  put("sys/fs/cgroup/memory.stat",
      "anon 5\ninactive_file 400000\nactive_file 7\n");
  EXPECT_EQ(memory().available_bytes, 2400000U);
}

TEST_F(FakeMachine, TightestGroupOnTheWayUpDecides) {
  put_meminfo();
  put("proc/self/cgroup", "0::/job/step\n");
  put("sys/fs/cgroup/job/step/memory.max", "max\n");
  put("sys/fs/cgroup/job/memory.max", "2000000\n");
  put("sys/fs/cgroup/job/memory.current", "500000\n");
  put("sys/fs/cgroup/memory.max", "5000000\n");
  EXPECT_EQ(memory().available_bytes, 1500000U);
}

TEST_F(FakeMachine, GroupOverItsLimitLeavesNothing) {
  put_meminfo();
  put("proc/self/cgroup", "0::/\n");
  put("sys/fs/cgroup/memory.max", "1000\n");
  put("sys/fs/cgroup/memory.current", "5000\n");
  EXPECT_EQ(memory().available_bytes, 0U);
}

TEST_F(FakeMachine, LimitAboveWhatTheSystemHasChangesNothing) {
  put_meminfo();
  put("proc/self/cgroup", "0::/\n");
  put("sys/fs/cgroup/memory.max", "9223372036854771712\n");
  EXPECT_EQ(memory().available_bytes, 6000U * 1024);
  EXPECT_FALSE(memory().is_limited_by_cgroup);
}

TEST_F(FakeMachine, VersionOneGroupsAreReadToo) {
  put_meminfo();
  put("proc/self/cgroup", "9:cpu,cpuacct:/job\n7:hugetlb,memory:/job\n");
  put("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "3000000\n");
  put("sys/fs/cgroup/memory/job/memory.usage_in_bytes", "1000000\n");
  put("sys/fs/cgroup/memory/job/memory.stat", "total_inactive_file 500000\n");
  EXPECT_EQ(memory().available_bytes, 2500000U);
}

TEST_F(FakeMachine, MissingMeminfoIsAnError) {
  try {
    (void)memory();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::unsupported);
  }
}

TEST_F(FakeMachine, ReadsThePeakAndTheCpuModel) {
  put("proc/self/status", "Name:\tx\nVmPeak:\t  9 kB\nVmHWM:\t  1234 kB\n");
  put("proc/cpuinfo", "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\n");
  EXPECT_EQ(peak_rss_bytes(folder_.path()), 1234U * 1024);
  EXPECT_EQ(cpu_model(folder_.path()), "Some CPU @ 2 GHz");
}

TEST_F(FakeMachine, UnknownFactsAreSaidToBe) {
  EXPECT_EQ(peak_rss_bytes(folder_.path()), 0U);
  EXPECT_EQ(cpu_model(folder_.path()), "unknown");
}

TEST(System, PeakGrowsByWhatIsTouched) {
  constexpr std::size_t kBytes = 64 << 20;
  const std::uint64_t before = peak_rss_bytes();
  std::vector<char> touched(kBytes, 1);
  EXPECT_EQ(touched[kBytes / 2], 1);
  EXPECT_GT(before, 0U);
  EXPECT_GE(peak_rss_bytes(), kBytes);
}

TEST(System, AvailableMemoryIsNotMoreThanThereIs) {
  const MemoryInfo info = memory_info();
  EXPECT_GT(info.available_bytes, 0U);
  EXPECT_LE(info.available_bytes, info.physical_bytes);
}

TEST(System, UsableCoresFollowTheAffinityMask) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  EXPECT_EQ(num_usable_cores(), CPU_COUNT(&before));
  int core = 0;
  while (!CPU_ISSET(core, &before)) {
    ++core;
  }
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(core, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  EXPECT_EQ(num_usable_cores(), 1);
  ASSERT_EQ(sched_setaffinity(0, sizeof(before), &before), 0);
}

std::set<std::string> words_of(const std::string& text) {
  std::istringstream stream(text);
  return {std::istream_iterator<std::string>(stream), {}};
}

TEST(System, CpuFeaturesAgreeWithTheKernels) {
  std::ifstream cpuinfo("/proc/cpuinfo");
  std::set<std::string> flags;
  for (std::string line; flags.empty() && std::getline(cpuinfo, line);) {
    if (line.starts_with("flags")) {
      flags = words_of(line);
    }
  }
  const std::set<std::string> features = words_of(cpu_features());
  for (const std::string name :
       {"avx2", "fma", "avx512f", "avx512_bf16", "amx_bf16"}) {
    EXPECT_EQ(features.contains(name), flags.contains(name)) << name;
  }
  EXPECT_EQ(cpu_is_supported(),
            flags.contains("avx2") && flags.contains("fma"));
}

}  // namespace
}  // namespace troupe
