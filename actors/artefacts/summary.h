#pragma once

#include <cstdint>
#include <cstdio>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "actors/node_status.h"
#include "kernels/core/error.h"

namespace troupe::actors {

struct ImageSummary {
  std::uint64_t index = 0;
  std::uint64_t seed = 0;  ///< that draws this image; torch noise: seed + index
  std::int64_t class_id = 0;
  std::string class_name = {};
  std::optional<std::string> prompt = {};  ///< unset: it shows no words
  std::string path = {};
  std::string latents_xxh3 = {};
  /// "done", "skipped", "failed", "cancelled"
  std::string status = "done";
  std::string message = {};          ///< why it failed
  std::string execution_class = {};  ///< set where a job has several, and
                                     ///< for images that were there
};

/// A device of a run.
struct DeviceSummary {
  std::string name;
  std::string status = "used";  ///< "used", "lost"
  std::string cause;            ///< why it was lost
};

/// What a device is to hold, as --dry-run foresees.
struct DevicePlan {
  std::string name;
  int workers = 0;
  int rows = 0;  ///< images of one forward pass
  std::string dtype;
  std::uint64_t memory_bytes = 0;
  std::uint64_t available_memory_bytes = 0;
};

/// What is to encode prompts, as --dry-run foresees.
struct EncoderPlan {
  std::string device;
  std::string dtype;
  std::uint64_t memory_bytes = 0;
  std::uint64_t available_memory_bytes = 0;
  std::uint64_t prompts = 0;       ///< that are encoded
  std::uint64_t prompt_bytes = 0;  ///< of what is made of them
  std::uint64_t file_bytes = 0;    ///< of these, in a file
  std::string folder;              ///< of that file
};

/// What --dry-run foresees.
struct PlanSummary {
  std::uint64_t images = 0;  ///< that are not there yet
  std::uint64_t memory_bytes = 0;
  std::uint64_t available_memory_bytes = 0;
  std::string memory_limit;  ///< what leaves no more, in words
  std::optional<EncoderPlan> encoder;
  std::vector<DevicePlan> gpus;  ///< with memory of their own
  double forward_rows = 0;       ///< both guidance branches counted
  double sequential_rows = 0;    ///< of the sequential run
  double flops = 0;              ///< of the network
  /// From part to part of the network, in a model call of one sample.
  std::uint64_t crossing_bytes = 0;
  std::optional<double> predicted_seconds;  ///< loading not counted
  std::string prediction;  ///< "about", "at most": of rows, flops and seconds
  std::string measured;    ///< what the seconds rest on, or why there are none
};

/// What a run ends with, as people and programs read it.
struct RunSummary {
  std::string version;
  std::string verb;
  /// "done", "planned", "stopped", "failed"; "cancelled": the job was, or some
  /// of its images were, and the others are there
  std::string status = "done";
  std::string cancelled_by;  ///< empty: nobody cancelled the whole job
  int exit_code = 0;
  std::string method;
  /// Workers that make an image together; 0: as many as there are.
  int workers_per_image = 1;
  std::uint64_t useful_workers = 1;  ///< that the method is made for
  std::string cut;  ///< "chain" or "onion"; empty: the network is whole
  std::string sampler;
  int steps = 0;
  double guidance = 1;
  std::int64_t nfe = 0;
  std::int64_t rounds = 0;
  int workers = 0;
  int threads = 0;
  std::string dtype;
  double wall_seconds = 0;
  double encode_seconds = 0;   ///< of prompts
  std::string encoder_device;  ///< "cpu", "cuda"; empty: nothing was encoded
  double load_seconds = 0;
  double compute_seconds = 0;
  double images_per_second = 0;
  std::uint64_t peak_memory_bytes = 0;
  /// Tensor bytes sent to other processes. A run in one process sends no bytes:
  /// its workers hand tensors over by handle.
  std::uint64_t bytes_sent = 0;
  std::uint64_t bytes_received = 0;  ///< the same, from them
  std::int64_t recoveries = 0;
  std::vector<DeviceSummary> devices;
  std::vector<NodeStatus> nodes;  ///< this process, and those that came
  std::string bits;               ///< "invariant", "free", …; empty: no GPU
  std::string execution_class;    ///< "mixed": see the images
  std::string latents_xxh3;       ///< of all images; empty: left out, see notes
  std::vector<ImageSummary> images;
  std::vector<std::string> notes;
  std::optional<PlanSummary> plan;
};

/// What the JSON of every verb begins with: schema, version, verb, status and
/// exit_code.
[[nodiscard]] nlohmann::ordered_json envelope(const RunSummary& summary);

/// The "nodes" of such an object.
[[nodiscard]] nlohmann::ordered_json nodes_json(
    const std::vector<NodeStatus>& nodes);

/// One JSON object on one line, keys as in design §8.
[[nodiscard]] std::string to_json(const RunSummary& summary);

/// A run that failed or was stopped: status, exit_code and
/// error{code where message hint retryable} beside what is known, which is the
/// whole summary of `sample` and the envelope of other verbs.
[[nodiscard]] std::string failure_json(RunSummary summary, const Error& error);

/// The "error" of such an object: {code where message hint retryable}, the last
/// true when the same command may succeed later without a change.
[[nodiscard]] nlohmann::ordered_json to_json(const Error& error);

/// "troupe: [place] message. hint", on one line whatever the parts hold.
[[nodiscard]] std::string one_line(const Error& error);

/// Prints `line` and a line's end. Unlike fmt::print it does not throw if the
/// reader has gone: the run goes on.
void say(std::FILE* to, const std::string& line);

/// JSON on one line; bytes that are not UTF-8, such as a path may hold, are
/// replaced.
[[nodiscard]] std::string dump(const nlohmann::ordered_json& json);

}  // namespace troupe::actors
