#include "actors/remote/chunk_plan.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <random>
#include <span>
#include <utility>

#include "actors/session.h"
#include "kernels/core/hash.h"

namespace troupe::actors {
namespace {

/// Chunks that one process is asked for at a time: enough for 1 Gbit/s at
/// 20 ms.
constexpr std::size_t kChunksAhead = 4;
/// Givers that are asked at a time. Every giver costs a link, and memory for
/// the chunks on their way.
constexpr std::size_t kMostGivers = 8;
/// From a giver's list of its chunks to the next question for the list.
constexpr auto kLook = std::chrono::seconds(1);
/// From a question to a giver until the first process is asked as well.
constexpr auto kSlow = std::chrono::seconds(2);
/// For givers to be linked to (PeerSpec::deadline) and to say what they have.
constexpr auto kHeadStart = std::chrono::seconds(2);
/// For a giver that did not answer.
constexpr auto kGiverRest = std::chrono::seconds(10);

}  // namespace

ChunkPlan::ChunkPlan(std::vector<bool> there, int own_process)
    : own_process_(own_process), there_(std::move(there)) {
  for (std::size_t i = 0; i < there_.size(); ++i) {
    if (!there_[i]) {
      missing_.push_back(i);
    }
  }
  std::mt19937 random(static_cast<unsigned>(own_process));
  std::ranges::shuffle(missing_, random);
  num_left_ = missing_.size();
}

void ChunkPlan::set_givers(const std::vector<int>& processes, TimePoint now) {
  std::erase_if(givers_, [&](const auto& one) {
    return std::ranges::find(processes, one.first) == processes.end();
  });
  // Others have another order: nobody is asked by all.
  std::vector<int> in_order = processes;
  std::ranges::sort(in_order, {}, [this](int process) {
    const std::array<int, 2> both = {own_process_, process};
    return xxh3_64(std::as_bytes(std::span(both)));
  });
  auto at_work = static_cast<std::size_t>(std::ranges::count_if(
      givers_, [&](const auto& one) { return now >= one.second.rests_until; }));
  for (const int process : in_order) {
    if (at_work < kMostGivers && !distrusted_.contains(process) &&
        givers_.try_emplace(process).second) {
      ++at_work;
    }
  }
}

std::vector<ChunkPlan::Question> ChunkPlan::next(TimePoint now) {
  std::vector<Question> questions;
  for (auto& [process, giver] : givers_) {
    if (now >= giver.rests_until) {
      ask_giver(process, giver, now, questions);
    }
  }
  ask_first_process(now, questions);
  return questions;
}

void ChunkPlan::ask_giver(int process, Giver& giver, TimePoint now,
                          std::vector<Question>& questions) {
  if (!giver.is_asked_what && !giver.has_all && now >= giver.look_at) {
    giver.is_asked_what = true;
    questions.push_back({process, std::nullopt});
  }
  for (std::size_t i = 0;
       i < missing_.size() && giver.open.size() < kChunksAhead;) {
    if (giver.holds(missing_[i])) {
      questions.push_back({process, missing_[i]});
      giver.open.emplace(missing_[i], now);
      missing_.erase(missing_.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      ++i;
    }
  }
}

void ChunkPlan::ask_first_process(TimePoint now,
                                  std::vector<Question>& questions) {
  waits_until_ = waits_until_.value_or(now + kHeadStart);
  if (now < *waits_until_ && std::ranges::any_of(givers_, [](const auto& one) {
        return !one.second.has_answered;
      })) {
    return;
  }
  const auto ask = [&](std::size_t i) {
    questions.push_back({kHomeProcess, missing_[i]});
    open_first_.insert(missing_[i]);
    missing_.erase(missing_.begin() + static_cast<std::ptrdiff_t>(i));
  };
  for (std::size_t i = 0;
       i < missing_.size() && open_first_.size() < kChunksAhead;) {
    if (is_held(missing_[i])) {
      ++i;
    } else {
      ask(i);
    }
  }
  if (!open_first_.empty()) {
    return;
  }
  if (!missing_.empty()) {
    ask(0);
  } else if (const auto chunk = slowest(now)) {
    questions.push_back({kHomeProcess, *chunk});
    open_first_.insert(*chunk);
  }
}

/// What a giver is asked for and has not given for a while.
std::optional<std::size_t> ChunkPlan::slowest(TimePoint now) const {
  for (const auto& [process, giver] : givers_) {
    for (const auto& [chunk, since] : giver.open) {
      if (!there_[chunk] && now - since >= kSlow) {
        return chunk;
      }
    }
  }
  return std::nullopt;
}

bool ChunkPlan::is_held(std::size_t chunk) const {
  return std::ranges::any_of(
      givers_, [chunk](const auto& one) { return one.second.holds(chunk); });
}

void ChunkPlan::holds(int process, std::vector<bool> which, TimePoint now) {
  const auto found = givers_.find(process);
  if (found == givers_.end()) {
    return;
  }
  if (which.size() != there_.size()) {
    (void)came_wrong({process, std::nullopt});
    return;
  }
  Giver& giver = found->second;
  giver.is_asked_what = false;
  giver.has_answered = true;
  giver.look_at = now + kLook;
  giver.has_all = std::ranges::find(which, false) == which.end();
  giver.has = std::move(which);
}

void ChunkPlan::came(const Question& question) {
  close(question);
  if (!there_[*question.chunk]) {
    there_[*question.chunk] = true;
    --num_left_;
  }
}

void ChunkPlan::came_not(const Question& question, TimePoint now) {
  close(question);
  const auto found = givers_.find(question.process);
  if (question.chunk && !there_[*question.chunk] &&
      !open_first_.contains(*question.chunk)) {
    // Now: it has waited longest.
    missing_.insert(missing_.begin(), *question.chunk);
  }
  if (found != givers_.end()) {
    Giver& giver = found->second;
    giver.has_answered = true;
    giver.has.clear();  // it may have begun anew
    giver.has_all = false;
    giver.is_asked_what = giver.is_asked_what && question.chunk;
    giver.rests_until = now + kGiverRest;
    giver.look_at = giver.rests_until;
  }
}

bool ChunkPlan::came_wrong(const Question& question) {
  came_not(question, {});
  givers_.erase(question.process);
  return distrusted_.insert(question.process).second;
}

void ChunkPlan::close(const Question& question) {
  if (!question.chunk) {
    return;
  }
  if (question.process == kHomeProcess) {
    open_first_.erase(*question.chunk);
    return;
  }
  const auto found = givers_.find(question.process);
  if (found != givers_.end()) {
    found->second.open.erase(*question.chunk);
  }
}

}  // namespace troupe::actors
