#include "actors/picture_writer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <map>
#include <set>
#include <stdexcept>
#include <string>

namespace troupe::actors {
namespace {

/// What stands on it is durable or lost with the power, and it counts.
class FakeDisk final : public Disk {
 public:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    std::set<std::string> temporary;
    std::set<std::string> synced;
    std::vector<std::string> named;  ///< in this order
    std::set<std::string> durable;   ///< file and name
    int folder_syncs = 0;
    int syncing = 0;       ///< now
    int most_syncing = 0;  ///< ever
    int gathered = 0;      ///< syncs that wait for each other
    std::string refused;   ///< the file for which there is no space
  };

  explicit FakeDisk(int gathered = 0, std::string refused = {}) {
    state.gathered = gathered;
    state.refused = std::move(refused);
  }

  class File final : public Disk::File {
   public:
    File(State& state, std::string name)
        : state_(state), name_(std::move(name)) {
      const std::lock_guard lock(state_.mutex);
      state_.temporary.insert(name_);
    }
    ~File() override {
      const std::lock_guard lock(state_.mutex);
      state_.temporary.erase(name_);
    }
    void sync() override {
      std::unique_lock lock(state_.mutex);
      state_.most_syncing = std::max(state_.most_syncing, ++state_.syncing);
      state_.changed.notify_all();
      state_.changed.wait(
          lock, [&] { return state_.most_syncing >= state_.gathered; });
      --state_.syncing;
      if (name_ == state_.refused) {
        throw Error(Errc::no_space, "file", "cannot write " + name_);
      }
      state_.synced.insert(name_);
    }
    bool try_publish() override {
      const std::lock_guard lock(state_.mutex);
      EXPECT_TRUE(state_.synced.contains(name_)) << name_;
      state_.named.push_back(name_);
      return true;
    }
    [[nodiscard]] std::filesystem::path folder() const override {
      return std::filesystem::path(name_).parent_path();
    }

   private:
    State& state_;
    std::string name_;
  };

  std::unique_ptr<Disk::File> create(const std::filesystem::path& path,
                                     std::span<const std::byte> /*bytes*/,
                                     const FileRule& /*rule*/) override {
    return std::make_unique<File>(state, path.string());
  }
  void sync_folder(const std::filesystem::path& folder) noexcept override {
    const std::lock_guard lock(state.mutex);
    ++state.folder_syncs;
    for (const std::string& name : state.named) {
      if (std::filesystem::path(name).parent_path() == folder) {
        state.durable.insert(name);
      }
    }
  }

