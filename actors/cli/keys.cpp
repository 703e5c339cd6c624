#include "net/keys.h"

#include <fmt/format.h>

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "actors/cli/json_fields.h"
#include "actors/cli/json_rows.h"
#include "actors/cli/verbs.h"
#include "config/parse_value.h"
#include "kernels/core/text.h"

namespace troupe::actors {
namespace {

using config::Config;

/// Something that `troupe keys` makes.
struct Action {
  std::string_view name;
  std::string_view kind;  ///< in JSON
  void (*make)(const Config&);
  std::string_view says;  ///< of the file that was written
};

void make_company(const Config& config) {
  require(!config.is_flag("from") || config.from.empty(),
          Errc::invalid_argument, "--from",
          "keys new makes a key from nothing but chance",
          "troupe keys worker --from FILE makes a worker's node file");
  net::write_company_key(config.out);
}

void make_worker(const Config& config) {
  require(!config.from.empty(), Errc::invalid_argument, "--from",
          "missing: the company's key file, which troupe keys new makes");
  net::write_worker_key(config.out,
                        net::read_keys(config.from, net::Role::coordinator));
}

constexpr std::array kActions = {
    Action{"new", "company", make_company,
           "a new company's key; whoever has it can direct the company, so "
           "give hosts that only work a file of troupe keys worker"},
    Action{"worker", "worker", make_worker,
           "a node file: whoever has it can work for the company, and cannot "
           "direct it"}};

const Action& action_of(const std::vector<std::string>& words) {
  std::vector<std::string> names;
  names.reserve(kActions.size());
  for (const Action& action : kActions) {
    names.emplace_back(action.name);
  }
  require(!words.empty(), Errc::invalid_argument, "keys",
          "what shall be made: got nothing, expected new or worker",
          "see troupe keys --help");
  require(words.size() == 1, Errc::invalid_argument, words.back(),
          "an argument that no option takes", "see troupe keys --help");
  return kActions.at(config::parse_choice("keys", words.front(), names));
}

struct Made {
  std::string path;
  std::string kind;
};

void visit_fields(auto& visit, AnyConst<Made> auto& r) {
  visit({"path", "the key file"}, r.path);
  visit({"kind", "company (good for every process) or worker (a node file)"},
        r.kind);
}

}  // namespace

std::vector<JsonField> keys_json_fields() { return json_rows_of<Made>(); }

int run_keys(Invocation& invocation) {
  const Config& config = invocation.config;
  const Action& action = action_of(invocation.files);
  require(!config.out.empty(), Errc::invalid_argument, "--out",
          "missing: the key file to write");
  require(config.out != "-", Errc::invalid_argument, config.place_of("out"),
          "keys are not printed: got -, expected the name of a file");
  action.make(config);
  invocation.take_last_word();
  if (config.json) {
    const Made made = {config.out, std::string(action.kind)};
    fmt::print("{}\n", dump(document(invocation.summary, made)));
  } else if (!config.quiet) {
    fmt::print("{}: {}\n", printable(config.out, kLongestLine), action.says);
  }
  return 0;
}

}  // namespace troupe::actors
