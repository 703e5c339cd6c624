#pragma once

#include <cstdint>
#include <cstdio>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "actors/status_fields.h"
#include "kernels/core/error.h"
#include "kernels/core/fields.h"
#include "kernels/core/system/exit_codes.h"

namespace troupe::actors {

// Each struct is followed by the list of its fields: for JSON and for `troupe
// help json`, in the order of the JSON.

struct ImageSummary {
  std::uint64_t index = 0;
  std::uint64_t seed = 0;  ///< torch noise: seed + index
  std::int64_t class_id = 0;
  std::string class_name = {};
  std::optional<std::string> prompt = {};
  std::string path = {};
  std::string latents_xxh3 = {};
  std::string status = "done";
  std::string message = {};
  std::string execution_class = {};
};

void visit_fields(auto& visit, AnyConst<ImageSummary> auto& r) {
  visit({"index", "global index of the sample"}, r.index);
  visit({"seed", "seed that draws it"}, r.seed);
  visit({"seed_text", "the same, for readers of doubles (jq)"},
        std::to_string(r.seed));
  visit({"class", "class id; 0 where there are prompts"}, r.class_id);
  visit({"class_name", "its name; empty if it has none"}, r.class_name);
  visit({"path", "the file; - for stdout; empty if not written"}, r.path);
  visit({"latents_xxh3", "XXH3-64 of its final latents' bytes"},
        r.latents_xxh3);
  visit({"status", "done, skipped (it was there), failed or cancelled"},
        r.status);
  visit({"prompt", "what it shows; absent where it has a class"}, r.prompt);
  visit(if_any({"message", "why it failed; absent otherwise"}), r.message);
  visit(if_any({"execution_class",
                "what computed it; absent where the job has one class and made "
                "the image"}),
        r.execution_class);
}

/// A device of a run.
struct DeviceSummary {
  std::string name;
  std::string status = "used";
  std::string cause;
};

void visit_fields(auto& visit, AnyConst<DeviceSummary> auto& r) {
  visit({"name", "cpu, or cuda:N with its model"}, r.name);
  visit({"status", "used or lost"}, r.status);
  visit(if_any({"cause", "why it was lost; absent otherwise"}), r.cause);
}

/// What a device is to hold, as --dry-run foresees.
struct DevicePlan {
  std::string name;
  int workers = 0;
  int rows = 0;
  std::string dtype;
  std::uint64_t memory_bytes = 0;
  std::uint64_t available_memory_bytes = 0;
};

void visit_fields(auto& visit, AnyConst<DevicePlan> auto& r) {
  visit({"name", "cuda:N with its model"}, r.name);
  visit({"workers", "workers on it"}, r.workers);
  visit({"rows", "images of one forward pass"}, r.rows);
  visit({"dtype", "f32, bf16 or f16"}, r.dtype);
  visit({"memory_bytes", "its memory that is needed"}, r.memory_bytes);
  visit({"available_memory_bytes", "its memory that is free"},
        r.available_memory_bytes);
}

/// What is to encode prompts, as --dry-run foresees.
struct EncoderPlan {
  std::string device;
  std::string dtype;
  std::uint64_t memory_bytes = 0;
  std::uint64_t available_memory_bytes = 0;
  std::uint64_t prompts = 0;
  std::uint64_t prompt_bytes = 0;
  std::uint64_t file_bytes = 0;
  std::string folder;  ///< of that file
};

void visit_fields(auto& visit, AnyConst<EncoderPlan> auto& r) {
  visit({"device", "cpu, or cuda:N with its model"}, r.device);
  visit({"dtype", "f32 or bf16"}, r.dtype);
  visit(
      {"memory_bytes", "its memory that is needed, before the network is read"},
      r.memory_bytes);
  visit({"available_memory_bytes", "its memory that is free"},
        r.available_memory_bytes);
  visit({"prompts", "lines that images of the job show"}, r.prompts);
  visit({"prompt_bytes",
         "what is kept of them while images are drawn, equal texts once"},
        r.prompt_bytes);
  visit({"file_bytes", "of it, in a file in TMPDIR or /var/tmp"}, r.file_bytes);
}

/// A way to divide each pass among shards, as --dry-run foresees it.
struct ShardPlan {
  std::string plan;  ///< "alone", "gather", "ring" or "ulysses"
  int shards = 1;
  double share = 1;
  int exchanges = 0;
  std::uint64_t received_bytes = 0;
  std::uint64_t memory_bytes = 0;
  std::optional<double> row_seconds;
  bool is_measured = false;  ///< else row_seconds is predicted
};

void visit_fields(auto& visit, AnyConst<ShardPlan> auto& r) {
  visit({"plan", "alone, or gather, ring or ulysses (--shard-plan)"}, r.plan);
  visit({"shards", "that compute a pass together"}, r.shards);
  visit({"share", "of a pass that the slowest of them computes"}, r.share);
  visit({"exchanges", "for which a shard waits in a pass"}, r.exchanges);
  visit({"received_bytes",
         "by a shard from others in a pass of one image; where shards share "
         "memory nothing is copied"},
        r.received_bytes);
  visit({"memory_bytes", "of a shard in a pass, beside the weights"},
        r.memory_bytes);
  visit(or_null({"row_seconds", "of a pass of one image"}), r.row_seconds);
  visit(
      {"is_measured",
       "whether shards took row_seconds; false: predicted from a pass without "
       "shards and from the link"},
      r.is_measured);
}

/// What --dry-run foresees.
struct PlanSummary {
  std::uint64_t images = 0;
  std::uint64_t memory_bytes = 0;
  std::uint64_t available_memory_bytes = 0;
  std::string memory_limit;
  std::optional<EncoderPlan> encoder;
  std::vector<DevicePlan> gpus;  ///< with memory of their own
  double forward_rows = 0;
  double sequential_rows = 0;
  double flops = 0;
  std::uint64_t crossing_bytes = 0;
  std::optional<double> predicted_seconds;
  std::string prediction;  ///< "about", "at most"
  std::string measured;
  std::vector<ShardPlan> shard_plans;  ///< empty: passes cannot be divided
  /// From one GPU to another; empty: there are no two.
  std::optional<double> link_seconds;
  std::optional<double> link_bytes_per_second;
};

/// The nearest whole number that fits.
[[nodiscard]] std::int64_t whole_rows(double rows);

void visit_fields(auto& visit, AnyConst<PlanSummary> auto& r) {
  visit({"images", "images that are not there yet"}, r.images);
  visit({"memory_bytes", "memory of the host that is needed"}, r.memory_bytes);
  visit({"available_memory_bytes", "memory of the host that is free"},
        r.available_memory_bytes);
  visit({"memory_limit", "what leaves no more"}, r.memory_limit);
  visit(
      {"encoder", "what is to encode prompts; absent where nothing here does"},
      r.encoder);
  visit({"gpus", "GPUs of the job"}, r.gpus);
  visit({"forward_rows",
         "rows that pass the network, both branches of guidance counted"},
        whole_rows(r.forward_rows));
  visit({"flops", "floating-point operations of the network"}, r.flops);
  visit({"crossing_bytes",
         "from part to part of the network in a model call of one image"},
        r.crossing_bytes);
  visit(or_null({"predicted_seconds", "without loading"}), r.predicted_seconds);
  visit({"prediction", "about or at most: of rows, flops, seconds"},
        r.prediction);
  visit({"measured", "what the seconds rest on, or why there are none"},
        r.measured);
  visit({"shard_plans", "ways to divide each pass (--shards)"}, r.shard_plans);
  visit(or_null({"link_seconds",
                 "that an exchange between two GPUs takes beside its bytes"}),
        r.link_seconds);
  visit(or_null({"link_bytes_per_second", "from one GPU to another"}),
        r.link_bytes_per_second);
  visit({"sequential_forward_rows", "forward_rows of the sequential run"},
        whole_rows(r.sequential_rows));
}

/// What a run ends with, as people and programs read it.
struct RunSummary {
  std::string version;
  std::string verb;
  std::string status = "done";
  std::string cancelled_by;
  int exit_code = 0;
  std::string method;
  /// Workers that make an image together; 0: as many as there are.
  int workers_per_image = 1;
  std::uint64_t useful_workers = 1;  ///< that the method is made for
  std::string cut;
  std::string sampler;
  int steps = 0;
  double guidance = 1;
  std::int64_t nfe = 0;
  std::int64_t rounds = 0;
  std::int64_t reused = 0;
  int workers = 0;
  int threads = 0;
  int shards = 1;
  std::string dtype;
  double wall_seconds = 0;
  double encode_seconds = 0;
  std::string encoder_device;
  double load_seconds = 0;
  double compute_seconds = 0;
  double images_per_second = 0;
  std::uint64_t peak_memory_bytes = 0;
  /// A run in one process sends no bytes: its workers hand tensors over by
  /// handle.
  std::uint64_t bytes_sent = 0;
  std::uint64_t bytes_received = 0;
  std::int64_t recoveries = 0;
  std::vector<DeviceSummary> devices;
  std::vector<Process> nodes;
  std::string bits;
  std::string execution_class;
  std::string latents_xxh3;  ///< empty: left out, see notes
  std::vector<ImageSummary> images;
  std::vector<std::string> notes;
  std::optional<PlanSummary> plan;
};

inline constexpr int kSummarySchema = 1;

/// What the JSON of every verb begins with.
void visit_envelope(auto& visit, AnyConst<RunSummary> auto& r) {
  visit({"schema", "1; changes when an old reader would misread it"},
        kSummarySchema);
  visit({"version", "version of Troupe"}, r.version);
  visit({"verb", "the verb that ran; empty if none was understood"}, r.verb);
  visit({"status",
         "done, planned (--dry-run), stopped, failed, or cancelled: the job "
         "was (exit code 9), or some images were and the others are done (7)"},
        r.status);
  visit({"exit_code", "exit code of the process: troupe help exit-codes"},
        r.exit_code);
}

/// What follows in the JSON of `sample`.
void visit_fields(auto& visit, AnyConst<RunSummary> auto& r) {
  visit({"method", "parallel method"}, r.method);
  visit({"sampler", "sampler as --sampler names it"}, r.sampler);
  visit({"steps", "denoising steps"}, r.steps);
  visit({"guidance", "classifier-free guidance; 1: none"}, r.guidance);
  visit({"nfe", "network calls of all images"}, r.nfe);
  visit({"rounds", "network calls that had to follow one another"}, r.rounds);
  visit({"reused", "of nfe: calls of +cache that ran the first block alone"},
        r.reused);
  visit({"workers", "workers of the company"}, r.workers);
  visit({"threads", "threads of each CPU worker, or of each of its shards"},
        r.threads);
  visit({"shards", "that compute each picture of a worker together"}, r.shards);
  visit({"dtype", "f32, bf16, f16; several with commas"}, r.dtype);
  visit({"wall_seconds", "from the first task to the last file"},
        r.wall_seconds);
  visit({"encode_seconds", "reading text encoders and encoding prompts"},
        r.encode_seconds);
  visit({"load_seconds", "reading and packing the weights"}, r.load_seconds);
  visit({"compute_seconds", "busy time, summed over workers"},
        r.compute_seconds);
  visit({"images_per_second", "images made by the time they took"},
        r.images_per_second);
  visit({"peak_memory_bytes", "most memory of the process"},
        r.peak_memory_bytes);
  visit({"bytes_sent", "tensor bytes sent to other processes"}, r.bytes_sent);
  visit({"bytes_received", "tensor bytes fetched from other processes"},
        r.bytes_received);
  visit({"recoveries", "losses that the job survived"}, r.recoveries);
  visit({"devices", "devices that worked"}, r.devices);
  visit({"nodes", "this process, and those that joined (--listen)"}, r.nodes);
  visit({"execution_class",
         "16 hexadecimal digits of the weights, the build and its libraries, "
         "the instructions or GPU, the type and the method's plan, which all "
         "exact methods share; mixed: see the images"},
        r.execution_class);
  visit(if_any({"cancelled_by",
                "who cancelled the job: user, host and process, as they say "
                "themselves, and the address that they called from; absent "
                "otherwise"}),
        r.cancelled_by);
  visit(if_any({"latents_xxh3",
                "XXH3-64 of the final latents' bytes in index order; absent if "
                "not all are known"}),
        r.latents_xxh3);
  visit(if_any({"bits", "of GPUs: invariant or free, +tf32; absent on CPUs"}),
        r.bits);
  visit(if_any({"cut", "chain or onion; absent where the network is whole"}),
        r.cut);
  visit(if_any({"encoder_device",
                "cpu or cuda: what encoded prompts; absent where nothing did"}),
        r.encoder_device);
  visit({"images", "one per image, by index"}, r.images);
  visit({"notes", "what the user should know"}, r.notes);
  visit({"plan", "what --dry-run foresees; absent otherwise"}, r.plan);
}

inline constexpr FieldKey kErrorKey = {
    "error", "why it failed or stopped; absent on success"};

void visit_fields(auto& visit, AnyConst<Error> auto& r) {
  visit({"code", "kind of error: troupe help exit-codes"}, to_string(r.code()));
  visit({"where", "option, file or part that it is about"}, r.place());
  visit({"message", "what is wrong: got X, expected Y"}, r.message());
  visit({"hint", "what to do; may be empty"}, r.hint());
  visit({"retryable", "the same command may succeed later without a change"},
        is_retryable(r.code()));
}

/// What the JSON of every verb begins with: visit_envelope.
[[nodiscard]] nlohmann::ordered_json envelope(const RunSummary& summary);

/// One JSON object on one line, keys as in design §8.
[[nodiscard]] std::string to_json(const RunSummary& summary);

/// A run that failed or was stopped: status, exit_code and
/// error{code where message hint retryable} beside what is known, which is the
/// whole summary of `sample` and the envelope of other verbs.
[[nodiscard]] std::string failure_json(RunSummary summary, const Error& error);

/// "troupe: [place] message. hint", on one line whatever the parts hold.
[[nodiscard]] std::string one_line(const Error& error);

/// Prints `line` and a line's end. Unlike fmt::print it does not throw if the
/// reader has gone: the run goes on.
void say(std::FILE* to, const std::string& line);

/// JSON on one line; bytes that are not UTF-8, such as a path may hold, are
/// replaced.
[[nodiscard]] std::string dump(const nlohmann::ordered_json& json);

}  // namespace troupe::actors
