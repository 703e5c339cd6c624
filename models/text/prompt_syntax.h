#pragma once

#include <string_view>

namespace troupe::models {

/// The first part of a prompt that means something in other programs and
/// nothing in diffusers, such as "(word:1.2)", "<lora:name:0.8>", "((word))",
/// "[a|b]", "[a:b:0.5]", "BREAK" or "word++"; empty where there is none.
/// Brackets, colons and capitals alone are ordinary text. Source: the wikis of
/// AUTOMATIC1111's web UI and of ComfyUI; compel, which InvokeAI uses.
[[nodiscard]] std::string_view foreign_syntax(std::string_view prompt);

}  // namespace troupe::models
