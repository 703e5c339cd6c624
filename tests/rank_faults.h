#pragma once

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

// What befalls ranks in trials, and how long it took.

namespace troupe {

enum class RankFault { dies, hangs, is_slow };

inline const char* name_of(RankFault fault) {
  switch (fault) {
    case RankFault::dies:
      return "dies";
    case RankFault::hangs:
      return "hangs";
    case RankFault::is_slow:
      return "is slow";
  }
  return "";
}

class TrialTimes {
 public:
  void add(std::chrono::duration<double, std::milli> took) {
    ms_.push_back(took.count());
  }
  void print(const std::string& what) {
    if (!ms_.empty()) {
      std::ranges::sort(ms_);
      std::printf("%s: %zu trials, median %.1f ms, worst %.1f ms\n",
                  what.c_str(), ms_.size(), ms_[ms_.size() / 2], ms_.back());
    }
  }

 private:
  std::vector<double> ms_;
};

}  // namespace troupe
