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
#include "kernels/core/system/machine.h"
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
  /// A limit that leaves `bytes` beside what groups keep for the program.
  void put_limit(const std::string& path, std::uint64_t bytes) {
    constexpr std::uint64_t kOwn = std::uint64_t{15} << 19U;
    put(path, std::to_string(bytes + kOwn) + "\n");
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
  EXPECT_EQ(memory().binding().kind, MemoryLimit::Kind::machine);
  EXPECT_EQ(to_string(memory().binding()),
            "this machine allows 7.81 MiB: 1.95 MiB are used");
}

TEST_F(FakeMachine, ControlGroupLimitCountsLessItsUse) {
  put_meminfo();
  put("proc/self/cgroup", "0::/job/step\n");
  put_limit("sys/fs/cgroup/job/step/memory.max", 3000000);
  put("sys/fs/cgroup/job/step/memory.current", "1000000\n");
  EXPECT_EQ(memory().available_bytes, 2000000U);
  EXPECT_EQ(memory().binding().kind, MemoryLimit::Kind::cgroup);
  EXPECT_EQ(to_string(memory().binding()),
            "the control group " +
                (folder_.path() / "sys/fs/cgroup/job/step").string() +
                " (memory.max) allows 10.4 MiB: 977 KiB are used, 7.50 MiB "
                "kept for the program itself");
}

TEST_F(FakeMachine, AddressSpaceLimitCountsLessItsUseAndAReserve) {
  put_meminfo();
  put("proc/self/status", "VmPeak: 9 kB\nVmSize: 1000 kB\n");
  put("proc/self/limits",
      "Max address space         1075965824           unlimited  bytes\n");
  // 2^30 reserved, 1,024,000 in use.
  EXPECT_EQ(memory().available_bytes, 1200000U);
  EXPECT_EQ(to_string(memory().binding()),
            "ulimit -v allows 1.00 GiB: 0.98 MiB are used, 1.00 GiB kept for "
            "the program itself");
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
  put_limit("sys/fs/cgroup/memory.max", 3000000);
  put("sys/fs/cgroup/memory.current", "1000000\n");
  put("sys/fs/cgroup/memory.stat",
      "anon 5\ninactive_file 400000\nactive_file 7\n");
  EXPECT_EQ(memory().available_bytes, 2400000U);
}

TEST_F(FakeMachine, TightestGroupOnTheWayUpDecides) {
  put_meminfo();
  put("proc/self/cgroup", "0::/job/step\n");
  put("sys/fs/cgroup/job/step/memory.max", "max\n");
  put_limit("sys/fs/cgroup/job/memory.max", 2000000);
  put("sys/fs/cgroup/job/memory.current", "500000\n");
  put_limit("sys/fs/cgroup/memory.max", 5000000);
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
  EXPECT_EQ(memory().binding().kind, MemoryLimit::Kind::machine);
  EXPECT_EQ(memory().limits.size(), 1U);  // a limit that nobody set
}

TEST_F(FakeMachine, GroupOfVersionTwoThatIsHeldUpCountsAsFull) {
  put_meminfo();
  put("proc/self/cgroup", "0::/job\n");
  put_limit("sys/fs/cgroup/job/memory.max", 5000000);
  put_limit("sys/fs/cgroup/job/memory.high", 3000000);
  put("sys/fs/cgroup/job/memory.current", "1000000\n");
  EXPECT_EQ(memory().available_bytes, 2000000U);
  EXPECT_NE(memory().binding().name.find("(memory.high)"), std::string::npos);
}

