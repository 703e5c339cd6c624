#include "actors/cli/job_prompts.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <tuple>
#include <utility>

#include "actors/cli/embeds_file.h"
#include "actors/cli/notes.h"
#include "config/option_table.h"
#include "config/recipe_fields.h"
#include "kernels/core/error.h"
#include "kernels/core/pool.h"
#include "kernels/core/system/atomic_file.h"
#include "kernels/core/system/machine.h"
#include "kernels/core/text.h"
#include "models/text/prompt_syntax.h"
#include "models/text/unicode.h"

namespace troupe::actors {
namespace {

/// Where nothing here encodes prompts.
constexpr std::string_view kEmbedsHint =
    "give encoded prompts with --prompt-embeds FILE, as troupe encode or "
    "diffusers makes them";
constexpr std::string_view kEncoderHint =
    "give a folder with the pipeline's text encoders and tokenizers; troupe "
    "sample --prompt-embeds FILE takes what diffusers encoded";

constexpr std::size_t kLargestPromptFile = std::size_t{16} << 20U;

/// Errors: Errc::invalid_argument naming the place.
void check_text(const std::string& text, const std::string& place) {
  require(text.size() <= config::kLongestPrompt, Errc::invalid_argument, place,
          "a prompt is too long: got " + std::to_string(text.size()) +
              " bytes, expected at most " +
              std::to_string(config::kLongestPrompt));
  models::check_utf8(text, place, Errc::invalid_argument);
}

/// The lines of a file, all or those that hold more than white space.
/// Errors: those of read_stream and, naming the line, of check_text.
std::vector<std::string> lines_of(const std::string& path, bool with_blank) {
  std::string content = read_stream(path, kLargestPromptFile);
  if (content.starts_with("\xEF\xBB\xBF")) {
    content.erase(0, 3);
  }
  std::vector<std::string> lines;
  std::uint64_t number = 0;
  for (std::size_t begin = 0; begin < content.size();) {
    const std::size_t end = std::min(content.find('\n', begin), content.size());
    std::string line = content.substr(begin, end - begin);
    if (line.ends_with('\r')) {
      line.pop_back();
    }
    ++number;
    if (with_blank || !trimmed(line).empty()) {
      check_text(line, fmt::format("{}:{}", path, number));
      lines.push_back(std::move(line));
    }
    begin = end + 1;
  }
  require(!lines.empty(), Errc::invalid_argument, path, "no prompt is in it",
          "write a prompt on each line");
  return lines;
}

/// read(), whose errors of the operating system name the option in place of
/// "file". Their messages name the path.
template <typename Read>
auto at_option(const config::Config& config, const char* key,
               const Read& read) {
  try {
    return read();
  } catch (const Error& error) {
    if (error.place() != "file") {
      throw;
    }
    throw Error(error.code(), config.place_of(key), error.message(),
                error.hint());
  }
}

/// Notes which tokens of the prompts the encoders do not see: those of the
/// first prompt in words.
class CutNote {
 public:
  void look(const std::string& text, const std::string& second,
            const models::PromptPipeline& pipeline,
            const std::vector<models::Tokens>& tokens) {
    const auto cut = std::ranges::find_if(
        tokens, [](const auto& one) { return one.cut > 0; });
    if (cut != tokens.end() && count_++ == 0) {
      const auto encoder = static_cast<std::size_t>(cut - tokens.begin());
      const bool is_second =
          pipeline.encoders[encoder].text == 1 && !second.empty();
      first_ = fmt::format(
          "the prompt {} is longer than the model takes: its last {} {} left "
          "out, {}",
          in_quotes(is_second ? second : text), counted(cut->cut, "token"),
          cut->cut == 1 ? "is" : "are", in_quotes(cut->cut_text));
    }
  }
  void add_to(std::vector<std::string>& notes) const {
    if (count_ > 0) {
      add_note(notes, count_ == 1
                          ? first_
                          : fmt::format("{}; {} too long, too", first_,
                                        counted(count_ - 1, "prompt") +
                                            (count_ == 2 ? " is" : " are")));
    }
  }

 private:
  std::uint64_t count_ = 0;
  std::string first_;
};

/// Notes that prompts use the syntax of other programs. The note quotes the
/// first such prompt.
class SyntaxNote {
 public:
  void look(const std::string& text) {
    const std::string_view found = models::foreign_syntax(text);
    if (!found.empty() && count_++ == 0) {
      first_ = found;
    }
  }
  void add_to(std::vector<std::string>& notes) const {
    if (count_ > 0) {
      add_note(notes,
               fmt::format("{} {} what means something in other programs, as "
                           "{}: it is taken literally, as diffusers takes it",
                           counted(count_, "prompt"),
                           count_ == 1 ? "has" : "have", in_quotes(first_)));
    }
  }

