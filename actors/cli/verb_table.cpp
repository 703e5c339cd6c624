// A table file: one row per verb.
#include <algorithm>
#include <array>

#include "actors/cli/command_line.h"
#include "config/enum_names.h"

namespace troupe::actors {
namespace {

using config::Verb;

constexpr std::array kVerbs = {
    VerbInfo{Verb::sample, run_sample, "make images with a company of workers",
             "(--model DIR | --random-weights NAME) [options]",
             "  troupe sample -m DIR -p 'a lighthouse in a storm' -o "
             "lighthouse.png\n"
             "  troupe sample -m DIR --prompt-file prompts.txt -n 4 -o out\n"
             "  troupe sample -m DIR --class 207 -o dog.png\n"
             "  troupe sample -m DIR -c 207,360 -n 16 -o out --grid grid.png\n"
             "  troupe sample -m DIR -n 64:128 --exists skip -o "
             "'out-{index:05}.png'\n"
             "  troupe sample -m DIR -c 207 --method cfg -o fast.png\n"
             "  troupe sample -m DIR -c 207 -o - | display -\n"
             "  troupe sample --random-weights dit-xl-2-256 --dry-run\n"
             "  troupe sample -m DIR --from dog.png -o again.png\n"},
    VerbInfo{
        Verb::schedule, run_schedule,
        "print or draw the timesteps and noise levels of a sampler",
        "[options]",
        "  troupe schedule --sampler dpm++2m --karras --steps 20\n"
        "  troupe schedule --model DIR --steps 50 --plot schedule.svg\n"
        "  troupe schedule --sampler ddim --sampler dpm++2m --plot both.svg"
        "\n"},
    VerbInfo{Verb::inspect, run_inspect,
             "say what a checkpoint folder, tensor file or image holds",
             "PATH… [options]",
             "  troupe inspect DIR\n"
             "  troupe inspect sd15\n"
             "  troupe inspect model.safetensors\n"
             "  troupe inspect dog.png --json\n",
             true},
    VerbInfo{Verb::verify, run_verify,
             "run an image's recipe again, or compare two files, byte for byte",
             "FILE… [--model DIR] [--against FILE]",
             "  troupe verify dog.png --model DIR\n"
             "  troupe verify a.safetensors --against b.safetensors\n",
             true},
    VerbInfo{
        Verb::bench, run_bench,
        "measure a parallel method, or all of them, against one worker",
        "[methods] (--model DIR | --random-weights NAME) [options]",
        "  troupe bench -m DIR --method batch -n 4 --workers 2\n"
        "  troupe bench -m DIR --method batch,cfg,picard -n 2 --workers 2\n"
        "  troupe bench -m DIR --method stale --segments 2 --steps 50\n"
        "  troupe bench methods -m DIR --workers 2 --out report\n"
        "  troupe bench methods -m DIR --emulate 4 --steps 20,50\n",
        true},
    VerbInfo{Verb::doctor, run_doctor,
             "say what this machine and build have, and what is missing", "",
             "  troupe doctor\n"},
    VerbInfo{Verb::keys, run_keys, "make keys for links between machines",
             "(new | worker --from FILE) --out FILE",
             "  troupe keys new --out company.key\n"
             "  troupe keys worker --from company.key --out node.key\n",
             true},
    VerbInfo{Verb::worker, run_worker,
             "compute for a job that listens on this or another machine",
             "--join ADDR (--model DIR | --model-root DIR) [options]",
             "  troupe worker --join tcp://10.0.0.1:7010 --secret-file "
             "node.key \\\n"
             "    --model-root models\n"
             "  troupe worker --join ipc:///tmp/company/a -m models/demo "
             "--threads 2\n"},
    VerbInfo{Verb::ls, run_ls,
             "show how a job that listens stands, and who computes for it",
             "ADDR [--follow] [options]",
             "  troupe ls tcp://10.0.0.1:7010 --secret-file node.key --follow\n"
             "  troupe ls ipc:///tmp/company/a --json\n",
             true},
    VerbInfo{Verb::cancel, run_cancel,
             "stop a job that listens, or one of its images",
             "ADDR [--sample N] [options]",
             "  troupe cancel tcp://10.0.0.1:7010 --secret-file company.key\n"
             "  troupe cancel ipc:///tmp/company/a --sample 7\n",
             true},
    VerbInfo{Verb::encode, run_encode,
             "make a file of encoded prompts for troupe sample",
             "--model DIR (--prompt TEXT | --prompt-file FILE) --out FILE",
             "  troupe encode -m DIR -p 'a lighthouse in a storm' -o "
             "lighthouse.safetensors\n"
             "  troupe encode -m DIR --prompt-file prompts.txt -o "
             "prompts.safetensors\n"},
};

}  // namespace

std::span<const VerbInfo> verb_table() { return kVerbs; }

const VerbInfo* find_verb(std::string_view word) {
  const auto* found = std::ranges::find_if(kVerbs, [&](const VerbInfo& info) {
    return word == config::name_of(info.verb);
  });
  return found == kVerbs.end() ? nullptr : found;
}

}  // namespace troupe::actors