TEST_F(FakeMachine, GroupThatFourImagesFilledLeavesNoRoomForThem) {
  put("proc/meminfo", "MemTotal: 24000000 kB\nMemAvailable: 23000000 kB\n");
  put("proc/self/cgroup", "4:memory:/job\n");
  put("sys/fs/cgroup/memory/job/memory.usage_in_bytes", "1798144\n");
  const std::uint64_t forecast = 23'279'272;  // killed at 24 MiB, done at 32
  put("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "25165824\n");
  EXPECT_LT(memory().available_bytes, forecast);
  put("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "33554432\n");
  EXPECT_GT(memory().available_bytes, forecast);
}

TEST_F(FakeMachine, GroupsAreFoundWhereTheyAreMounted) {
  put_meminfo();
  // A container that sees its own group as the root of an unusual mount.
  put("proc/self/cgroup", "7:memory:/docker/abc/job\n0::/\n");
  put("proc/self/mountinfo",
      "35 31 0:32 /docker/abc /my\\040groups/memory ro shared:9 - cgroup "
      "cgroup rw,memory\n"
      "36 31 0:33 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
  put_limit("my groups/memory/job/memory.limit_in_bytes", 3000000);
  put("my groups/memory/job/memory.usage_in_bytes", "500000\n");
  EXPECT_EQ(memory().available_bytes, 2500000U);
  put_limit("my groups/memory/memory.limit_in_bytes", 2000000);
  EXPECT_EQ(memory().available_bytes, 2000000U);
  put_limit("sys/fs/cgroup/unified/memory.max", 1000000);
  EXPECT_EQ(memory().available_bytes, 1000000U);
}

TEST_F(FakeMachine, VersionOneGroupsAreReadToo) {
  put_meminfo();
  put("proc/self/cgroup", "9:cpu,cpuacct:/job\n7:hugetlb,memory:/job\n");
  put_limit("sys/fs/cgroup/memory/job/memory.limit_in_bytes", 3000000);
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
  EXPECT_EQ(core_info().affinity, CPU_COUNT(&before));
  EXPECT_LE(num_usable_cores(), CPU_COUNT(&before));
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

/// More cores than the quotas below grant, whatever machine runs the test.
class FakeQuota : public FakeMachine {
 protected:
  [[nodiscard]] double quota() const { return core_info(folder_.path()).quota; }
  [[nodiscard]] std::string file() const {
    return std::filesystem::relative(core_info(folder_.path()).quota_file,
                                     folder_.path())
        .string();
  }
};

TEST_F(FakeQuota, IsNoneWithoutAGroupThatSaysSo) {
  EXPECT_EQ(quota(), 0);
  put("proc/self/cgroup", "0::/job\n3:cpu,cpuacct:/job\n");
  put("sys/fs/cgroup/job/cpu.max", "max 100000\n");
  put("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "-1\n");
  put("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(quota(), 0);
  EXPECT_EQ(num_usable_cores(folder_.path()), num_usable_cores());
}

TEST_F(FakeQuota, OfVersionTwoIsTheTightestOnTheWayUp) {
  put("proc/self/cgroup", "0::/job/step\n");
  put("sys/fs/cgroup/job/step/cpu.max", "max 100000\n");
  put("sys/fs/cgroup/job/cpu.max", "75000 50000\n");
  put("sys/fs/cgroup/cpu.max", "400000 100000\n");
  EXPECT_EQ(quota(), 1.5);
  EXPECT_EQ(file(), "sys/fs/cgroup/job/cpu.max");
}

TEST_F(FakeQuota, OfVersionOneIsInTwoFiles) {
  for (const char* mount : {"cpu,cpuacct", "cpu"}) {
    put("proc/self/cgroup", std::string("3:") + mount + ":/job\n");
    const std::string group = std::string("sys/fs/cgroup/") + mount + "/job/";
    put(group + "cpu.cfs_quota_us", "250000\n");
    put(group + "cpu.cfs_period_us", "100000\n");
    EXPECT_EQ(quota(), 2.5) << mount;
    EXPECT_EQ(file(), group + "cpu.cfs_quota_us");
    std::filesystem::remove_all(folder_.path() / "sys");
  }
}

TEST_F(FakeQuota, HoldsTheCoresDown) {
  put("proc/self/cgroup", "0::/\n");
  put("sys/fs/cgroup/cpu.max", "20000 100000\n");
  EXPECT_EQ(num_usable_cores(folder_.path()), 1);
}

TEST(Cores, AreThoseOfTheMaskOrTheQuotaRoundedUp) {
  const auto usable = [](int affinity, double quota) {
    return CoreInfo{.affinity = affinity, .quota = quota, .quota_file = {}}
        .usable();
  };
  EXPECT_EQ(usable(8, 0), 8);
  EXPECT_EQ(usable(8, 2), 2);
  EXPECT_EQ(usable(8, 2.1), 3);
  EXPECT_EQ(usable(2, 7.5), 2);
  EXPECT_EQ(usable(64, 0.2), 1);
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
