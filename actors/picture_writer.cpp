#include "actors/picture_writer.h"

#include <algorithm>
#include <set>
#include <system_error>
#include <utility>

#include "kernels/core/pool.h"
#include "kernels/core/system/machine.h"

namespace troupe::actors {
namespace {

// Pictures begun and not yet landed: each has a file open.
constexpr std::size_t kMostOpen = 64;
constexpr int kMostEncoders = 4;

}  // namespace

PictureWriter::PictureWriter(Options options, Disk& disk)
    : disk_(disk), options_(options) {
  if (options_.encoders == 0) {
    options_.encoders = std::min(kMostEncoders, num_usable_cores());
  }
  try {
    start_thread();
  } catch (const std::system_error& error) {
    throw thread_refusal(0, 1, error);
  }
}

PictureWriter::~PictureWriter() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  work_.notify_all();
  for (std::thread& thread : threads_) {
    thread.join();
  }
}

void PictureWriter::start_thread() {
  threads_.emplace_back([this] { run(); });
}

void PictureWriter::post(PictureJob job) {
  std::unique_lock lock(mutex_);
  changed_.wait(
      lock, [this] { return failure_ || entries_.size() < options_.capacity; });
  throw_if_failed();
  auto entry = std::make_shared<Entry>();
  entry->job = std::move(job);
  entries_.push_back(std::move(entry));
  wake_one();
}

/// Wakes one thread for the next step of a picture. The thread that takes the
/// step wakes another thread for the step after: if all woke at once, they
/// would slow each other and the workers.
void PictureWriter::wake_one() {
  if (!can_commit() && !can_begin()) {
    return;
  }
  if (idle_ > 0) {
    work_.notify_one();
  } else {
    call_for_help();
  }
}

/// Starts one more thread, because all are at work.
void PictureWriter::call_for_help() {
  if (stop_ || threads_.size() >= options_.threads) {
    return;
  }
  try {
    start_thread();
  } catch (const std::system_error&) {
    options_.threads = threads_.size();  // those that run do it all
  }
}

void PictureWriter::flush() {
  std::unique_lock lock(mutex_);
  // After a failure nothing is left half written by those still at work.
  changed_.wait(lock, [this] {
    return entries_.empty() && preparing_ == 0 && !is_committing_;
  });
  throw_if_failed();
}

/// Whether the next in line may.
bool PictureWriter::can_begin() const {
  return encoding_ < options_.encoders &&
         num_begun_ < std::min(entries_.size(), kMostOpen);
}

bool PictureWriter::can_commit() const {
  return !is_committing_ && !entries_.empty() && entries_.front()->is_ready;
}

void PictureWriter::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (can_commit()) {
      commit(lock);
    } else if (can_begin()) {
      const std::shared_ptr<Entry> entry = entries_[num_begun_];
      prepare(*entry, lock);
    } else if (stop_ && entries_.empty()) {
      return;
    } else {
      ++idle_;
      work_.wait(lock);
      --idle_;
    }
  }
}

void PictureWriter::prepare(Entry& entry, std::unique_lock<std::mutex>& lock) {
  ++num_begun_;
  ++preparing_;
  ++encoding_;
  wake_one();
  bool is_encoding = true;
  const auto stop_encoding = [&] {
    if (std::exchange(is_encoding, false)) {
      --encoding_;
      wake_one();
    }
  };
  lock.unlock();
  try {
    if (entry.job.encode) {
      const std::vector<std::byte> bytes = entry.job.encode();
      lock.lock();
      stop_encoding();
      lock.unlock();
      entry.file = entry.job.put(disk_, bytes);
      entry.file->sync();
    }
  } catch (...) {
    entry.failure = current_failure();
  }
  lock.lock();
  stop_encoding();
  if (failure_) {
    entry.file.reset();
  }
  --preparing_;
  entry.is_ready = true;
  changed_.notify_all();
  wake_one();
}

void PictureWriter::commit(std::unique_lock<std::mutex>& lock) {
  Group group;
  for (const auto& entry : entries_) {
    if (!entry->is_ready) {
      break;
    }
    group.push_back(entry);
    if (entry->failure) {
      break;
    }
  }
  is_committing_ = true;
  wake_one();
  lock.unlock();
  publish(group);
  const auto failed = std::ranges::find_if(
      group, [](const auto& entry) { return entry->failure.has_value(); });
  const std::optional<Failure> failure =
      failed == group.end() ? std::nullopt : (*failed)->failure;
  lock.lock();
  entries_.erase(entries_.begin(),
                 entries_.begin() + static_cast<std::ptrdiff_t>(group.size()));
  num_begun_ -= group.size();
  std::deque<std::shared_ptr<Entry>> dropped;
  if (failure) {
    failure_ = failure;
    dropped = std::exchange(entries_, {});
    num_begun_ = 0;
  }
  lock.unlock();
  // What jobs hold may take time to let go of.
  group.clear();
  dropped.clear();
  lock.lock();
  is_committing_ = false;
  changed_.notify_all();
  wake_one();
  if (stop_) {
    work_.notify_all();
  }
}

/// Leaves the first failure in the entry that it belongs to; what comes after
/// that one is not published.
void PictureWriter::publish(const Group& group) {
  std::set<std::filesystem::path> folders;
  std::size_t count = 0;
  for (; count < group.size() && !group[count]->failure; ++count) {
    Entry& entry = *group[count];
    try {
      if (entry.file) {
        folders.insert(entry.file->folder());
      }
      entry.job.publish(entry.file.get());
    } catch (...) {
      entry.failure = current_failure();
      break;
    }
    entry.file.reset();
  }
  for (const std::filesystem::path& folder : folders) {
    disk_.sync_folder(folder);
  }
  for (std::size_t i = 0; i < count; ++i) {
    try {
      if (group[i]->job.landed) {
        group[i]->job.landed();
      }
    } catch (...) {
      group[i]->failure = current_failure();
      return;
    }
  }
}

void PictureWriter::throw_if_failed() const {
  if (failure_) {
    throw to_error(*failure_);
  }
}

}  // namespace troupe::actors
