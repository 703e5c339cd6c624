#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"

namespace troupe::config {

enum class Verb : std::uint8_t {
  sample,
  schedule,
  inspect,
  verify,
  bench,
  doctor,
  keys,
  worker,
  ls,
  cancel,
  encode
};
/// As they are typed: see enum_names.h.
constexpr const char* list_of(Verb) {
  return "sample schedule inspect verify bench doctor keys worker ls cancel "
         "encode";
}

/// What a value is, in TOML's terms. texts: each is set by itself, in turn.
enum class ValueKind : std::uint8_t { text, whole, real, truth, list, texts };

/// How an option goes into the config and comes back as text.
struct Field {
  /// Errors: Errc::invalid_argument.
  std::function<void(Config&, std::string_view place, std::string_view text)>
      set;
  /// Null: another spelling of an option that has its own row, or not a part
  /// of a job.
  std::function<std::string(const Config&)> get = nullptr;
  /// The texts of an option that may be given several times; `get` does not
  /// return them.
  std::vector<std::string> Config::*texts = nullptr;
};

/// A set of verbs. Bit n: the Verb n takes the option; bit 16 + n: most of its
/// users need the option.
using VerbSet = std::uint32_t;

/// Marks an option as one that most users of these verbs need: --help shows
/// it, and not --help-all alone.
constexpr VerbSet often(VerbSet verbs) { return verbs | verbs << 16U; }
[[nodiscard]] constexpr bool has(VerbSet verbs, Verb verb) noexcept {
  return (verbs >> static_cast<unsigned>(verb) & 1U) != 0;
}
[[nodiscard]] constexpr bool has_often(VerbSet verbs, Verb verb) noexcept {
  return has(verbs >> 16U, verb);
}

/// The text of --help about an option, common to its verbs or by groups of
/// verbs.
class VerbText {
 public:
  struct Part {
    VerbSet verbs;
    std::string_view text;
  };
  // A row has a literal here. NOLINTBEGIN(google-explicit-constructor)
  VerbText(std::string_view text = {}) : parts_{{~VerbSet{0}, text}} {}
  VerbText(const char* text) : VerbText(std::string_view(text)) {}
  // NOLINTEND(google-explicit-constructor)
  VerbText(std::initializer_list<Part> parts) : parts_(parts) {}

  /// Empty: nothing is said of this verb.
  [[nodiscard]] std::string_view of(Verb verb) const noexcept;

 private:
  std::vector<Part> parts_;
};

/// One option: the same row serves the flag, the environment variable, the
/// key of a TOML file and the line of --print-config.
struct Option {
  std::string_view key;      ///< "steps": --steps, TROUPE_STEPS, steps = 50
  std::string_view aliases;  ///< field spellings, comma-separated
  char letter;               ///< 0: none
  std::string_view value;    ///< placeholder in help; empty: a switch
  VerbText help;
  std::string_view group;
  VerbSet verbs;
  Field field;
  /// What holds while it is not set, or how that is chosen. Not needed where
  /// a fresh config says it.
  VerbText unset = {};

  /// Parses `text` into the config. Errors: Errc::invalid_argument.
  void set(Config& config, std::string_view place,
           std::string_view text) const {
    field.set(config, place, text);
  }
  /// Whether `get` may be called.
  [[nodiscard]] bool has_text() const noexcept { return field.get != nullptr; }
  /// The value as text that `set` reads back (of texts: the first); empty: not
  /// set.
  [[nodiscard]] std::string get(const Config& config) const {
    return field.get(config);
  }
  [[nodiscard]] bool is_switch() const noexcept { return value.empty(); }
  /// As the placeholder says: N, K: whole; X, W: real; LIST: a list; …
  [[nodiscard]] ValueKind kind() const noexcept;
  [[nodiscard]] bool serves(Verb verb) const noexcept {
    return has(verbs, verb);
  }
  /// Whether the verb's --help shows it, and not --help-all alone.
  [[nodiscard]] bool is_often_used(Verb verb) const noexcept {
    return has_often(verbs, verb);
  }
};

/// All options, in the order of the help text.
[[nodiscard]] std::span<const Option> option_table();

/// The option's default for a verb as --help prints it: "50", "off", or how the
/// default is chosen.
[[nodiscard]] std::string default_of(const Option& option, Verb verb);

/// The row of a key or alias ('_' counts as '-'), or null.
[[nodiscard]] const Option* find_option(std::string_view key);

/// Keys and aliases of a verb or of all: candidates for suggestions.
[[nodiscard]] std::vector<std::string> option_names(
    std::optional<Verb> verb = {});

}  // namespace troupe::config
