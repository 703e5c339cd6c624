#include "actors/cli/notes.h"

#include "config/known_keys.h"
#include "kernels/core/log.h"

namespace troupe::actors {
namespace {

void add(std::vector<std::string>& notes, std::string note) {
  if (!note.empty()) {
    notes.push_back(std::move(note));
  }
}

void add(std::vector<std::string>& notes, const models::Component& component) {
  const std::vector<std::string> keys = component.config.keys();
  add(notes, config::unknown_keys_note(component.config.place(),
                                       component.class_name, keys));
}

}  // namespace

std::string scheduler_path(const models::Checkpoint& checkpoint) {
  return (checkpoint.folder / "scheduler" / "scheduler_config.json").string();
}

std::vector<std::string> scheduler_notes(const models::Checkpoint& checkpoint) {
  const std::string path = scheduler_path(checkpoint);
  if (checkpoint.scheduler_config.empty()) {
    return {path +
            " is not there: the noise schedule is DDIM's default (1000 linear "
            "betas)"};
  }
  std::vector<std::string> notes;
  add(notes,
      config::unknown_scheduler_keys_note(path, checkpoint.scheduler_config));
  return notes;
}

std::vector<std::string> network_notes(const models::Checkpoint& checkpoint) {
  std::vector<std::string> notes;
  add(notes, checkpoint.transformer);
  if (checkpoint.vae) {
    add(notes, *checkpoint.vae);
  }
  return notes;
}

std::vector<std::string> list_notes(const config::SamplerConfig& sampler,
                                    const samplers::Schedule& schedule) {
  const auto lacks_zero = [](const std::vector<double>& list) {
    return !list.empty() && list.back() != 0;
  };
  std::vector<std::string> notes;
  if (lacks_zero(sampler.sigmas)) {
    notes.emplace_back("a final noise level of 0 was added to --sigmas");
  }
  if (lacks_zero(sampler.timesteps) && schedule.sigmas().back() == 0) {
    notes.emplace_back(
        "a final noise level of 0 was added to --timesteps, without a call of "
        "the network");
  }
  return notes;
}

void print_notes(const std::vector<std::string>& notes) {
  for (const std::string& note : notes) {
    log_message(LogLevel::warning, note);
  }
}

}  // namespace troupe::actors