 private:
  std::uint64_t count_ = 0;
  std::string first_;
};

void tokenize(JobPrompts& prompts, std::vector<std::string>& notes) {
  const PromptSource& source = *prompts.source;
  for (const std::string& note : source.notes()) {
    add_note(notes, note);
  }
  CutNote cut;
  SyntaxNote syntax;
  for (const std::string& text : prompts.texts) {
    prompts.tokens.push_back(source.tokens(text, prompts.second));
    cut.look(text, prompts.second, source.pipeline(), prompts.tokens.back());
    syntax.look(text);
    if (source.pipeline().cleaned(text) != text) {
      add_note(notes, std::string(source.pipeline().note));
    }
  }
  syntax.look(prompts.second);
  for (const std::string& text : prompts.negative_texts()) {
    prompts.tokens.push_back(source.tokens(text, prompts.negative_second));
    cut.look(text, prompts.negative_second, source.pipeline(),
             prompts.tokens.back());
    syntax.look(text);
    syntax.look(prompts.negative_second);
  }
  syntax.add_to(notes);
  cut.add_to(notes);
}

/// Errors: Errc::invalid_argument for a model that takes classes.
void refuse_prompts(const config::Config& config, PromptUse use) {
  for (const char* key :
       {"prompt", "prompt-2", "prompt-file", "prompt-embeds", "negative-prompt",
        "negative-prompt-file", "negative-prompt-2"}) {
    // A file's lines are prompts as well, and an empty prompt is one.
    const bool is_given =
        key == std::string_view("prompt")
            ? !config.prompts.empty() && config.prompt_file.empty()
        : key == std::string_view("negative-prompt")
            ? !config.negative_prompts.empty() &&
                  config.negative_prompt_file.empty()
            : !config::find_option(key)->get(config).empty();
    require(!is_given, Errc::invalid_argument, config.place_of(key),
            "the model takes classes and no prompts",
            use == PromptUse::pictures
                ? "say with --class what the pictures show"
                : "give a model that takes prompts");
  }
  for (const auto& [key, value] :
       {std::pair("clip-skip", config.clip_skip),
        std::pair("max-sequence-length", config.max_sequence_length)}) {
    require(value == 0, Errc::invalid_argument, config.place_of(key),
            "the model takes classes and no prompts", "leave it out");
  }
}

void note_encoders(const ModelSource& source, std::vector<std::string>& notes) {
  if (source.checkpoint()) {
    for (const auto& [name, encoder] : source.checkpoint()->text_encoders) {
      note_weight_files(*encoder, notes);
    }
  }
}

/// What the encoders are asked for, before they are read.
/// Errors: Errc::invalid_argument.
void check_texts(const config::Config& config, const JobPrompts& prompts) {
  const models::PromptPipeline& pipeline = prompts.source->pipeline();
  for (const std::string& text : config.prompts) {  // a file's are checked
    check_text(text, config.place_of("prompt"));
  }
  for (const std::string& text : config.negative_prompts) {  // likewise
    check_text(text, config.place_of("negative-prompt"));
  }
  const std::size_t negatives = prompts.negatives.size();
  require(negatives <= 1 || negatives == prompts.texts.size(),
          Errc::invalid_argument,
          config.place_of(config.negative_prompt_file.empty()
                              ? "negative-prompt"
                              : "negative-prompt-file"),
          fmt::format("got {} beside {}, expected one for all, or one for each",
                      counted(negatives, "negative prompt"),
                      counted(prompts.texts.size(), "prompt")));
  for (const auto& [key, text, first] :
       {std::tuple("prompt-2", &prompts.second, "--prompt"),
        std::tuple("negative-prompt-2", &prompts.negative_second,
                   "--negative-prompt")}) {
    check_text(*text, config.place_of(key));
    require(text->empty() || pipeline.num_texts() > 1, Errc::invalid_argument,
            config.place_of(key),
            "the pipeline has one text for a prompt: " +
                std::string(pipeline.class_name),
            std::string("put all of it into ") + first);
  }
  require(prompts.max_sequence_length == 0 || pipeline.takes_max_length,
          Errc::invalid_argument, config.place_of("max-sequence-length"),
          "the pipeline always takes as many tokens: " +
              std::string(pipeline.class_name),
          "leave it out");
  if (prompts.clip_skip == 0) {
    return;
  }
  const std::string place = config.place_of("clip-skip");
  require(pipeline.takes_clip_skip, Errc::invalid_argument, place,
          "the pipeline takes prompts from the last layer: " +
              std::string(pipeline.class_name),
          "leave it out");
  const std::int64_t most = prompts.source->most_clip_skip();
  require(prompts.clip_skip <= most, Errc::invalid_argument, place,
          fmt::format("the text encoders have no such layer: got {}, expected "
                      "at most {}",
                      prompts.clip_skip, most));
}

/// Of random numbers in a prompt's place. What the user does not say is that of
/// a picture of the trained size with eight pixels for a latent: recipes of
/// before have it.
models::Condition random_condition(const ModelSource& source,
                                   bool is_negative) {
  const config::SizeConfig& told = source.told(is_negative);
  const std::int64_t side = 8 * source.denoiser().latent_shape()[1];
  models::PictureIds ids = source.ids(is_negative);
  if (!told.original) {
    ids.original_height = ids.original_width = side;
  }
  if (!told.target) {
    ids.target_height = ids.target_width = side;
  }
  return source.denoiser().any_condition(ids);
}

}  // namespace

void read_prompt_files(config::Config& config) {
  const auto read = [&](const char* key, const std::string& file,
                        std::vector<std::string>& texts, bool with_blank) {
    if (!file.empty() && texts.empty()) {
      texts =
          at_option(config, key, [&] { return lines_of(file, with_blank); });
    }
  };
  require(config.prompt_file != "-" || config.negative_prompt_file != "-",
          Errc::invalid_argument, config.place_of("negative-prompt-file"),
          "standard input is read for --prompt-file",
          "write one of both into a file");
  read("prompt-file", config.prompt_file, config.prompts, false);
  read("negative-prompt-file", config.negative_prompt_file,
       config.negative_prompts, true);
}

JobPrompts read_prompts(const config::Config& config, const ModelSource& source,
                        bool is_guided, std::vector<std::string>& notes,
                        PromptUse use) {
  JobPrompts prompts;
  if (!source.takes_prompts()) {
    refuse_prompts(config, use);
    return prompts;
  }
  if (!config.prompt_embeds.empty()) {
    JobConditions read = at_option(config, "prompt-embeds", [&] {
      return read_embeds(config.prompt_embeds, source, is_guided);
    });
    prompts.given = std::move(read.each);
    prompts.given_negative = std::move(read.unconditional);
    return prompts;
  }
  prompts.texts = config.prompts;
  require(!prompts.texts.empty() || config.prompt_2.empty(),
          Errc::invalid_argument, config.place_of("prompt-2"),
          "there is no first text beside it", "give --prompt, too");
  prompts.negatives = config.negative_prompts;
  require(!prompts.negatives.empty() || config.negative_prompt_2.empty(),
          Errc::invalid_argument, config.place_of("negative-prompt-2"),
          "there is no first text beside it",
          "give --negative-prompt, too, which may be \"\"");
  if (prompts.texts.empty() && source.is_random()) {
    prompts.given = {random_condition(source, false)};
    if (is_guided) {
      prompts.given_negative = {random_condition(source, true)};
    }
    add_note(notes, "no --prompt given: random numbers stand in its place");
    return prompts;
  }
  require(
      !prompts.texts.empty(), Errc::invalid_argument, "--prompt",
      "the model needs a prompt",
      "say with --prompt TEXT or --prompt-file FILE what the pictures show");
  prompts.is_guided = is_guided;
  prompts.cache = config.cache;
  prompts.second = config.prompt_2;
  prompts.negative_second = config.negative_prompt_2;
  prompts.clip_skip = config.clip_skip;
  prompts.max_sequence_length = config.max_sequence_length;
  prompts.source = std::make_shared<const PromptSource>(
      source, use == PromptUse::pictures ? kEmbedsHint : kEncoderHint,
      config.max_sequence_length);
  check_texts(config, prompts);
  note_encoders(source, notes);
  tokenize(prompts, notes);
  return prompts;
}

std::vector<std::string> JobPrompts::negative_texts() const {
  if (!is_guided) {
    return {};
  }
  return negatives.empty() && !source->has_no_negative()
             ? std::vector<std::string>{""}
             : negatives;
}

std::size_t JobPrompts::num_wanted() const {
  const auto end = tokens.begin() + static_cast<std::ptrdiff_t>(
                                        std::min(tokens.size(), texts.size()));
  return static_cast<std::size_t>(std::count_if(
      tokens.begin(), end, [](const auto& one) { return !one.empty(); }));
}

std::uint64_t JobPrompts::num_bytes() const {
  return source == nullptr
             ? 0
             : source->num_bytes(source->texts_of(tokens, clip_skips()));
}

void JobPrompts::keep_wanted(const config::SampleRange& samples,
                             std::span<const std::uint64_t> skipped) {
  if (source == nullptr) {
    return;
  }
  const std::set<std::uint64_t> left_out(skipped.begin(), skipped.end());
  const std::size_t others = tokens.size() - texts.size();
  std::vector<bool> is_wanted(tokens.size());
  for (std::uint64_t i = samples.begin; i < samples.end; ++i) {
    if (!left_out.contains(i)) {
      is_wanted[i % texts.size()] = true;
      if (others > 0) {
        is_wanted[texts.size() + i % others] = true;
      }
    }
  }
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (!is_wanted[i]) {
      tokens[i] = {};
    }
  }
}

}  // namespace troupe::actors