  State state;
};

std::string name_of(int i, const char* folder = "out") {
  return folder + ("/" + std::to_string(i));
}

PictureJob picture(const std::string& name) {
  return {.encode = [] { return std::vector<std::byte>(8); },
          .put =
              [name](Disk& disk, std::span<const std::byte> bytes) {
                return disk.create(name, bytes, {});
              },
          .publish = [](Disk::File* file) { EXPECT_TRUE(file->try_publish()); },
          .landed = {}};
}

TEST(PictureWriter, NamesAndCountsFilesInTheOrderOfPosting) {
  FakeDisk disk;
  std::vector<std::string> landed;
  std::vector<std::string> expected;
  PictureWriter writer({}, disk);
  for (int i = 0; i < 300; ++i) {
    const std::string name = name_of(i);
    expected.push_back(name);
    PictureJob job = picture(name);
    job.landed = [&, name] {
      const std::lock_guard lock(disk.state.mutex);
      EXPECT_TRUE(disk.state.durable.contains(name)) << name;
      landed.push_back(name);
    };
    writer.post(std::move(job));
  }
  writer.flush();
  EXPECT_EQ(disk.state.named, expected);
  EXPECT_EQ(landed, expected);
}

TEST(PictureWriter, WritesWhatWaitsBeforeItEnds) {
  FakeDisk disk;
  {
    PictureWriter writer({}, disk);
    for (int i = 0; i < 40; ++i) {
      writer.post(picture(name_of(i)));
    }
  }
  EXPECT_EQ(disk.state.durable.size(), 40U);
  EXPECT_TRUE(disk.state.temporary.empty());
}

TEST(PictureWriter, SyncsSideBySide) {
  constexpr int kThreads = 6;
  FakeDisk disk(kThreads);  // no sync ends before so many have begun
  PictureWriter writer({.threads = kThreads, .encoders = 1}, disk);
  for (int i = 0; i < kThreads; ++i) {
    writer.post(picture(name_of(i)));
  }
  writer.flush();
  EXPECT_EQ(disk.state.most_syncing, kThreads);
}

TEST(PictureWriter, EncodesAsManyAtOnceAsItMay) {
  constexpr int kEncoders = 3;
  FakeDisk disk;
  std::mutex mutex;
  std::condition_variable changed;
  int encoding = 0;
  int most = 0;
  PictureWriter writer({.threads = 8, .encoders = kEncoders}, disk);
  for (int i = 0; i < 30; ++i) {
    PictureJob job = picture(name_of(i));
    job.encode = [&] {
      std::unique_lock lock(mutex);
      most = std::max(most, ++encoding);
      changed.notify_all();
      changed.wait(lock, [&] { return most >= kEncoders; });
      --encoding;
      return std::vector<std::byte>(8);
    };
    writer.post(std::move(job));
  }
  writer.flush();
  EXPECT_EQ(most, kEncoders);
}

TEST(PictureWriter, SyncsAFolderOncePerGroup) {
  constexpr int kCount = 60;
  constexpr int kThreads = 4;
  FakeDisk disk;
  std::promise<void> gate;
  const std::shared_future<void> open = gate.get_future().share();
  PictureWriter writer({.threads = kThreads, .encoders = kThreads}, disk);
  // The first is not ready until all others are.
  PictureJob first = picture(name_of(0));
  first.encode = [open] {
    open.wait();
    return std::vector<std::byte>(8);
  };
  writer.post(std::move(first));
  for (int i = 1; i < kCount; ++i) {
    writer.post(picture(name_of(i, i % 2 == 0 ? "out" : "more")));
  }
  {
    std::unique_lock lock(disk.state.mutex);
    while (disk.state.synced.size() < kCount - 1) {
      lock.unlock();
      std::this_thread::yield();
      lock.lock();
    }
    EXPECT_TRUE(disk.state.named.empty());
  }
  gate.set_value();
  writer.flush();
  EXPECT_EQ(disk.state.durable.size(), std::size_t{kCount});
  // A thread that has not yet come back from its sync may cut the group in two,
  // and there are two folders.
  EXPECT_LE(disk.state.folder_syncs, 2 * kThreads);
}

TEST(PictureWriter, MakesThePosterWaitWhenTooManyWait) {
  FakeDisk disk;
  std::promise<void> gate;
  const std::shared_future<void> open = gate.get_future().share();
  PictureWriter writer({.capacity = 1}, disk);
  PictureJob slow = picture(name_of(0));
  slow.encode = [open] {
    open.wait();
    return std::vector<std::byte>(8);
  };
  writer.post(std::move(slow));
  std::atomic<bool> posted{false};
  std::thread poster([&] {
    writer.post(picture(name_of(1)));
    posted = true;
  });
  EXPECT_FALSE(posted);
  gate.set_value();
  poster.join();
  EXPECT_TRUE(posted);
}

TEST(PictureWriter, KeepsTheFirstErrorAndDropsTheRest) {
  for (const char* where : {"sync", "encode", "publish", "landed"}) {
    const bool at_sync = std::string(where) == "sync";
    FakeDisk disk(0, at_sync ? name_of(5) : "");
    std::promise<void> gate;
    const std::shared_future<void> open = gate.get_future().share();
    PictureWriter writer({}, disk);
    for (int i = 0; i < 60; ++i) {
      PictureJob job = picture(name_of(i));
      const auto fail = [i] {
        throw Error(Errc::no_space, "file", "cannot write " + name_of(i));
      };
      if (i == 0) {
        job.encode = [open] {
          open.wait();
          return std::vector<std::byte>(8);
        };
      } else if (i == 5 || i == 7) {  // the first in the order of posting
        if (std::string(where) == "encode") {
          job.encode = [fail] {
            fail();
            return std::vector<std::byte>();
          };
        } else if (std::string(where) == "publish") {
          job.publish = [fail](Disk::File* /*file*/) { fail(); };
        } else if (std::string(where) == "landed") {
          job.landed = fail;
        }
      }
      writer.post(std::move(job));
    }
    gate.set_value();
    try {
      writer.flush();
      FAIL() << "no error: " << where;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Errc::no_space);
      EXPECT_STREQ(error.what(), "[file] cannot write out/5") << where;
    }
    EXPECT_THROW(writer.post(picture("late")), Error);
    for (int i = 0; i < 5; ++i) {
      EXPECT_TRUE(disk.state.durable.contains(name_of(i))) << where << i;
    }
    EXPECT_TRUE(disk.state.temporary.empty()) << "something half written";
  }
}

TEST(PictureWriter, TurnsForeignExceptionsIntoErrors) {
  FakeDisk disk;
  PictureWriter writer({}, disk);
  PictureJob job = picture("out/a");
  job.encode = []() -> std::vector<std::byte> {
    throw std::runtime_error("odd");
  };
  writer.post(std::move(job));
  EXPECT_THROW(writer.flush(), Error);
}

TEST(PictureWriter, LetsGoOfWhatAPictureHoldsOnceItHasLanded) {
  FakeDisk disk;
  PictureWriter writer({}, disk);
  std::promise<bool> released;
  std::shared_ptr<void> receipt(nullptr, [&](void* /*none*/) {
    const std::lock_guard lock(disk.state.mutex);
    released.set_value(disk.state.durable.contains("out/a"));
  });
  PictureJob job = picture("out/a");
  job.landed = [receipt = std::move(receipt)] {};
  writer.post(std::move(job));
  EXPECT_TRUE(released.get_future().get());
}

TEST(PictureWriter, DoesWithoutAFileWhatHasNone) {
  FakeDisk disk;
  PictureWriter writer({}, disk);
  bool is_published = false;
  PictureJob job;
  job.publish = [&](Disk::File* file) { is_published = file == nullptr; };
  writer.post(std::move(job));
  writer.flush();
  EXPECT_TRUE(is_published);
  EXPECT_EQ(disk.state.folder_syncs, 0);
}

}  // namespace
}  // namespace troupe::actors
