#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "actors/first_least.h"

namespace troupe::actors {

/// The workers of each execution class that are alive, and which of them would
/// be done first with one more row. Of workers that are alike the first.
/// Cost: at most logarithmic in workers, `add` on average. Thread: one.
class LiveWorkers {
 public:
  /// The measured speed of a worker, and its open tasks.
  struct Load {
    /// What a row and its result take between the worker's process and the
    /// middle of all.
    double link_seconds = 0;
    bool is_left_out = false;  ///< for its link: gets no rows
    /// Counts as so many rows more: of workers that would be done at about the
    /// same time, one without a reserve gets the row.
    double reserve = 0;
    double row_seconds = 0;  ///< of num_rows rows; 0: nothing is known
    double num_rows = 0;
    int tasks = 0;     ///< that it has, of those that go through the network
    int at_once = 0;   ///< as many of them are in its pass
    double since = 0;  ///< when that pass began at the earliest, in seconds
  };

  /// One more worker, with the next number. It is not alive yet. Classes are
  /// numbered from 0 on.
  void add(int execution_class, int process = 0);

  void set_alive(int worker, bool is_alive);
  void set_load(int worker, const Load& load);

  /// The first of the class from `worker` on, and around; −1: nobody is alive.
  [[nodiscard]] int next(int execution_class, int worker) const;
  /// The worker whose result of one more row would come first to `process`, by
  /// the mean row time of each worker, the age of its running pass, its link
  /// and its reserve. A pass that is older than its rows took on average is
  /// taken to end now. Of workers without a measured row, the one with the
  /// fewest tasks, and of these the one with the best link, counts with the
  /// mean of its class, ended workers included. −1: no worker of the class is
  /// alive, or all are left out. Linear in the workers of `process` if that has
  /// a link.
  [[nodiscard]] int least_loaded(int execution_class, double now,
                                 int process = 0);

 private:
  struct Worker {
    int execution_class = 0;
    int process = 0;
    std::size_t place = 0;  ///< among the workers of its class
    bool is_alive = false;
    Load load;
  };
  struct Class {
    std::vector<int> workers;  ///< by place
    std::set<int> alive;
    double row_seconds = 0;  ///< of all workers
    double num_rows = 0;
    // Of known speed:
    FirstLeast<double> idle;  ///< what a row takes, with the link
    FirstLeast<double> busy;  ///< when one more row would come, or before
    /// Of unknown speed: tasks with the reserve, and what the link takes.
    FirstLeast<std::pair<double, double>> unproven;
  };

  void note(const Worker& worker);
  [[nodiscard]] std::optional<std::size_t> first_busy(Class& of, double now);
  [[nodiscard]] static double usual_row(const Class& of);
  [[nodiscard]] const Class& at(int execution_class) const {
    return classes_[static_cast<std::size_t>(execution_class)];
  }

  std::vector<Worker> workers_;
  std::map<int, std::vector<int>> of_process_;
  std::vector<Class> classes_;
};

}  // namespace troupe::actors
