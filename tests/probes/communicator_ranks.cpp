// One rank of a group of processes, by TCP or by NCCL: runs random programs of
// operations, and compares what it gets with the communicator inside one
// process.
//   communicator_ranks nccl|ADDRESS RANK RANKS FOLDER PROGRAMS [DIES_AT]
// By TCP ADDRESS is this rank's, as 127.0.0.1.
// FOLDER is empty when the first rank starts, and the same for all ranks; there
// they find each other. With DIES_AT the process kills itself in that program;
// others end with exit code 3. With nccl all ranks use the first GPU:
// NCCL 2.30.3 and later allow that with NCCL_MULTI_RANK_GPU_ENABLE=1.

#include <signal.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "kernels/core/context.h"
#include "net/keys.h"
#include "net/nccl.h"
#include "net/socket_communicator.h"
#include "tests/net/communicator_program.h"
#include "tests/net/device_memory.h"

namespace troupe::net {

// Of the conformance suite, which is not linked.
std::vector<CommunicatorKind> communicator_kinds() { return {}; }

namespace {

namespace fs = std::filesystem;

TimePoint in_half_a_minute() {
  return std::chrono::steady_clock::now() + std::chrono::seconds(30);
}

/// A file that appears with its whole content.
void give(const fs::path& file, const std::string& content) {
  const fs::path part = file.string() + ".part";
  std::ofstream(part, std::ios::binary) << content;
  fs::rename(part, file);
}

std::string take(const fs::path& file) {
  while (!fs::exists(file)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

class TcpProcess final : public CommunicatorWorld {
 public:
  TcpProcess(std::string address, int ranks, const fs::path& folder)
      : address_(std::move(address)), ranks_(ranks), folder_(folder) {}

  std::unique_ptr<Communicator> make(int rank) override {
    const fs::path company = folder_ / "company.key";
    if (rank == 0) {
      write_company_key(company);
    }
    (void)take(company);
    const KeyPair keys = read_keys(company, Role::worker).worker;
    listener_ = listen_as_rank("tcp://" + address_ + ":*",
                               LinkKeys{keys, {{keys.public_key, "worker"}}});
    const auto file = [this](int r) { return folder_ / std::to_string(r); };
    give(file(rank), listener_->endpoint());
    std::vector<RankAddress> addresses;
    for (int r = 0; r < ranks_; ++r) {
      addresses.push_back({take(file(r)), keys.public_key});
    }
    return listener_->join({rank, addresses, 1});
  }

 private:
  std::string address_;
  int ranks_;
  fs::path folder_;
  std::unique_ptr<RankListener> listener_;
};

class NcclProcess final : public CommunicatorWorld {
 public:
  NcclProcess(int ranks, const fs::path& folder)
      : ranks_(ranks), file_(folder / "id"), ctx_(1, {DeviceKind::cuda, 0}) {}

  std::unique_ptr<Communicator> make(int rank) override {
    NcclId id;
    if (rank == 0) {
      id = make_nccl_id();
      give(file_, {reinterpret_cast<const char*>(id.data()), id.size()});
    } else {
      const std::string content = take(file_);
      std::memcpy(id.data(), content.data(), id.size());
    }
    return make_nccl_communicator({.rank = rank,
                                   .world_size = ranks_,
                                   .id = id,
                                   .device = 0,
                                   .deadline = in_half_a_minute()});
  }
  std::unique_ptr<CommunicatorMemory> memory(int /*rank*/,
                                             std::size_t bytes) override {
    return std::make_unique<DeviceMemory>(ctx_, bytes);
  }

 private:
  int ranks_;
  fs::path file_;
  ExecContext ctx_;
};

/// What rank `rank` gets in the reference.
Bytes expected(int rank, int ranks, std::uint64_t seed) {
  Bytes got;
  const auto errors = run_ranks(inproc_kind(), ranks, [&](TestRank& self) {
    const Bytes bytes = ProgramRank(self, seed).run();
    if (self.rank() == rank) {
      got = bytes;
    }
  });
  for (const auto& error : errors) {
    if (error) {
      throw Error(*error);
    }
  }
  return got;
}

int run(const std::string& kind, int rank, int ranks, const fs::path& folder,
        std::uint64_t programs, std::uint64_t dies_at) {
  std::unique_ptr<CommunicatorWorld> world;
  if (kind == "nccl") {
    std::printf("NCCL %s\n", nccl_version().c_str());
    world = std::make_unique<NcclProcess>(ranks, folder);
  } else {
    world = std::make_unique<TcpProcess>(kind, ranks, folder);
  }
  TestRank self(*world, rank);
  std::size_t num_bytes = 0;
  for (std::uint64_t seed = 0; seed < programs; ++seed) {
    if (seed == dies_at) {
      kill(getpid(), SIGKILL);
    }
    const auto begin = std::chrono::steady_clock::now();
    Bytes got;
    try {
      got = ProgramRank(self, seed, std::chrono::seconds(10)).run();
    } catch (const Error& error) {
      std::printf("rank %d, program %llu, after %.3f s: %s\n", rank,
                  static_cast<unsigned long long>(seed),
                  std::chrono::duration<double>(
                      std::chrono::steady_clock::now() - begin)
                      .count(),
                  error.what());
      return 3;
    }
    if (got != expected(rank, ranks, seed)) {
      std::printf("rank %d, program %llu: other bytes\n", rank,
                  static_cast<unsigned long long>(seed));
      return 1;
    }
    num_bytes += got.size();
  }
  std::printf("rank %d: %llu programs and %zu bytes equal\n", rank,
              static_cast<unsigned long long>(programs), num_bytes);
  return 0;
}

}  // namespace
}  // namespace troupe::net

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() < 5 || words.size() > 6) {
    std::fputs(
        "usage: communicator_ranks nccl|ADDRESS RANK RANKS FOLDER PROGRAMS "
        "[DIES_AT]\n",
        stderr);
    return 2;
  }
  try {
    return troupe::net::run(
        words[0], std::stoi(words[1]), std::stoi(words[2]), words[3],
        std::stoull(words[4]),
        words.size() > 5 ? std::stoull(words[5]) : ~std::uint64_t{0});
  } catch (const troupe::Error& error) {
    std::fprintf(stderr, "communicator_ranks: %s\n", error.what());
    return 3;
  }
}
