#include <array>
#include <string>

#include "models/text/prompt_pipeline.h"
#include "models/text/python_text.h"

namespace troupe::models {
namespace {

constexpr std::array kT5Alone = {PromptEncoder{.encoder = "text_encoder",
                                               .tokenizer = "tokenizer",
                                               .tokenizer_kind = "T5",
                                               .most_tokens = 300,
                                               .is_masked = true,
                                               .row_multiple = 128,
                                               .wanted = {}}};

/// What diffusers does when bs4 or ftfy is not installed. With both, its
/// `clean_caption` rewrites addresses, HTML and the like, too.
std::string cleaned(std::string_view prompt) {
  return python_stripped(python_lowered(prompt));
}

Condition pixart_condition(std::span<const EncodedPrompt> encoded) {
  Condition condition;
  condition.add("prompt_embeds", encoded[0].text.hidden, encoded[0].length);
  return condition;
}

}  // namespace

/// Source: diffusers pipelines/pixart_alpha/pipeline_pixart_sigma.py.
extern constinit const PromptPipeline kPixartSigma{
    .class_name = "PixArtSigmaPipeline",
    .encoders = kT5Alone,
    .cleaned = cleaned,
    .condition = pixart_condition,
    .takes_max_length = true,
    .note = "the pipeline puts prompts in lower case",
    .bins = pixart_bins};

}  // namespace troupe::models
