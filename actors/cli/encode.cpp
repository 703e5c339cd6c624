#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "actors/cli/embeds_file.h"
#include "actors/cli/encoder_device.h"
#include "actors/cli/execution_class.h"
#include "actors/cli/job_devices.h"
#include "actors/cli/job_encoding.h"
#include "actors/cli/job_prompts.h"
#include "actors/cli/json_fields.h"
#include "actors/cli/json_rows.h"
#include "actors/cli/notes.h"
#include "actors/cli/tensor_file.h"
#include "actors/cli/verbs.h"
#include "config/enum_names.h"
#include "kernels/core/system/machine.h"
#include "kernels/core/text.h"
#include "kernels/linear.h"

namespace troupe::actors {
namespace {

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

/// Errors: Errc::out_of_memory where not even the CPU has room; those of
/// choose_devices and choose_encoder_device.
JobDevice device_for(const config::Config& config, const JobPrompts& prompts,
                     std::vector<std::string>& notes) {
  const std::optional<DType> asked = asked_dtype(config);
  require(asked != DType::f16, Errc::unsupported, config.place_of("dtype"),
          "text encoders do not compute in f16, which large ones overflow",
          "give --dtype f32 or bf16");
  const Gpus gpus;
  const bool can_on_cpu = asked && kernels::supports(*asked);
  EncoderDevices devices{.on_cpu = can_on_cpu ? *asked : automatic_dtype()};
  for (JobDevice& one : choose_devices(config, nullptr, gpus.found, notes)) {
    if (one.is_gpu()) {
      devices.gpus.push_back(std::move(one));
    }
  }
  EncoderDevice chosen = choose_encoder_device(
      devices, gpus,
      [&](const JobDevice& by) { return prompts.source->memory(by); }, notes);
  // All of them are joined for the file.
  const std::uint64_t bytes = prompts.num_bytes();
  chosen.memory.add_prompts(TensorStore::bytes_in_memory(bytes) + bytes);
  check_encoder_memory(chosen.memory, chosen.device.compute == DType::f32
                                          ? "use --dtype bf16"
                                          : "free some memory");
  return std::move(chosen.device);
}

struct EncodedPrompt {
  std::string prompt;
  std::vector<std::int64_t> tokens;
  std::vector<std::int64_t> cut;
};

void visit_fields(auto& visit, AnyConst<EncodedPrompt> auto& r) {
  visit({"prompt", "as it was written"}, r.prompt);
  visit({"tokens", "of each encoder"}, r.tokens);
  visit({"cut", "tokens that did not fit"}, r.cut);
}

struct EncodedFile {
  std::string path;
  std::vector<EncodedPrompt> prompts;
  DeviceKind device = DeviceKind::cpu;
  DType dtype = DType::f32;
  double encode_seconds = 0;
  std::string encoder_class;
  std::uint64_t peak_memory_bytes = 0;
  std::vector<std::string> notes;
};

void visit_fields(auto& visit, AnyConst<EncodedFile> auto& r) {
  visit({"path", "the file"}, r.path);
  visit({"prompts", "in the order of the file"}, r.prompts);
  visit({"device", "cpu or cuda: what encoded"}, r.device);
  visit({"dtype", "f32 or bf16: what products were computed in"}, r.dtype);
  visit({"encode_seconds", "reading encoders and encoding"}, r.encode_seconds);
  visit({"encoder_class", "what computed, 16 hexadecimal digits"},
        r.encoder_class);
  visit({"peak_memory_bytes", "most memory of the process"},
        r.peak_memory_bytes);
  visit({"notes", "what the user should know"}, r.notes);
}

std::vector<EncodedPrompt> encoded(const JobPrompts& prompts) {
  std::vector<EncodedPrompt> list;
  for (std::size_t i = 0; i < prompts.texts.size(); ++i) {
    EncodedPrompt& one = list.emplace_back();
    one.prompt = prompts.texts[i];
    for (const models::Tokens& tokens : prompts.tokens[i]) {
      one.tokens.push_back(tokens.length);
      one.cut.push_back(tokens.cut);
    }
  }
  return list;
}

}  // namespace

std::vector<JsonField> encode_json_fields() {
  return json_rows_of<EncodedFile>();
}

int run_encode(Invocation& invocation) {
  const config::Config& config = invocation.config;
  check_out(config);
  read_prompt_files(invocation.config);
  require(!config.prompts.empty(), Errc::invalid_argument, "--prompt",
          "nothing to encode", "give --prompt TEXT or --prompt-file FILE");
  const ModelSource source = ModelSource::open(config);
  std::vector<std::string> notes;
  const JobPrompts prompts = read_prompts(config, source, /*is_guided=*/true,
                                          notes, PromptUse::a_file);
  const JobDevice by = device_for(config, prompts, notes);
  print_notes(notes);
  StopFlag& stop = invocation.stop.emplace(*invocation.signals);
  const JobConditions conditions =
      encode(prompts, by, stop, [](models::Condition&, bool) {});
  const bool has_masks = std::ranges::any_of(
      prompts.source->pipeline().encoders, &models::PromptEncoder::is_masked);
  write_tensors(config.out, embeds_of(conditions, has_masks),
                config.exists == config::ExistsPolicy::replace
                    ? IfThere::replace
                    : IfThere::refuse);
  const EncodedBy& made_by = conditions.encoded_by;
  invocation.take_last_word();
  if (config.json) {
    const EncodedFile made = {config.out,
                              encoded(prompts),
                              made_by.device,
                              made_by.dtype,
                              conditions.encode_seconds,
                              made_by.execution_class,
                              peak_rss_bytes(),
                              notes};
    fmt::print("{}\n", dump(document(invocation.summary, made)));
  } else if (!config.quiet) {
    fmt::print("{} in {:.2f} s → {}; {} on {}, class {}\n",
               counted(prompts.texts.size(), "prompt"),
               conditions.encode_seconds, config.out, to_string(made_by.dtype),
               config::name_of(made_by.device), made_by.execution_class);
  }
  return 0;
}

}  // namespace troupe::actors
