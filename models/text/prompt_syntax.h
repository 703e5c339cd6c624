#pragma once

#include <string_view>

namespace troupe::models {

/// The first part of a prompt that means something in other programs and
/// nothing in diffusers, such as "(word:1.2)", "<lora:name:0.8>", "((word))",
/// "[a|b]", "[a:b:0.5]", "BREAK", "word++", "embedding:name", "__name__" or
/// "--ar 16:9"; empty where there is none. Brackets, colons, capitals,
/// underscores and dashes alone are ordinary text. Source: the wikis of
/// AUTOMATIC1111's web UI, its extensions dynamic-prompts and
/// regional-prompter, and of ComfyUI; compel, which InvokeAI uses; Midjourney's
/// list of parameters.
[[nodiscard]] std::string_view foreign_syntax(std::string_view prompt);

}  // namespace troupe::models
