#include "actors/picture_writer.h"

#include <algorithm>
#include <set>
#include <system_error>
#include <utility>

#include "kernels/core/pool.h"
#include "kernels/core/system.h"

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
  changed_.notify_all();
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
  call_for_help();
  changed_.notify_all();
}

/// One more thread, if all have something to do.
void PictureWriter::call_for_help() {
  if (idle_ > 0 || stop_ || threads_.size() >= options_.threads) {
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

/// The next in line, if it may begin now.
std::shared_ptr<PictureWriter::Entry> PictureWriter::next_to_encode() {
  if (encoding_ >= options_.encoders) {
    return nullptr;
  }
  const auto end = entries_.begin() + static_cast<std::ptrdiff_t>(
                                          std::min(entries_.size(), kMostOpen));
  const auto next = std::find_if(entries_.begin(), end, [](const auto& entry) {
    return !entry->is_begun;
  });
  return next == end ? nullptr : *next;
}

bool PictureWriter::can_commit() const {
  return !is_committing_ && !entries_.empty() && entries_.front()->is_ready;
}

void PictureWriter::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (can_commit()) {
      commit(lock);
    } else if (const auto entry = next_to_encode()) {
      prepare(*entry, lock);
    } else if (stop_ && entries_.empty()) {
      return;
    } else {
      ++idle_;
      changed_.wait(lock);
      --idle_;
    }
  }
}

void PictureWriter::prepare(Entry& entry, std::unique_lock<std::mutex>& lock) {
  entry.is_begun = true;
  ++preparing_;
  ++encoding_;
  if (!entries_.back()->is_begun) {
    call_for_help();
  }
  bool is_encoding = true;
  const auto stop_encoding = [&] {
    if (std::exchange(is_encoding, false)) {
      --encoding_;
      changed_.notify_all();
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
  lock.unlock();
  publish(group);
  const auto failed = std::ranges::find_if(
      group, [](const auto& entry) { return entry->failure.has_value(); });
  const std::optional<Failure> failure =
      failed == group.end() ? std::nullopt : (*failed)->failure;
  lock.lock();
  entries_.erase(entries_.begin(),
                 entries_.begin() + static_cast<std::ptrdiff_t>(group.size()));
  std::deque<std::shared_ptr<Entry>> dropped;
  if (failure) {
    failure_ = failure;
    dropped = std::exchange(entries_, {});
  }
  lock.unlock();
  // What jobs hold may take time to let go of.
  group.clear();
  dropped.clear();
  lock.lock();
  is_committing_ = false;
  changed_.notify_all();
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
