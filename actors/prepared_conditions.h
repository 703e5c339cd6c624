#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <span>

#include "actors/condition_store.h"
#include "models/network/denoiser.h"

namespace troupe::actors {

/// Conditions made ready for one network on one device, by content, each once.
/// A worker waits for another's preparation only if both want the same one.
/// When all together take more than `most_bytes`, the least recently used are
/// let go. A pass keeps the conditions alive that it uses. Thread: any.
class PreparedConditions {
 public:
  /// Keeps a reference.
  PreparedConditions(const models::Denoiser& denoiser, std::size_t most_bytes)
      : denoiser_(denoiser), most_bytes_(most_bytes) {}

  /// timesteps: see Denoiser::prepare. Errors: those of Denoiser::prepare and
  /// of StoredCondition::get; the next call tries again.
  [[nodiscard]] models::PreparedPtr get(ExecContext& ctx,
                                        const StoredCondition& condition,
                                        std::span<const double> timesteps);

 private:
  struct Entry {
    std::mutex preparing;
    models::PreparedPtr prepared;
    std::size_t bytes = 0;                    ///< 0: not prepared
    std::list<std::uint64_t>::iterator rank;  ///< in order_
  };
  void count(Entry& entry);

  const models::Denoiser& denoiser_;
  std::size_t most_bytes_;
  std::mutex mutex_;
  std::map<std::uint64_t, std::shared_ptr<Entry>> entries_;
  std::list<std::uint64_t> order_;  ///< hashes; the last was used last
  std::size_t held_bytes_ = 0;
};

}  // namespace troupe::actors
