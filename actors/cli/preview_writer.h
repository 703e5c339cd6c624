#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "actors/cli/run_outputs.h"
#include "actors/observer.h"
#include "actors/serial_runner.h"

namespace troupe::actors {

/// Writes the pictures of --preview on a thread of its own. Who shows one never
/// waits: of what waits to be made, a newer preview of a sample takes the place
/// of the older, and beyond `kMostWaiting` samples the oldest is left out and
/// counted. What a finished sample looks like is never left out.
/// A failure ends the previews, never the job.
/// Thread: one; decoding happens on the writer's.
class PreviewWriter {
 public:
  static constexpr std::size_t kMostWaiting = 64;

  /// Latents [C, …] to pixels on the host. May throw.
  using Decode = std::function<Tensor(const Tensor& latents)>;
  /// Keeps a reference.
  PreviewWriter(const RunOutputs& outputs, Decode decode);

  void show(const Preview& preview);
  /// A finished sample's picture takes the place of its previews.
  void end(const SampleOutcome& outcome);
  /// Waits for what is under way.
  void flush();
  /// Why there are no more previews, or not all; empty: nothing went wrong.
  /// Once flushed.
  [[nodiscard]] const std::string& note() const noexcept { return note_; }

 private:
  [[nodiscard]] bool shows(std::uint64_t index) const;
  void follow_the_next();
  void forget(std::uint64_t index);
  void make_next();
  void write(std::uint64_t index, const std::function<Tensor()>& make_pixels);
  [[nodiscard]] FileRule rule_for(const std::string& path) const;

  const RunOutputs& outputs_;
  Decode decode_;
  std::uint64_t followed_ = 0;     ///< that a preview in one file shows
  std::set<std::uint64_t> ended_;  ///< before their turn to be followed
  std::mutex mutex_;
  std::map<std::uint64_t, Tensor> waiting_;  ///< to be made
  std::deque<std::uint64_t> order_;          ///< of them
  std::uint64_t num_left_out_ = 0;
  /// Previews of this run; the writer's thread.
  std::map<std::string, std::optional<FileStamp>> last_;
  std::atomic<bool> is_off_{false};
  std::string note_;     ///< the writer's thread
  SerialRunner thread_;  // last: it uses what stands above
};

}  // namespace troupe::actors
