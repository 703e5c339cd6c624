#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "actors/grant.h"
#include "actors/observer.h"
#include "actors/process.h"
#include "actors/value_room.h"
#include "actors/worker_traits.h"
#include "config/config.h"
#include "kernels/core/clock.h"
#include "kernels/core/device.h"
#include "kernels/core/tensor.h"
#include "kernels/core/variants.h"
#include "samplers/parallel/method.h"

// What goes into a CoordinatorPolicy, and what comes out of it.

namespace troupe::actors {

/// Of a worker: where its values lie.
[[nodiscard]] inline ValueMemory memory_of(const WorkerTraits& traits) {
  return memory_of(traits.process, traits.device);
}

/// The coordinator's process: results are brought there. It lives as long as
/// the job.
inline constexpr int kHomeProcess = 0;
inline constexpr ValueMemory kHomeMemory{kHomeProcess};

/// The error concerns one sample alone, so other samples can go on.
[[nodiscard]] inline bool is_of_sample(Errc code) {
  return code == Errc::non_finite;
}

/// What finished samples may take of memory while they wait for their writer.
inline constexpr std::uint64_t kWriterCredit = std::uint64_t{256} << 20U;
/// A smaller outcome counts as one of this size: a disk writes small files no
/// faster, so more of them would only wait longer.
inline constexpr std::uint64_t kLeastOutcomeBytes = std::uint64_t{256} << 10U;

/// How long a worker that has tasks can show no life before it is taken for
/// dead. A step of its work (a block of a pass), or a beat that says that it
/// waits for inputs, is a sign of life.
struct LeaseOptions {
  Duration least{};  ///< 0: nobody is taken for dead
  /// The lease while the worker has a task whose operation no worker of its
  /// class has finished yet. 0: as `least`.
  Duration unmeasured{};
  /// Otherwise so many times what the slowest pass of its class took, if that
  /// is more than `least`.
  double factor = 10;
};

/// A state that a sample can go on from: a snapshot of the method, and the
/// slots whose values the snapshot refers to.
struct Cut {
  std::string snapshot;
  std::vector<samplers::Slot> slots;
  int execution_class = 0;  ///< whose workers alone can go on from it
};

/// A segment of the network.
struct SegmentFigures {
  double share = 1;              ///< of the network's work
  std::uint64_t sent_bytes = 0;  ///< of a row, to the next segment
  std::uint64_t weights_bytes = 0;
};

/// How often a sample is cut: after so many calls and so much time. Only where
/// values can be lost: on a GPU, or in another process.
struct CutOptions {
  Duration interval = std::chrono::seconds(1);
  int calls = 8;
};

struct CoordinatorOptions {
  /// Global indices still to do, in the order in which they begin.
  std::vector<std::uint64_t> samples;
  /// A fresh method instance for one sample.
  std::function<std::unique_ptr<samplers::Method>()> make_method;
  samplers::MethodOptions method = {.kind = samplers::MethodKind::batch};
  std::vector<WorkerTraits> workers = {};
  /// Ticks of work after which a sample has one more call accepted; 0: not
  /// known, progress moves by whole calls.
  std::uint64_t ticks_per_call = 0;
  /// Whether finished samples are decoded to pixels.
  bool decode = true;
  /// Observers get a preview of each sample every so many calls; 0: none.
  int preview_every = 0;
  bool trajectory = false;  ///< observers get the latents after each call
  /// Latents and pixels of a finished sample. While some wait for their writer,
  /// a sample begins only if it and all that are in flight or wait fit into
  /// kWriterCredit. While none waits, all goes as if there were no writer. 0:
  /// no limit.
  std::uint64_t outcome_bytes = 0;
  /// Bytes of a sample's values, by kind. All 0: not known, and budgets do not
  /// count.
  ValueSizes value_sizes = {};
  /// Of the network, in order; empty: not known, and all are alike.
  std::vector<SegmentFigures> segments = {};
  /// Bytes that a process keeps for values in the host's memory. A sample
  /// begins only if all that it may hold at once (MethodRow::most_live) fits
  /// into every process that it uses, and into every GPU
  /// (WorkerTraits::value_budget). A process that is not listed, or has 0, sets
  /// no limit.
  std::map<int, std::uint64_t> value_budgets = {};
  ProcessMeans means = {};  ///< of the coordinator's process
  LeaseOptions lease = {};
  /// A sample is parked when one of its tasks was lost so often with its worker
  /// while it ran alone; 0: never.
  int max_losses = 3;
  /// The job goes on when the first samples fail, however many.
  bool keep_going = false;
  CutOptions cuts = {};
  /// While there are no workers, the job waits for a process to join. Otherwise
  /// it ends, and one that begins without workers is an error.
  bool waits_for_processes = false;
  /// Of execution: those that have no worker yet count too.
  int num_classes = 1;
  /// What becomes of a sample when the last worker of its class has gone.
  config::ClassChange on_class_change = config::ClassChange::begin_anew;
  /// The first run of every sample has this number: a coordinator that goes on
  /// with another's job uses none of its names again.
  std::uint32_t first_run = 0;
  /// Samples that begin with a cut, which is kept as cut 0.
  std::map<std::uint64_t, Cut> begun = {};
  /// Least time between two progress reports.
  Duration progress_interval = std::chrono::milliseconds(50);
};

// Events; those of a worker stand in grant.h.
struct TimeTick {};
struct StopRequested {};
/// The job cannot go on: an observer failed.
struct JobFault {
  Failure cause;
};
/// A process is no more, with its workers and its values.
struct ProcessDown {
  int process = 0;
  Failure cause;
  /// The process has ended, as far as its link or its node shows. Otherwise the
  /// process is silent, has left, or was sent away: then no task is blamed.
  bool has_ended = false;
};
/// The link between two processes, as measured (LinkPace). A link that was not
/// measured takes no time to speak of.
struct LinkMeasured {
  int process = 0;
  Duration round_trip{};
  double bytes_per_second = 0;
  int other = kHomeProcess;
};
/// A value came damaged from one of its holders: `then` is called once, with
/// another holder. Nothing: there is none, or the run is over.
struct HolderAsked {
  ValueName name;
  int besides = 0;
  std::function<void(std::optional<int> process)> then;
};
/// A process wants to leave. It is released once nothing of the job is there
/// any more. The coordinator's own process stays.
struct DrainProcess {
  int process = 0;
};
/// A process comes to the job while it runs. The answer is AdmitProcess or
/// RefuseProcess.
struct ProcessJoined {
  /// A number that was never in the job before: a process that comes back has a
  /// new one, because names of values are never used again.
  int process = 0;
  /// Its workers; their `process` is not looked at. A class that nobody has yet
  /// has the next number.
  std::vector<WorkerTraits> workers;
  std::uint64_t value_budget = 0;  ///< see CoordinatorOptions::value_budgets
  ProcessMeans means = {};
};
/// The sample is not wanted any more. It ends as cancelled, unless it has ended
/// or its result is on its way home; again, or of another job, it is harmless.
struct CancelSample {
  std::uint64_t sample_index = 0;
};
/// The values of a FetchValues have arrived, except those in `gone`.
struct ValuesFetched {
  std::uint64_t sample_index = 0;
  std::uint32_t run = 0;
  std::uint64_t number = 0;
  std::vector<RemoteValue> gone;
  bool is_rescue = false;  ///< see FetchValues
};
/// The values of a FetchIntermediate are on the host of the coordinator's
/// process, except those in `gone`.
struct IntermediateFetched {
  std::uint64_t sample_index = 0;
  std::uint32_t run = 0;
  std::uint64_t number = 0;
  std::vector<RemoteValue> gone = {};
  Tensor latents = {};  ///< that observers get, [C, …]; the shell's alone
};
/// The values of this cut are kept in the coordinator's process. If some are
/// `gone`, there is no such cut.
struct CutTaken {
  std::uint64_t sample_index = 0;
  std::uint32_t run = 0;
  std::uint64_t number = 0;
  std::vector<RemoteValue> gone;
};
/// The outcome of this sample has left memory. Sent once for each sample that
/// is done, if outcomes have a size.
struct OutcomeReleased {
  std::uint64_t sample_index = 0;
};
/// What a process tells the coordinator while it takes part.
using ProcessNews =
    std::variant<GrantResult, WorkerUp, WorkerDown, WorkerBeat, DrainProcess>;
using CoordinatorEvent = JoinedVariant<
    ProcessNews,
    std::variant<ProcessJoined, ProcessDown, ValuesFetched, IntermediateFetched,
                 CutTaken, TimeTick, StopRequested, JobFault, LinkMeasured,
                 CancelSample, OutcomeReleased>>;

// Commands.
/// The coordinator's process is to fetch these: the result of a run, or what a
/// process that drains holds of it.
struct FetchValues {
  std::uint64_t sample_index = 0;
  std::uint32_t run = 0;
  std::uint64_t number = 0;  ///< unique in the run
  std::vector<RemoteValue> values;
  bool is_rescue = false;  ///< they are not the result, but would be lost
};
/// The coordinator's process is to copy these values to its host, and to make
/// of them what observers get: a point of a trajectory, or a preview.
struct FetchIntermediate {
  std::uint64_t sample_index = 0;
  std::uint32_t run = 0;
  std::uint64_t number = 0;  ///< unique in the job
  int call = 0;              ///< see Preview and TrajectoryPoint
  /// A state; of a step's preview, the network's output for it as well.
  std::vector<RemoteValue> values;
};
/// The coordinator's process is to fetch these values and to keep them all, on
/// its host, as a cut of the sample. Of its earlier cuts only `last` is still
/// wanted.
struct TakeCut {
  std::uint64_t sample_index = 0;
  std::uint32_t run = 0;
  std::uint64_t number = 0;  ///< from 1 on, unique in the job
  std::optional<std::uint64_t> last;
  Cut cut;
  std::vector<RemoteValue> values;
};
/// The sample goes on from this cut: its values get the names of this run, in
/// the coordinator's process, before anything else happens.
struct RestoreCut {
  std::uint64_t sample_index = 0;
  std::uint32_t run = 0;
  std::uint64_t number = 0;
};
/// The pass of the result that is being handled counts: observers get its span,
/// and the scalars of its tasks. A result without this command came too late.
struct ShowPass {
  std::vector<TaskScalars> scalars = {};
};
/// Observers get the latents of the IntermediateFetched that is being handled.
struct ShowIntermediate {
  std::uint64_t sample_index = 0;
  int call = 0;
  bool is_preview = false;
};
/// A sample has ended; when done its state is in slot `result` and, if decoded,
/// its pixels in kPixelsSlot, both on the host of the coordinator's process.
struct EndSample {
  SampleReport report;
  samplers::Slot result = samplers::kInitialSlot;
  std::uint32_t run = 0;
};
/// The process is one of the job's. Its workers may come up, under the numbers
/// from `first_worker` on.
struct AdmitProcess {
  int process = 0;
  int first_worker = 0;
  int num_workers = 0;
};
/// The process is not let in and has to go; another process may get the number.
struct RefuseProcess {
  int process = 0;
  Failure cause;
};
/// Nothing of the job is in this process any more: it can go.
struct ReleaseProcess {
  int process = 0;
};
/// The worker is taken for dead: nothing it sends counts any more.
struct FenceWorker {
  int worker = 0;
  std::string why;  ///< for the log
};
/// For the log: the worker gets no more work because of its link, or gets work
/// again. It stays in the job.
struct LinkWeighed {
  int worker = 0;
  int process = 0;  ///< the worker's
  bool is_left_out = false;
  std::string why;
};
/// The worker's device can do no more: it is to end, and not to be started
/// again.
struct RetireWorker {
  int worker = 0;
  Failure cause;
};
/// The job is over. Without a failure all samples ended, or it was stopped.
/// How long rows took on a worker. Only whole networks are rows here.
struct WorkerSpeed {
  WorkerTraits traits;
  double row_seconds = 0;     ///< the mean of those that are remembered
  std::int64_t num_rows = 0;  ///< all that were measured, in this job
};
struct EndJob {
  bool stopped = false;
  std::optional<Failure> failure = {};
  JobProgress progress = {};
  std::vector<SampleReport> unfinished = {};
  std::int64_t recoveries = 0;
  Duration busy{};  ///< time that all workers spent on grants
  std::vector<LostDevice> lost = {};
  std::vector<WorkerSpeed> speeds = {};  ///< of workers that did any
};
/// What the coordinator tells a process.
using ProcessMessage =
    std::variant<FreeValues, DropRuns, AdmitProcess, RefuseProcess>;
using CoordinatorCommand = JoinedVariant<
    WorkerMessage, ProcessMessage,
    std::variant<FetchValues, FetchIntermediate, TakeCut, RestoreCut, ShowPass,
                 ShowIntermediate, EndSample, ReleaseProcess, JobProgress,
                 FenceWorker, LinkWeighed, RetireWorker, EndJob>>;

/// The slot that holds the pixels of a decoded sample.
inline constexpr samplers::Slot kPixelsSlot = 0xFFFFFFFFU;
/// The number of the task that makes them. No method gives it.
inline constexpr std::uint64_t kDecodeTask = ~std::uint64_t{0};

}  // namespace troupe::actors
