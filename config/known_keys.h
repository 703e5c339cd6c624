#pragma once

#include <span>
#include <string>
#include <string_view>

namespace troupe::config {

/// One line about the keys of a config.json that no version of its diffusers
/// class has (they are ignored, as in diffusers), with the nearest known keys;
/// empty without such keys. `known`: the keys of the class, separated by
/// spaces. Keys that begin with '_' and the usual keys of trainers count as
/// known.
[[nodiscard]] std::string unknown_keys_note(std::string_view place,
                                            std::string_view class_name,
                                            std::string_view known,
                                            std::span<const std::string> keys);

/// The same for the text of a scheduler_config.json; keys of any scheduler are
/// known, because they stay in the file when one is made from another. Empty
/// for a text that is not a JSON object.
[[nodiscard]] std::string unknown_scheduler_keys_note(std::string_view place,
                                                      std::string_view text);

/// Whether some scheduler of diffusers has the key, or it begins with '_'.
[[nodiscard]] bool is_scheduler_key(std::string_view key);

/// "_class_name" of a scheduler_config.json; empty without the key.
[[nodiscard]] std::string scheduler_class(std::string_view text);

}  // namespace troupe::config
