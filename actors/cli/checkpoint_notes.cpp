#include "actors/cli/checkpoint_notes.h"

#include "config/known_keys.h"

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

}  // namespace troupe::actors
