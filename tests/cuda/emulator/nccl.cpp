#include "tests/cuda/emulator/nccl.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "net/nccl_library.cuh"
#include "tests/cuda/emulator/machine.h"
#include "tests/cuda/emulator/running.h"

namespace troupe::emulator {

/// One send or receive.
struct NcclPart {
  bool is_send = false;
  int peer = 0;
  std::byte* at = nullptr;
  std::size_t bytes = 0;
  int device = 0;
  bool is_done = false;
};
using NcclParts = std::vector<std::shared_ptr<NcclPart>>;

struct NcclGroup;

/// The communicators of one id.
struct NcclClique {
  explicit NcclClique(std::size_t ranks)
      : members(ranks), sends(ranks * ranks), receives(ranks * ranks) {}

  std::vector<ncclComm*> members;  ///< null: has not come, or has ended
  std::vector<int> devices;        ///< of all that have come
  bool was_aborted = false;        ///< one of them
  /// What has begun and waits for its other half, by sender and receiver.
  std::vector<std::deque<std::shared_ptr<NcclPart>>> sends;
  std::vector<std::deque<std::shared_ptr<NcclPart>>> receives;

  [[nodiscard]] std::size_t between(int from, int to) const {
    return static_cast<std::size_t>(from) * members.size() +
           static_cast<std::size_t>(to);
  }
};

}  // namespace troupe::emulator

struct ncclComm {
  std::shared_ptr<troupe::emulator::NcclClique> clique;
  int rank = 0;
  int device = 0;
  bool is_joining = true;
  bool is_leaving = false;
  ncclResult_t state = ncclInProgress;
  /// Until the call in progress is done.
  std::size_t looks = 0;
  /// Until a failure elsewhere is seen, if it ever is.
  std::optional<std::size_t> looks_until_error;
  /// Of the call in progress: it is not on its stream yet.
  std::shared_ptr<troupe::emulator::NcclGroup> group;
  int num_groups = 0;
  int num_open = 0;  ///< groups on streams
};

