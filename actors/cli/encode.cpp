#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "actors/artefacts/summary.h"
#include "actors/cli/embeds_file.h"
#include "actors/cli/execution_class.h"
#include "actors/cli/job_devices.h"
#include "actors/cli/job_prompts.h"
#include "actors/cli/notes.h"
#include "actors/cli/tensor_file.h"
#include "actors/cli/verbs.h"
#include "kernels/core/system.h"
#include "kernels/core/text.h"

namespace troupe::actors {
namespace {

using Json = nlohmann::ordered_json;

/// Errors: Errc::invalid_argument for a file that cannot be written.
void check_out(const config::Config& config) {
  require(!config.out.empty(), Errc::invalid_argument, "--out",
          "missing: the file to write", "give --out FILE.safetensors");
  check_tensor_path(config.place_of("out"), config.out);
  require(!config.out.ends_with(".npy"), Errc::invalid_argument,
          config.place_of("out"),
          "several tensors: got a .npy, which holds one",
          "give --out FILE.safetensors or FILE.npz");
  std::error_code error;
  require(config.exists == config::ExistsPolicy::replace ||
              !std::filesystem::exists(config.out, error),
          Errc::invalid_argument, config.place_of("out"),
          "the file is there already: " + config.out,
          "--exists replace overwrites");
}

DType dtype_of(const config::Config& config) {
  const std::optional<DType> asked = asked_dtype(config);
  require(asked != DType::f16, Errc::unsupported, config.place_of("dtype"),
          "encoders run on the CPU, which has no f16",
          "give --dtype f32 or bf16");
  return asked.value_or(automatic_dtype());
}

void check_memory(const PromptSource& source, DType compute) {
  const std::uint64_t needed = source.required_bytes(compute);
  const MemoryInfo memory = memory_info();
  require(needed <= memory.available_bytes, Errc::out_of_memory, "memory",
          "the text encoder does not fit: got " +
              human_bytes(memory.available_bytes) + " free, expected " +
              human_bytes(needed) + " (" + to_string(memory.binding()) + ")",
          compute == DType::f32 ? "use --dtype bf16" : "free some memory");
}

Json prompts_json(const JobPrompts& prompts) {
  Json list = Json::array();
  for (std::size_t i = 0; i < prompts.texts.size(); ++i) {
    Json tokens = Json::array();
    Json cut = Json::array();
    for (const models::Tokens& one : prompts.tokens[i]) {
      tokens.push_back(one.length);
      cut.push_back(one.cut);
    }
    list.push_back({{"prompt", prompts.texts[i]},
                    {"tokens", std::move(tokens)},
                    {"cut", std::move(cut)}});
  }
  return list;
}

}  // namespace

int run_encode(Invocation& invocation) {
  const config::Config& config = invocation.config;
  check_out(config);
  require(!config.prompt.empty() || !config.prompt_file.empty(),
          Errc::invalid_argument, "--prompt", "nothing to encode",
          "give --prompt TEXT or --prompt-file FILE");
  const ModelSource source = ModelSource::open(config);
  std::vector<std::string> notes;
  const JobPrompts prompts = read_prompts(config, source, /*is_guided=*/true,
                                          notes, PromptUse::a_file);
  const DType compute = dtype_of(config);
  check_memory(*prompts.source, compute);
  print_notes(notes);
  StopFlag& stop = invocation.stop.emplace(*invocation.signals);
  const JobConditions conditions = encode(prompts, compute, stop);
  const bool has_masks = std::ranges::any_of(
      prompts.source->pipeline().encoders, &models::PromptEncoder::is_masked);
  write_tensors(config.out, embeds_of(conditions, has_masks),
                config.exists == config::ExistsPolicy::replace
                    ? IfThere::replace
                    : IfThere::refuse);
  invocation.take_last_word();
  if (config.json) {
    Json json = envelope(invocation.summary);
    json.update(Json{{"path", config.out},
                     {"prompts", prompts_json(prompts)},
                     {"dtype", to_string(compute)},
                     {"encode_seconds", conditions.encode_seconds},
                     {"encoder_class", conditions.encoder_class},
                     {"peak_memory_bytes", peak_rss_bytes()},
                     {"notes", notes}});
    fmt::print("{}\n", dump(json));
  } else if (!config.quiet) {
    fmt::print("{} in {:.2f} s → {}; {}, class {}\n",
               counted(prompts.texts.size(), "prompt"),
               conditions.encode_seconds, config.out, to_string(compute),
               conditions.encoder_class);
  }
  return 0;
}

}  // namespace troupe::actors
