#include "actors/condition_store.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <span>
#include <system_error>

#include "kernels/core/error.h"
#include "kernels/core/hash.h"
#include "kernels/core/system/exit_codes.h"
#include "kernels/core/system/machine.h"

namespace troupe::actors {
namespace {

namespace fs = std::filesystem;

constexpr const char* kOtherFolder = "set TMPDIR to a folder on another disk";

[[noreturn]] void fail(const char* what, int reason) {
  throw Error(file_error(reason), TensorStore::folder().string(),
              std::string("encoded prompts cannot be ") + what + ": " +
                  std::generic_category().message(reason),
              kOtherFolder);
}

/// A file that has no name any more.
int open_unnamed() {
  std::string name = (TensorStore::folder() / "troupe-XXXXXX").string();
  const int file = ::mkostemp(name.data(), O_CLOEXEC);
  if (file < 0) {
    fail("written", errno);
  }
  ::unlink(name.c_str());
  return file;
}

/// `step(bytes, offset)`, a call of the system that takes some of them, until
/// none is left.
template <typename Byte, typename Step>
void each(std::span<Byte> bytes, std::uint64_t offset, const char* what,
          const Step& step) {
  while (!bytes.empty()) {
    const ::ssize_t count = step(bytes, static_cast<::off_t>(offset));
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count <= 0) {
      fail(what, count == 0 ? EIO : errno);
    }
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    offset += static_cast<std::uint64_t>(count);
  }
}

std::uint64_t bytes_of(const std::vector<Tensor>& tensors) {
  std::uint64_t bytes = 0;
  for (const Tensor& tensor : tensors) {
    bytes += tensor.num_bytes();
  }
  return bytes;
}

std::uint64_t hash_of(const std::vector<Tensor>& tensors) {
  Xxh3Stream hash;
  for (const Tensor& tensor : tensors) {
    hash.update(tensor.bytes());
  }
  return hash.digest();
}

}  // namespace

TensorStore::~TensorStore() {
  if (file_ >= 0) {
    ::close(file_);
  }
}

fs::path TensorStore::folder() {
  const char* const said = std::getenv("TMPDIR");
  if (said != nullptr && *said != '\0') {
    return said;
  }
  return ::access("/var/tmp", W_OK | X_OK) == 0 ? "/var/tmp" : "/tmp";
}

std::uint64_t TensorStore::bytes_in_memory(std::uint64_t bytes) {
  struct statfs status {};
  const bool is_memory =
      ::statfs(folder().c_str(), &status) == 0 &&
      (status.f_type == TMPFS_MAGIC || status.f_type == RAMFS_MAGIC);
  return is_memory ? bytes : kept_in_memory(bytes);
}

void TensorStore::check_room(std::uint64_t bytes, const std::string& hint) {
  const std::uint64_t needed = bytes - kept_in_memory(bytes);
  if (needed == 0) {
    return;
  }
  ::close(open_unnamed());
  const std::uint64_t room = fs::space(folder()).available;
  require(needed <= room, Errc::no_space, folder().string(),
          "no room for the encoded prompts: got " + human_bytes(room) +
              " free, expected " + human_bytes(needed),
          std::string(kOtherFolder) + ", or " + hint);
}

std::size_t TensorStore::keep(std::vector<Tensor> tensors) {
  const std::uint64_t bytes = bytes_of(tensors);
  const std::lock_guard lock(mutex_);
  Entry entry{.tensors = std::move(tensors)};
  if (in_memory_ + bytes <= most_in_memory_) {
    in_memory_ += bytes;
  } else {
    write(entry);
  }
  entries_.push_back(std::move(entry));
  return entries_.size() - 1;
}

void TensorStore::write(Entry& entry) {
  if (file_ < 0) {
    file_ = open_unnamed();
  }
  entry.offset = in_file_;
  entry.hash = hash_of(entry.tensors);
  for (const Tensor& tensor : entry.tensors) {
    each(tensor.bytes(), in_file_, "written", [&](auto left, ::off_t at) {
      return ::pwrite(file_, left.data(), left.size(), at);
    });
    in_file_ += tensor.num_bytes();
    entry.shapes.push_back(tensor.shape());
    entry.dtypes.push_back(tensor.dtype());
  }
  entry.tensors.clear();
}

std::vector<Tensor> TensorStore::get(std::size_t number) const {
  std::unique_lock lock(mutex_);
  const Entry entry = entries_.at(number);
  const int file = file_;
  lock.unlock();
  std::vector<Tensor> tensors = entry.tensors;
  if (entry.shapes.empty()) {
    return tensors;
  }
  std::uint64_t offset = entry.offset;
  for (std::size_t i = 0; i < entry.shapes.size(); ++i) {
    Tensor& tensor = tensors.emplace_back();
    if (entry.shapes[i].num_elements() > 0) {
      tensor = Tensor(entry.shapes[i], entry.dtypes[i]);
    }
    each(tensor.bytes(), offset, "read", [&](auto left, ::off_t at) {
      return ::pread(file, left.data(), left.size(), at);
    });
    offset += tensor.num_bytes();
  }
  require(hash_of(tensors) == entry.hash, Errc::corrupt_file, folder().string(),
          "an encoded prompt has other bytes than were written", kOtherFolder);
  return tensors;
}

StoredCondition::StoredCondition(models::Condition condition)
    : hash_(condition.hash()), condition_(std::move(condition)) {}

StoredCondition::StoredCondition(const models::Condition& condition,
                                 std::shared_ptr<TensorStore> store)
    : hash_(condition.hash()) {
  std::vector<Tensor> tensors;
  std::vector<std::pair<std::string, std::int64_t>> names;
  for (const models::ConditionTensor& item : condition.tensors()) {
    tensors.push_back(item.tensor);
    names.emplace_back(item.name, item.length);
  }
  const std::size_t number = store->keep(std::move(tensors));
  read_ = [store = std::move(store), names = std::move(names), number] {
    std::vector<Tensor> kept = store->get(number);
    models::Condition made;
    for (std::size_t i = 0; i < names.size(); ++i) {
      made.add(names[i].first, std::move(kept[i]), names[i].second);
    }
    return made;
  };
}

models::Condition StoredCondition::get() const {
  require(hash_ != 0, Errc::internal, "condition",
          "an image is drawn whose prompt was not encoded");
  models::Condition condition = read_ ? read_() : condition_;
  require(condition.hash() == hash_, Errc::corrupt_file, "condition",
          "it has other bytes than the job's: got " + to_hex(condition.hash()) +
              ", expected " + to_hex(hash_));
  return condition;
}

}  // namespace troupe::actors
