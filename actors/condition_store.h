#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "kernels/core/tensor.h"
#include "models/condition.h"

// Conditions of prompts take megabytes each, and a job may have 30,000 of them,
// of which the samples in flight use a few.

namespace troupe::actors {

/// Tensors of which the first are in memory, and the others in a file without a
/// name: it goes with the process. Thread: any.
class TensorStore {
 public:
  /// The most bytes in memory.
  static constexpr std::uint64_t kMostInMemory = std::uint64_t{256} << 20U;

  explicit TensorStore(std::uint64_t most_in_memory = kMostInMemory)
      : most_in_memory_(most_in_memory) {}
  ~TensorStore();
  TensorStore(const TensorStore&) = delete;
  TensorStore& operator=(const TensorStore&) = delete;

  /// Keeps tensors of the host under the next number, from 0. Errors:
  /// Errc::no_space; Errc::io with the folder.
  std::size_t keep(std::vector<Tensor> tensors);
  /// The same tensors. Errors: Errc::io; Errc::corrupt_file if the file has
  /// other bytes now.
  [[nodiscard]] std::vector<Tensor> get(std::size_t number) const;

  /// Where the file lies: in TMPDIR if that is set, else in /var/tmp, which is
  /// on a disk where /tmp often is in memory.
  [[nodiscard]] static std::filesystem::path folder();
  /// How many of `bytes` stay in memory; the file has the others.
  [[nodiscard]] static std::uint64_t kept_in_memory(std::uint64_t bytes) {
    return bytes < kMostInMemory ? bytes : kMostInMemory;
  }
  /// Those that take the machine's memory: all, where the folder is in memory
  /// as well.
  [[nodiscard]] static std::uint64_t bytes_in_memory(std::uint64_t bytes);
  /// Throws if so many bytes in a store do not fit on the folder's disk, or it
  /// takes no file. Errors: Errc::no_space with `hint`; those of `keep`.
  static void check_room(std::uint64_t bytes, const std::string& hint);

 private:
  struct Entry {
    std::vector<Tensor> tensors;  ///< in memory; else of the shapes, empty
    std::vector<Shape> shapes;    ///< of those in the file
    std::vector<DType> dtypes;
    std::uint64_t offset = 0;  ///< in the file
    std::uint64_t hash = 0;    ///< of their bytes
  };
  void write(Entry& entry);

  const std::uint64_t most_in_memory_;
  mutable std::mutex mutex_;
  std::vector<Entry> entries_;
  std::uint64_t in_memory_ = 0;
  std::uint64_t in_file_ = 0;
  int file_ = -1;
};

/// A condition in memory, or one that every use reads from a store.
class StoredCondition {
 public:
  /// None: of an image that is not drawn.
  StoredCondition() = default;
  StoredCondition(models::Condition condition);  // NOLINT: it is one
  /// `read` gives the condition with this hash, in any thread.
  StoredCondition(std::uint64_t hash, std::function<models::Condition()> read)
      : hash_(hash), read_(std::move(read)) {}

  /// As above, with its tensors in `store`.
  StoredCondition(const models::Condition& condition,
                  std::shared_ptr<TensorStore> store);

  /// models::Condition::hash; 0: none.
  [[nodiscard]] std::uint64_t hash() const noexcept { return hash_; }
  /// Errors: Errc::internal for none; Errc::corrupt_file for one with another
  /// hash; those of `read`.
  [[nodiscard]] models::Condition get() const;

 private:
  std::uint64_t hash_ = 0;
  models::Condition condition_;
  std::function<models::Condition()> read_;
};

}  // namespace troupe::actors
