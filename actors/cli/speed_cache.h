#pragma once

#include <filesystem>
#include <map>
#include <string>

namespace troupe::actors {

/// How long a row took in earlier jobs, in one small file of a folder:
///
///   DIR/speeds.json
///
/// It is read once, by the constructor. Several processes may use one folder:
/// the file is replaced as a whole, by one at a time. Thread: any.
class SpeedCache {
 public:
  /// Seconds of a row, by what they follow from.
  using Speeds = std::map<std::string, double>;
  /// The most that are kept; the oldest go first. Of longer names nothing is
  /// kept.
  static constexpr std::size_t kMostSpeeds = 1000;
  static constexpr std::size_t kLongestName = 400;

  /// An empty folder: nothing is known, nothing is kept. A file that is damaged
  /// or not ours is a line in the log, and as none.
  explicit SpeedCache(const std::filesystem::path& folder);

  /// 0: not known.
  [[nodiscard]] double find(const std::string& name) const;
  /// Adds them to what is in the file by now. A file that cannot be written is
  /// a line in the log: the next job does not need it.
  void keep(const Speeds& measured) const;
  [[nodiscard]] bool is_on() const noexcept { return !folder_.empty(); }
  [[nodiscard]] std::filesystem::path path() const;

 private:
  /// Errors: those of write_file.
  void add(const Speeds& measured) const;

  std::filesystem::path folder_;
  Speeds known_;
};

}  // namespace troupe::actors
