// libFuzzer target: a checkpoint's folder in which one JSON file is any text.
// It is opened and described as a run does before it reads weights. An input is
// the file's path, a line feed, and its text. Built and run by
// scripts/fuzz_configs.sh.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "config/sampling_defaults.h"
#include "config/scheduler_config.h"
#include "kernels/core/error.h"
#include "models/description.h"
#include "models/files/checkpoint.h"
#include "models/text/text_encoder.h"
#include "samplers/schedule.h"
#include "tests/core/allocation_guard.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size,
                                        std::size_t max_size);

namespace {

namespace fs = std::filesystem;
using troupe::DType;
using troupe::Error;
using troupe::models::Checkpoint;

/// What one folder may make us hold at once. The tensors' names of the deepest
/// network that is allowed are the most of it.
constexpr std::size_t kMost = std::size_t{64} << 20U;

/// A copy of those of tests/golden's folders that have configurations.
class Folders {
 public:
  Folders() {
    const fs::path golden = TROUPE_GOLDEN_DIR;
    for (const char* name :
         {"pipeline_pixart", "pipeline_sd15", "pipeline_sdxl", "dit_unusual"}) {
      fs::copy(golden / name, root_ / name, fs::copy_options::recursive);
    }
    fs::copy(golden / "../../models/demo/sampling.json", root_ / "dit_unusual");
    for (const auto& item : fs::recursive_directory_iterator(root_)) {
      if (item.path().extension() == ".safetensors") {
        // Without tensors: reading their names takes longer than all
        // configurations, and a description needs none.
        write(fs::relative(item.path(), root_),
              std::string("\2\0\0\0\0\0\0\0{}", 10));
      } else if (item.path().extension() == ".json") {
        std::ifstream in(item.path());
        texts_[fs::relative(item.path(), root_)] = {
            std::istreambuf_iterator<char>(in), {}};
      }
    }
  }
  ~Folders() { fs::remove_all(root_); }
  Folders(const Folders&) = delete;
  Folders& operator=(const Folders&) = delete;

  [[nodiscard]] const fs::path& root() const noexcept { return root_; }
  [[nodiscard]] bool has(const std::string& file) const {
    return texts_.contains(file);
  }
  void write(const std::string& file, std::string_view text) const {
    std::ofstream(root_ / file, std::ios::trunc) << text;
  }
  void restore(const std::string& file) const { write(file, texts_.at(file)); }

 private:
  static fs::path make_root() {
    std::string name = fs::temp_directory_path() / "fuzz_configs.XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) {
      std::abort();
    }
    return name;
  }
  fs::path root_ = make_root();
  std::map<std::string, std::string> texts_;
};

const Folders& folders() {
  static const Folders once;
  return once;
}

void ask(const troupe::models::DenoiserDescription& network) {
  const troupe::Shape latents = network.latent_shape();
  for (const DType dtype : {DType::f32, DType::bf16}) {
    (void)network.info(latents, dtype);
    (void)network.memory(latents, dtype);
  }
  (void)network.info(network.nearest_latents({4, 7, 9}), DType::f32);
  (void)network.facts();
  (void)network.tensors();
  (void)network.with_blocks(1);
}

void ask(const troupe::models::DecoderDescription& decoder,
         const troupe::Shape& latents) {
  const std::int64_t tile = decoder.tile_side();
  (void)decoder.pixel_shape(latents);
  (void)decoder.costs(latents, DType::f32);
  (void)decoder.costs(latents, DType::bf16, tile);
  (void)decoder.weights_bytes(DType::bf16);
}

void ask(const troupe::models::Component& files) {
  const auto encoder =
      troupe::models::find_text_encoder(files.config, files.class_name)
          .describe(files.config);
  (void)check_class_tensors(files.weights, files.folder.string(),
                            files.class_name, encoder->tensors());
  (void)encoder->costs(encoder->max_tokens(), troupe::DType::bf16,
                       troupe::DeviceKind::cpu);
}

/// Whatever is wrong with the folder is an Error.
template <class F>
void attempt(const F& what) {
  try {
    what();
  } catch (const Error&) {
  }
}

