// A table file: one row per option.
#include <array>

#include "config/option_rows.h"

namespace troupe::config::rows {
namespace {

Field sample_field() {
  return parsed(&Config::cancels, [](Text place, Text text) {
    return std::optional(parse_seed(place, text));
  });
}

}  // namespace

std::span<const Option> machine_rows() {
  static const auto kTable = std::to_array<Option>({
      {"listen", "", 0, "ADDR",
       "let workers of other processes and machines into this job: "
       "tcp://HOST:PORT (port 0: any) or ipc:///PATH",
       kMachines, often(kSample), field(&Config::listen), "none"},
      {"wait-workers", "", 0, "N|TIME",
       "before the job begins, wait for N processes of troupe worker, for so "
       "long (30s, 5m), or 4,30s: for 4, and 30 s at most. --method auto "
       "counts those that are there then",
       kMachines, kSample,
       parsed(&Config::wait_workers,
              [](Text place, Text text) {
                return std::optional(parse_wait_workers(place, text));
              }),
       "none"},
      {"on-class-change", "", 0, "MODE",
       "when the last worker of an image's execution class has gone and "
       "another class is there: begin-anew (the image's class is in the "
       "summary), wait for a worker of its class, or refuse (the image fails)",
       kMachines, kSample, field(&Config::on_class_change)},
      {"max-losses", "", 0, "N",
       "an image is given up when one of its tasks has ended so many workers "
       "while it ran alone; 0: never. Only the end of a process, or a pass "
       "that hangs, counts",
       kMachines, kSample, whole(&Config::max_losses, 0)},
      {"encode-on", "", 0, "WHERE",
       "which process encodes the prompts: here, workers (one of those that "
       "come to --listen), or auto: a worker where the text encoders do not "
       "fit here and the job listens",
       kMachines, kSample, field(&Config::encode_on)},
      {"join", "", 0, "ADDR", "work for the job that listens there", kMachines,
       kWorker, field(&Config::join), "none"},
      {"secret-file", "", 0, "FILE",
       by_verb({{kWorker | kLs,
                 "the company's key, or a node file made from it (troupe "
                 "keys); without one only this machine is reached"},
                {kSample | kCancel,
                 "the company's key (troupe keys new); without one only this "
                 "machine is reached"}}),
       kMachines, often(kSample) | kWorker | kLs | kCancel,
       field(&Config::secret_file), "none"},
      {"model-root", "", 0, "DIR",
       "the folder of model folders: the job's model is looked for there by "
       "its name",
       kMachines, kWorker, field(&Config::model_root), "none"},
      {"cache", "", 0, "DIR",
       by_verb({{kSample | kBench,
                 "keep here what a later run can use: encoded prompts, and how "
                 "fast workers were, by which the next job divides its work"},
                {kWorker,
                 "keep models here: if there is neither --model nor a folder "
                 "of that name in --model-root, the job's first process and "
                 "other workers give the model"},
                {kRuns | kEncode, "keep encoded prompts here for later runs"}}),
       kMachines, kRuns | kEncode | kWorker, field(&Config::cache), "none"},
      {"wait", "", 0, "TIME",
       "how long to look for a job, and for it again when the link is lost: "
       "seconds, or with a unit (90s, 5m, 1h)",
       kMachines, kWorker, seconds(&Config::wait_seconds, 0, 1e7)},
      {"stay", "", 0, "", "wait for the next job when one is over", kMachines,
       kWorker, field(&Config::stay)},
      {"bind", "", 0, "ADDR",
       "let other workers of the job ask this one for values: tcp://HOST:PORT "
       "or ipc:///PATH",
       kMachines, kWorker, field(&Config::bind),
       "as --join: a free port, or a socket of its own"},
      {"advertise", "", 0, "ADDR",
       "what other workers dial instead of --bind, as behind NAT (port 0: the "
       "one of --bind)",
       kMachines, kWorker, field(&Config::advertise), "as --bind"},
      {"no-peer", "", 0, "",
       "exchange values through the coordinator only, and get the model from "
       "the first process alone: neither listen for other workers nor dial "
       "them",
       kMachines, kWorker, field(&Config::no_peer)},
      {"metrics", "", 0, "ADDR",
       "while the job runs, its figures for Prometheus at http://ADDR/metrics: "
       "PORT (this machine only) or HOST:PORT (port 0: any)",
       kMachines, kSample, field(&Config::metrics), "none"},
      {"follow", "", 'f', "", "look again every second until the job is over",
       kMachines, kLs, field(&Config::follow)},
      {"sample", "", 0, "N", "only the image with this global index", kMachines,
       kCancel, sample_field(), "none: the whole job"},
  });
  return kTable;
}

}  // namespace troupe::config::rows
