#include "models/text/prompt_pipeline.h"

#include <algorithm>

namespace troupe::models {

extern const PromptPipeline kPixartSigma;

PromptPipelineTable prompt_pipeline_table() {
  static constexpr const PromptPipeline* kTable[] = {&kPixartSigma};
  return kTable;
}

const PromptPipeline* find_prompt_pipeline(std::string_view class_name,
                                           PromptPipelineTable table) {
  const auto found =
      std::ranges::find(table, class_name, &PromptPipeline::class_name);
  return found == table.end() ? nullptr : *found;
}

}  // namespace troupe::models