/// `file`: the part to which the hostile file belongs is asked what a run asks.
void describe(const fs::path& folder, const std::string& file) {
  const auto concerns = [&](std::string_view part) {
    return file.find(part) != std::string::npos;
  };
  attempt([&] { (void)troupe::config::read_sampling_defaults(folder); });
  const Checkpoint checkpoint = troupe::models::open_checkpoint(folder);
  attempt([&] {
    std::vector<std::string> notes;
    const auto model = troupe::models::describe_model(checkpoint, notes);
    if (!concerns("vae") && !concerns("text_encoder")) {
      ask(*model.denoiser);
    }
    if (model.decoder && concerns("vae")) {
      ask(*model.decoder, model.denoiser->latent_shape());
    }
  });
  for (const auto& [name, part] : checkpoint.text_encoders) {
    if (concerns(name) || concerns("model_index")) {
      attempt([&, &one = *part] { ask(one); });
    }
  }
  if (!checkpoint.scheduler_config.empty()) {
    const auto options = troupe::config::parse_scheduler_config(
        checkpoint.scheduler_config, "scheduler_config.json");
    (void)troupe::samplers::Schedule(options);
  }
}

/// Where a JSON value begins and ends, roughly: from behind a ':', ',' or '['
/// to the next ',', '}' or ']'.
struct Value {
  std::size_t begin = 0;
  std::size_t end = 0;
};
std::vector<Value> values_of(std::string_view text, std::size_t from) {
  std::vector<Value> values;
  for (std::size_t i = from; i < text.size(); ++i) {
    if (std::string_view(":,[").find(text[i]) != std::string_view::npos) {
      const std::size_t end = text.find_first_of(",}]", i + 1);
      if (end == std::string_view::npos) {
        break;
      }
      values.push_back({i + 1, end});
    }
  }
  return values;
}

std::string new_value(std::string_view text, const std::vector<Value>& values,
                      std::minstd_rand& random) {
  static constexpr std::array<std::string_view, 34> kValues = {
      "0",
      "1",
      "2",
      "3",
      "8",
      "16",
      "64",
      "77",
      "1000",
      "4096",
      "-1",
      "0.5",
      "1e-6",
      "1e-320",
      "1e30",
      "-1e30",
      "1e999",
      "65536",
      "2147483647",
      "2147483648",
      "4294967296",
      "9223372036854775807",
      "9223372036854775808",
      "null",
      "true",
      "false",
      "[]",
      "[1]",
      "[8, 16]",
      "{}",
      "\"\"",
      "\"silu\"",
      "\"geglu\"",
      "\"v_prediction\""};
  const std::size_t choice = random() % (2 * kValues.size());
  if (choice < kValues.size()) {
    return std::string(kValues[choice]);
  }
  const Value& other = values[random() % values.size()];
  return std::string(text.substr(other.begin, other.end - other.begin));
}

}  // namespace

/// Half of the time another value instead of one of the file's, or no such key.
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data,
                                               std::size_t size,
                                               std::size_t max_size,
                                               unsigned int seed) {
  std::minstd_rand random(seed);
  std::string text(reinterpret_cast<const char*>(data), size);
  const std::size_t line = text.find('\n');
  if (line == std::string::npos || random() % 2 == 0) {
    return LLVMFuzzerMutate(data, size, max_size);
  }
  const std::vector<Value> values = values_of(text, line + 1);
  if (values.empty()) {
    return LLVMFuzzerMutate(data, size, max_size);
  }
  const Value& old = values[random() % values.size()];
  std::size_t begin = old.begin;
  std::string value;
  if (random() % 8 == 0) {
    begin = text.find_last_of(",{\n", begin);
  } else {
    value = new_value(text, values, random);
  }
  text.replace(begin, old.end - begin, value);
  text.resize(std::min(text.size(), max_size));
  std::ranges::copy(text, data);
  return text.size();
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t line = input.find('\n');
  if (line == std::string_view::npos) {
    return -1;
  }
  const std::string file(input.substr(0, line));
  if (!folders().has(file)) {
    return -1;
  }
  folders().write(file, input.substr(line + 1));
  {
    const troupe::AllocationGuard guard(kMost);
    attempt([&] {
      describe(folders().root() / file.substr(0, file.find('/')), file);
    });
  }
  folders().restore(file);
  return 0;
}
