#pragma once

#include <cublasLt.h>

#include <cstdint>
#include <vector>

// What a test may set and ask of the emulated cuBLASLt.

namespace troupe::emulator {

/// The emulated library's algorithms. Algorithms differ in the order of
/// additions: within blocks of k, then block by block.
enum class BlasAlgorithm : std::uint8_t {
  /// Blocks of 64, whatever the size.
  steady,
  /// Two halves of k, added in f32 from the workspace.
  split_k,
  /// Two halves of k, added in the output's type.
  split_k_in_place,
  /// Blocks that depend on the number of columns: a merged product has other
  /// bits than its items, a strided batch has the same.
  by_columns,
  /// Blocks that depend on the batch too: only one call per item has the bits
  /// of the item.
  by_batch,
  /// A matrix by one vector; refuses everything else.
  vector,
};

/// How the emulated library chooses.
struct BlasBehaviour {
  /// The order of the heuristic; what the problem or the preference rules out
  /// is left out. Empty: an order that depends on the problem, so that tests
  /// meet every algorithm.
  std::vector<BlasAlgorithm> order;
  /// The same for products whose description names no epilogue: those of
  /// attention. Empty: `order`.
  std::vector<BlasAlgorithm> order_without_epilogue = {};
  /// The heuristic offers schemes of reduction that nobody allowed.
  bool ignores_schemes = false;
  /// Epilogues (bits of cublasLtEpilogue_t) that it does not support.
  std::uint32_t refused_epilogues = 0;
};
/// Applies to calls from now on. Thread: none may be using the library.
void set_blas_behaviour(const BlasBehaviour& behaviour);

/// Counts of the calls to the library in this program so far.
struct BlasCounters {
  std::uint64_t heuristics = 0;
  std::uint64_t checks = 0;
  std::uint64_t products = 0;
  /// Of `products`, those over more than one matrix.
  std::uint64_t strided_products = 0;
  /// Of `products`, those whose epilogue does more than store.
  std::uint64_t fused_products = 0;
  /// Columns of the last product's D, its batch, its algorithm.
  std::uint64_t last_columns = 0;
  std::uint64_t last_batch = 0;
  BlasAlgorithm last_algorithm = BlasAlgorithm::steady;
  /// Handles and descriptors that are not destroyed.
  std::int64_t live_objects = 0;
};
/// Thread: none may be using the library.
[[nodiscard]] BlasCounters blas_counters();

}  // namespace troupe::emulator
