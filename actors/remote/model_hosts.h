#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <vector>

#include "actors/remote/model_files.h"
#include "net/link.h"

namespace troupe::actors {

/// Size limit and timeouts of a question to the first process. The timeouts are
/// long: many processes may ask at once, and without an answer there is no job.
[[nodiscard]] inline net::FetchOptions patient_fetch(std::size_t most_bytes) {
  return {most_bytes, std::chrono::minutes(10), std::chrono::minutes(1)};
}

/// The processes that a process can get the files of its job's model from.
class ModelHosts {
 public:
  virtual ~ModelHosts() = default;

  /// The number of this process.
  [[nodiscard]] virtual int process() const = 0;
  /// Other workers' processes that give what they have, as far as is known
  /// now. They have the files of the first process, or some of them.
  [[nodiscard]] virtual std::vector<int> model_givers() const = 0;
  /// Asks the first process, or a giver, for the model. `taker` is called once,
  /// on any thread: at the latest at the deadline, or when the link is lost.
  virtual void ask(int process, const ValueKey& key,
                   const net::FetchOptions& options,
                   const net::FetchTaker& taker) = 0;
  /// From now on this process gives, too. Null: no more.
  virtual void give_model(std::shared_ptr<ModelGiver> giver) = 0;
};

}  // namespace troupe::actors
