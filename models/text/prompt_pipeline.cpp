#include "models/text/prompt_pipeline.h"

#include <algorithm>

namespace troupe::models {

extern const PromptPipeline kPixartSigma;
extern const PromptPipeline kStableDiffusion;
extern const PromptPipeline kStableDiffusionXl;
extern const PromptPipeline kStableDiffusionXlRefiner;

int PromptPipeline::num_texts() const {
  return 1 + std::ranges::max(encoders, {}, &PromptEncoder::text).text;
}

PromptPipelineTable prompt_pipeline_table() {
  static constexpr const PromptPipeline* kTable[] = {
      &kPixartSigma, &kStableDiffusion, &kStableDiffusionXl,
      &kStableDiffusionXlRefiner};
  return kTable;
}

const PromptPipeline* find_prompt_pipeline(std::string_view class_name,
                                           PromptPipelineTable table) {
  const auto found =
      std::ranges::find(table, class_name, &PromptPipeline::class_name);
  return found == table.end() ? nullptr : *found;
}

std::string prompt_pipeline_names(PromptPipelineTable table) {
  std::string names;
  for (const PromptPipeline* row : table) {
    names.append(names.empty() ? "" : ", ").append(row->class_name);
  }
  return names;
}

}  // namespace troupe::models
