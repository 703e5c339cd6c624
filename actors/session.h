#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "actors/coordinator_events.h"
#include "actors/encoding_record.h"
#include "actors/job_record.h"
#include "config/method_plan.h"

// What two processes of a company say to each other beside the news of a job.
//
//   worker's process                       coordinator's process
//        Applicant ──greeting──▶ lets it in, or refuses
//                  ◀──greeting── Welcome
//                  ◀──────────── Offer
//   loads the model
//             Join ────────────▶ ProcessJoined
//                  ◀──────────── AdmitProcess or RefuseProcess
//   starts workers … news of the job, both ways …
//             ProcessReport ───▶ once a second, and last of all; before the
//                                Join already if it gives the model's files
//              DamagedValue ───▶ drops who gave it
//                  ◀──────────── PeerAddress of each other one, as they come
//                  ◀──────────── JobOver
//
// Where the job waits for workers, or they encode its prompts, another round
// comes before that:
//
//                  ◀──────────── StandBy
//                  ◀──────────── EncodingOffer to one process, StandBy to
//                  others
//       TextEncoded ────────────▶ as soon as a text is encoded
//                  ◀──────────── TextFetched, once the text has come (TextKey)
//      EncodingDone or EncodingRefused ─▶ then the next process is asked
//                  ◀──────────── NextJob: dials again, and is offered the job
//
//   worker's process                       another worker's process
//     PeerGreeting ──greeting──▶ lets it in, or refuses
//                  ◀──greeting── PeerGreeting
//   asks for values and the model's files, both ways

// Values are asked for by keys (ValueKey).

namespace troupe::actors {

/// A process that wants to compute for a job.
struct Applicant {
  std::string version;  ///< of its Troupe
  std::string name;     ///< for people: host and process
  /// Where other processes may ask it for values; empty: nowhere. The
  /// coordinator puts the host that it sees in the place of "0.0.0.0", "*" and
  /// "[::]".
  std::vector<std::string> endpoints;
  /// Workers of the process in a job that has work for all of its workers.
  config::WorkerCount workers = {};
};

/// The tokens by which processes of a job recognise each other. Every process
/// has two tokens of its own, which the coordinator sends to the other
/// processes.
struct PeerTokens {
  std::string request;  ///< the dialling process sends it
  std::string answer;   ///< the process answers a request with it
};

struct Welcome {
  std::string version;   ///< of the coordinator's Troupe
  int process = 0;       ///< the newcomer's number in the job
  bool is_over = false;  ///< the job has ended: there is nothing to join
  PeerTokens tokens;     ///< the newcomer's
};

/// The job. A process that takes it asks for the values that the record names.
struct Offer {
  JobRecord job;
  bool trace = false;  ///< results say which values they made and read
};

/// The process has the model, and can begin.
struct Join {
  /// The classes of its workers: an execution class in `joined` is a place in
  /// this list.
  std::vector<ClassRecord> classes;
  ProcessJoined joined;
};

/// This incarnation of the worker counts no more. If it has ended meanwhile,
/// the next one goes on. Errc::device_lost: no other shall be started.
struct EndWorker {
  int worker = 0;
  std::uint32_t epoch = 0;
  Failure cause;
};

/// Where a process can be asked for values; no endpoints: it has left.
struct PeerAddress {
  int process = 0;
  std::vector<std::string> endpoints;
  PeerTokens tokens;  ///< its own
  /// Whether the process serves files of the model (remote/model_files.h).
  bool gives_model = false;
};

/// The greeting between two workers' processes of a job: of the process that
/// dials, and the answer to it.
struct PeerGreeting {
  int process = 0;  ///< its own number
  std::string token;
};

/// Bytes of tensors that links have carried to and from a process since it
/// joined, as the process counts them.
struct ProcessReport {
  int process = 0;
  std::uint64_t bytes_fetched = 0;
  std::uint64_t bytes_given = 0;
  /// Whether the process serves files of the model to other processes. Serving
  /// may begin before the process has joined, and may end.
  bool gives_model = false;
};

/// A value that `holder` gave the process had another hash than it said, or was
/// none. Other values come well to the process, unless the holder is the
/// coordinator's process.
struct DamagedValue {
  int process = 0;
  int holder = 0;
};

/// Nothing more is to be computed.
struct JobOver {
  std::optional<Failure> cause;  ///< why the job failed
};

/// The prompts of a job that is still to be offered.
struct EncodingOffer {
  EncodingRecord record;
};

/// The job has not begun, and another process encodes its prompts if they are
/// encoded elsewhere: there will be an offer, or NextJob.
struct StandBy {};

/// A text of the record is encoded, and can be asked for (TextKey).
struct TextEncoded {
  std::uint64_t text = 0;  ///< its place in EncodingRecord::texts
};

/// The text has come: the process that encoded the text lets go of the vectors.
struct TextFetched {
  std::uint64_t text = 0;  ///< the same
};

/// Every text was named that was to be encoded: all of the record but those
/// that are kept, and these too where the classes differ.
struct EncodingDone {
  /// Of the process, whatever the weights; and with those of the encoders.
  std::string execution_class;
  std::string encoder_class;
  /// Of each encoder; 0: all its texts are kept, and it was not read.
  std::vector<std::uint64_t> weights_xxh3;
  DeviceKind device = DeviceKind::cpu;  ///< that encoded
};

/// The process cannot encode the prompts. It may be able to do the job.
struct EncodingRefused {
  Failure cause;
};

/// The job begins: a process that dials again is offered it.
struct NextJob {};

// Keys of values, by which a process asks another process over their link.

/// A value of a run.
struct RunValueKey {
  std::uint64_t job = 0;  ///< hash_of its record
  int holder = 0;         ///< the process that has it, or will make it
  ValueName name;
  /// The holder has sent it damaged: the coordinator's process asks another
  /// holder, if it knows any.
  bool came_damaged = false;
};
/// A condition of the job, by its hash: the coordinator's process has it.
struct ConditionKey {
  std::uint64_t hash = 0;
};
/// What is given for the samples of the job, at the coordinator's process: a
/// parcel of "latents" (JobValues::init_latents), "guesses", or both.
struct LatentsKey {
  std::uint64_t job = 0;  ///< hash_of its record
};
/// What the process has encoded of a text of the EncodingRecord: a parcel of
/// the two tensors of models::EncodedText.
struct TextKey {
  std::uint64_t text = 0;  ///< its place in EncodingRecord::texts
};
/// A value without meaning of so many bytes, which any process gives at once:
/// it measures the link.
inline constexpr std::uint64_t kMostProbeBytes = 1 << 20;
struct ProbeKey {
  std::uint64_t bytes = 0;
};
/// How fast values of `process` come to the process that is asked, which
/// measures it then (LinkChannel::measure).
struct PaceKey {
  int process = 0;
};
/// The list of the model's files: the coordinator's process has it.
struct ModelFilesKey {};
/// The list of the chunks of those that the process has: for each chunk a
/// character, '1' or '0'.
struct ModelChunksKey {};
struct ModelChunkKey {
  std::uint64_t file = 0;   ///< its place in the list
  std::uint64_t chunk = 0;  ///< within the file
};
using ValueKey =
    std::variant<RunValueKey, ConditionKey, LatentsKey, TextKey, ProbeKey,
                 PaceKey, ModelFilesKey, ModelChunksKey, ModelChunkKey>;

}  // namespace troupe::actors