namespace troupe::emulator {

struct NcclGroup {
  ncclComm* comm = nullptr;  ///< null: it has ended
  std::shared_ptr<NcclClique> clique;
  cudaStream_t stream = nullptr;
  NcclParts parts;
  std::size_t looks = 0;  ///< until it begins
  bool has_begun = false;
  bool is_done = false;
};

namespace {

/// Behind the machine's lock.
struct Nccl {
  NcclFaults faults;
  std::map<std::string, std::shared_ptr<NcclClique>> cliques;
  std::set<ncclComm*> comms;
  std::list<std::weak_ptr<NcclGroup>> groups;  ///< on streams
  std::uint64_t num_ids = 0;
};

Nccl& nccl() {
  static Nccl* const it = new Nccl;
  return *it;
}

// What aborts wait for: not the machine's lock, which others need.
std::mutex& hang_mutex() {
  static auto* const it = new std::mutex;
  return *it;
}
std::condition_variable& hang_changed() {
  static auto* const it = new std::condition_variable;
  return *it;
}
bool aborts_hang = false;
std::size_t num_hanging = 0;

/// What the calling thread has opened with ncclGroupStart.
struct OpenGroup {
  int depth = 0;
  std::shared_ptr<NcclGroup> group;
};
OpenGroup& open_group() {
  thread_local OpenGroup group;
  return group;
}

void check_live(const ncclComm* comm) {
  if (nccl().comms.count(const_cast<ncclComm*>(comm)) == 0) {
    report_bug("an NCCL communicator that has ended is used");
  }
}

void check_settled(const ncclComm& comm) {
  if (comm.state == ncclInProgress) {
    report_bug("an NCCL call while the one before is in progress");
  }
}

std::size_t draw_looks() { return draw(nccl().faults.most_looks + 1); }

/// Errors that other ranks get when a rank fails or is aborted.
void tell_others(const ncclComm& failed) {
  for (ncclComm* other : failed.clique->members) {
    if (other != nullptr && other != &failed && !other->looks_until_error &&
        draw(2) == 0) {
      other->looks_until_error = draw_looks();
    }
  }
}

/// Moves what has begun on both sides.
void move(NcclClique& clique, int from, int to) {
  auto& sends = clique.sends[clique.between(from, to)];
  auto& receives = clique.receives[clique.between(from, to)];
  // Another count: both wait for ever.
  while (!sends.empty() && !receives.empty() &&
         sends.front()->bytes == receives.front()->bytes) {
    const NcclPart& send = *sends.front();
    const NcclPart& receive = *receives.front();
    machine().arena.open(bit(send.device) | bit(receive.device));
    const Running running("an NCCL message");
    std::memcpy(receive.at, send.at, send.bytes);
    machine().arena.check_surroundings();
    sends.front()->is_done = true;
    receives.front()->is_done = true;
    sends.pop_front();
    receives.pop_front();
  }
}

/// Whether the stream may go on.
bool look(NcclGroup& group) {
  if (group.comm == nullptr || group.is_done) {
    return true;
  }
  const int rank = group.comm->rank;
  if (!group.has_begun && group.looks > 0) {
    --group.looks;
    return false;
  }
  NcclClique& clique = *group.clique;
  if (!group.has_begun) {
    group.has_begun = true;
    for (const auto& part : group.parts) {
      auto& queue = part->is_send
                        ? clique.sends[clique.between(rank, part->peer)]
                        : clique.receives[clique.between(part->peer, rank)];
      queue.push_back(part);
    }
  }
  for (const auto& part : group.parts) {
    if (part->is_send) {
      move(clique, rank, part->peer);
    } else {
      move(clique, part->peer, rank);
    }
  }
  group.is_done = std::ranges::all_of(
      group.parts, [](const auto& part) { return part->is_done; });
  if (group.is_done) {
    --group.comm->num_open;
  }
  return group.is_done;
}

/// Nothing of it is touched any more, and its streams go on.
void withdraw(ncclComm& comm) {
  for (const auto& weak : nccl().groups) {
    const auto group = weak.lock();
    if (!group || group->comm != &comm) {
      continue;
    }
    for (auto* queues : {&comm.clique->sends, &comm.clique->receives}) {
      for (auto& queue : *queues) {
        std::erase_if(queue, [&](const auto& part) {
          return std::ranges::find(group->parts, part) != group->parts.end();
        });
      }
    }
    group->comm = nullptr;
  }
  std::erase_if(nccl().groups, [](const auto& weak) { return weak.expired(); });
  comm.clique->members[static_cast<std::size_t>(comm.rank)] = nullptr;
}

/// Puts the group of the call on its stream.
ncclResult_t launch(ncclComm& comm) {
  const auto group = std::exchange(comm.group, nullptr);
  nccl().groups.push_back(group);
  ++comm.num_open;
  const cudaError_t status =
      stream_call("ncclGroupEnd", group->stream, [&](Stream& stream, Device&) {
        return push(stream, {.name = "an NCCL exchange",
                             .run = {},
                             .is_ready = [group] { return look(*group); },
                             .waits_for_ranks = true});
      });
  return status == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

bool has_failure(ncclComm& comm, int rank, int nth) {
  return comm.rank == rank && comm.num_groups == nth;
}

/// The state of the call in progress after one more look.
ncclResult_t progress(ncclComm& comm) {
  if (comm.is_joining) {
    const NcclClique& clique = *comm.clique;
    if (clique.devices.size() < clique.members.size()) {
      return ncclInProgress;
    }
    if (std::ranges::count(clique.devices, comm.device) > 1) {
      return ncclInvalidUsage;
    }
  }
  if (comm.is_leaving && (comm.clique->was_aborted || comm.num_open > 0)) {
    return ncclInProgress;
  }
  if (comm.looks > 0) {
    --comm.looks;
    return ncclInProgress;
  }
  comm.is_joining = false;
  return comm.group ? launch(comm) : ncclSuccess;
}

ncclResult_t add_part(bool is_send, void* at, std::size_t count,
                      ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  const std::scoped_lock lock(machine().mutex);
  check_live(comm);
  OpenGroup& open = open_group();
  if (open.depth == 0) {
    report_bug("an NCCL message outside a group");
  }
  if (type != ncclUint8 || peer < 0 ||
      peer >= static_cast<int>(comm->clique->members.size())) {
    return ncclInvalidArgument;
  }
  if (!open.group) {
    open.group = std::make_shared<NcclGroup>();
    open.group->comm = comm;
    open.group->clique = comm->clique;
    open.group->stream = stream;
  }
  if (open.group->comm != comm || open.group->stream != stream) {
    report_bug("one NCCL group of two communicators or streams");
  }
  auto part = std::make_shared<NcclPart>();
  *part = {is_send, peer, static_cast<std::byte*>(at), count, comm->device};
  open.group->parts.push_back(std::move(part));
  return ncclSuccess;
}

ncclResult_t get_version(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

ncclResult_t get_unique_id(ncclUniqueId* id) {
  const std::scoped_lock lock(machine().mutex);
  std::memset(id, 0, sizeof(*id));
  const std::uint64_t number = ++nccl().num_ids;
  std::memcpy(id->internal, &number, sizeof(number));
  return ncclSuccess;
}

ncclResult_t comm_init_rank_config(ncclComm_t* result, int ranks,
                                   ncclUniqueId id, int rank,
                                   ncclConfig_t* config) {
  const std::scoped_lock lock(machine().mutex);
  if (config == nullptr || config->blocking != 0) {
    report_bug("an NCCL communicator whose calls wait for ever");
  }
  auto& clique = nccl().cliques[std::string(id.internal, sizeof(id.internal))];
  if (!clique) {
    clique = std::make_shared<NcclClique>(static_cast<std::size_t>(ranks));
  }
  if (clique->members.size() != static_cast<std::size_t>(ranks) || rank < 0 ||
      rank >= ranks || clique->devices.size() == clique->members.size() ||
      clique->members[static_cast<std::size_t>(rank)] != nullptr) {
    report_bug("an NCCL id is used twice, or with two numbers of ranks");
  }
  auto* const comm = new ncclComm;
  comm->clique = clique;
  comm->rank = rank;
  comm->device = current_device();
  comm->looks = draw_looks();
  clique->members[static_cast<std::size_t>(rank)] = comm;
  clique->devices.push_back(comm->device);
  nccl().comms.insert(comm);
  *result = comm;
  return ncclInProgress;
}

ncclResult_t comm_get_async_error(ncclComm_t comm, ncclResult_t* state) {
  const std::scoped_lock lock(machine().mutex);
  check_live(comm);
  if (comm->looks_until_error && (*comm->looks_until_error)-- == 0) {
    comm->looks_until_error.reset();
    comm->state = ncclRemoteError;
  }
  if (comm->state == ncclInProgress) {
    comm->state = progress(*comm);
  }
  *state = comm->state;
  return ncclSuccess;
}

ncclResult_t group_start() {
  ++open_group().depth;
  return ncclSuccess;
}

ncclResult_t group_end() {
  const std::scoped_lock lock(machine().mutex);
  OpenGroup& open = open_group();
  if (--open.depth > 0 || !open.group) {
    return ncclSuccess;
  }
  const auto group = std::exchange(open.group, nullptr);
  ncclComm& comm = *group->comm;
  check_live(&comm);
  check_settled(comm);
  if (comm.state != ncclSuccess) {
    return comm.state;
  }
  ++comm.num_groups;
  const NcclFaults& faults = nccl().faults;
  if (has_failure(comm, faults.failing_rank, faults.failing_group)) {
    tell_others(comm);
    comm.state = ncclSystemError;
    return comm.state;
  }
  if (has_failure(comm, faults.mismatched_rank, faults.mismatched_group)) {
    const auto send = std::ranges::find_if(
        group->parts, [](const auto& part) { return part->is_send; });
    if (send != group->parts.end()) {
      --(*send)->bytes;
    }
  }
  group->looks = draw_looks();
  comm.group = group;
  comm.looks = draw_looks();
  comm.state = progress(comm);
  return comm.state;
}

ncclResult_t send(const void* at, std::size_t count, ncclDataType_t type,
                  int peer, ncclComm_t comm, cudaStream_t stream) {
  return add_part(true, const_cast<void*>(at), count, type, peer, comm, stream);
}

ncclResult_t receive(void* at, std::size_t count, ncclDataType_t type, int peer,
                     ncclComm_t comm, cudaStream_t stream) {
  return add_part(false, at, count, type, peer, comm, stream);
}

ncclResult_t comm_finalize(ncclComm_t comm) {
  const std::scoped_lock lock(machine().mutex);
  check_live(comm);
  check_settled(*comm);
  comm->is_leaving = true;
  comm->looks = draw_looks();
  comm->state = ncclInProgress;
  return ncclInProgress;
}

void end(ncclComm_t comm) {
  withdraw(*comm);
  nccl().comms.erase(comm);
  delete comm;
}

ncclResult_t comm_destroy(ncclComm_t comm) {
  const std::scoped_lock lock(machine().mutex);
  check_live(comm);
  check_settled(*comm);
  if (!comm->is_leaving) {
    report_bug("an NCCL communicator is destroyed, but not finalized");
  }
  end(comm);
  return ncclSuccess;
}

ncclResult_t comm_abort(ncclComm_t comm) {
  {
    const std::scoped_lock lock(machine().mutex);
    check_live(comm);
    comm->clique->was_aborted = true;
    tell_others(*comm);
    withdraw(*comm);
  }
  {
    std::unique_lock lock(hang_mutex());
    ++num_hanging;
    hang_changed().wait(lock, [] { return !aborts_hang; });
    --num_hanging;
  }
  const std::scoped_lock lock(machine().mutex);
  end(comm);
  return ncclSuccess;
}

const char* get_error_string(ncclResult_t result) {
  switch (result) {
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclSystemError:
      return "unhandled system error";
    default:
      return "an error of the emulated NCCL";
  }
}

const char* get_last_error(ncclComm_t /*comm*/) { return ""; }

}  // namespace

void set_nccl_faults(const NcclFaults& faults) {
  {
    const std::scoped_lock lock(machine().mutex);
    nccl().faults = faults;
  }
  const std::scoped_lock lock(hang_mutex());
  aborts_hang = faults.aborts_hang;
  hang_changed().notify_all();
}

std::size_t hanging_nccl_aborts() {
  const std::scoped_lock lock(hang_mutex());
  return aborts_hang ? num_hanging : 0;
}

std::size_t nccl_communicators() {
  const std::scoped_lock lock(machine().mutex);
  return nccl().comms.size();
}

}  // namespace troupe::emulator

namespace troupe::net {

NcclLibrary load_nccl() {
  return {.get_version = emulator::get_version,
          .get_unique_id = emulator::get_unique_id,
          .comm_init_rank_config = emulator::comm_init_rank_config,
          .comm_finalize = emulator::comm_finalize,
          .comm_destroy = emulator::comm_destroy,
          .comm_abort = emulator::comm_abort,
          .comm_get_async_error = emulator::comm_get_async_error,
          .get_error_string = emulator::get_error_string,
          .get_last_error = emulator::get_last_error,
          .group_start = emulator::group_start,
          .group_end = emulator::group_end,
          .send = emulator::send,
          .receive = emulator::receive,
          .handle = nullptr};
}

}  // namespace troupe::net
