#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <ostream>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/core/error.h"
#include "net/communicator.h"
#include "net/inproc_communicator.h"

// What the conformance suite (communicator_cases.cpp) asks of a kind of
// communicator. A program links the suite and defines `communicator_kinds`.

namespace troupe::net {

/// Bytes in the memory of a kind.
class CommunicatorMemory {
 public:
  virtual ~CommunicatorMemory() = default;
  [[nodiscard]] virtual std::span<std::byte> span() = 0;
  virtual void write(std::span<const std::byte> bytes) = 0;
  [[nodiscard]] virtual std::vector<std::byte> read() = 0;
};

class HostMemory final : public CommunicatorMemory {
 public:
  /// Floats: for their alignment.
  explicit HostMemory(std::size_t bytes)
      : floats_((bytes + sizeof(float) - 1) / sizeof(float)), bytes_(bytes) {}

  std::span<std::byte> span() override {
    return std::as_writable_bytes(std::span(floats_)).first(bytes_);
  }
  void write(std::span<const std::byte> bytes) override {
    if (!bytes.empty()) {
      std::memcpy(span().data(), bytes.data(), bytes.size());
    }
  }
  std::vector<std::byte> read() override {
    return {span().begin(), span().end()};
  }

 private:
  std::vector<float> floats_;
  std::size_t bytes_;
};

/// The ranks of one test. Thread: `make` and `memory` any, at once.
class CommunicatorWorld {
 public:
  virtual ~CommunicatorWorld() = default;
  /// Called once for each rank, on the rank's thread.
  [[nodiscard]] virtual std::unique_ptr<Communicator> make(int rank) = 0;
  [[nodiscard]] virtual std::unique_ptr<CommunicatorMemory> memory(
      int /*rank*/, std::size_t bytes) {
    return std::make_unique<HostMemory>(bytes);
  }
};

struct CommunicatorKind {
  std::string name;
  std::function<std::unique_ptr<CommunicatorWorld>(int ranks)> make_world;
};

/// The reference.
class InprocRanks final : public CommunicatorWorld {
 public:
  explicit InprocRanks(int ranks)
      : communicators_(make_inproc_communicators(ranks)) {}

  std::unique_ptr<Communicator> make(int rank) override {
    return std::move(communicators_[static_cast<std::size_t>(rank)]);
  }

 private:
  std::vector<std::unique_ptr<Communicator>> communicators_;
};

[[nodiscard]] inline CommunicatorKind inproc_kind() {
  return {"inproc",
          [](int ranks) { return std::make_unique<InprocRanks>(ranks); }};
}

/// What failures show.
inline void PrintTo(const CommunicatorKind& kind, std::ostream* out) {
  *out << kind.name;
}

/// Of this program.
[[nodiscard]] std::vector<CommunicatorKind> communicator_kinds();

/// What a rank of a test has.
class TestRank {
 public:
  TestRank(CommunicatorWorld& world, int rank)
      : world_(world), communicator(world.make(rank)), rank_(rank) {}

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] std::unique_ptr<CommunicatorMemory> memory(
      std::size_t bytes) const {
    return world_.memory(rank_, bytes);
  }
  [[nodiscard]] std::unique_ptr<CommunicatorMemory> memory(
      std::span<const std::byte> bytes) const {
    auto memory = world_.memory(rank_, bytes.size());
    memory->write(bytes);
    return memory;
  }

 private:
  CommunicatorWorld& world_;

 public:
  std::unique_ptr<Communicator> communicator;

 private:
  int rank_;
};

/// Long enough for a machine that stands still for minutes.
inline TimePoint patience() {
  return std::chrono::steady_clock::now() + std::chrono::minutes(10);
}

/// Runs `body` for each rank, each on a thread. Element r is the error that
/// rank r ended with.
[[nodiscard]] inline std::vector<std::optional<Error>> run_ranks(
    CommunicatorWorld& world, int ranks,
    const std::function<void(TestRank&)>& body) {
  std::vector<std::optional<Error>> errors(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        TestRank test_rank(world, rank);
        body(test_rank);
      } catch (const Error& error) {
        errors[static_cast<std::size_t>(rank)] = error;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  return errors;
}
[[nodiscard]] inline std::vector<std::optional<Error>> run_ranks(
    const CommunicatorKind& kind, int ranks,
    const std::function<void(TestRank&)>& body) {
  return run_ranks(*kind.make_world(ranks), ranks, body);
}

inline void expect_no_errors(const std::vector<std::optional<Error>>& errors) {
  for (std::size_t rank = 0; rank < errors.size(); ++rank) {
    EXPECT_FALSE(errors[rank])
        << "rank " << rank << ": " << errors[rank]->what();
  }
}

}  // namespace troupe::net
