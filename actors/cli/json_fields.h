#pragma once

#include <vector>

#include "actors/cli/help_topics.h"

namespace troupe::actors {

// Every key of a document. Each function stands beside the list of fields that
// the document is printed from.
[[nodiscard]] std::vector<JsonField> bench_json_fields();
[[nodiscard]] std::vector<JsonField> bench_methods_json_fields();
[[nodiscard]] std::vector<JsonField> cancel_json_fields();
[[nodiscard]] std::vector<JsonField> doctor_json_fields();
[[nodiscard]] std::vector<JsonField> encode_json_fields();
[[nodiscard]] std::vector<JsonField> inspect_json_fields();
[[nodiscard]] std::vector<JsonField> job_json_fields();
[[nodiscard]] std::vector<JsonField> keys_json_fields();
[[nodiscard]] std::vector<JsonField> progress_json_fields();
[[nodiscard]] std::vector<JsonField> schedule_json_fields();
[[nodiscard]] std::vector<JsonField> verify_json_fields();

}  // namespace troupe::actors
