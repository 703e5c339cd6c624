#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "config/model_prediction.h"
#include "config/recipe.h"
#include "models/description.h"
#include "samplers/schedule.h"

namespace troupe::actors {

class JobRunner;
struct EarlierImage;
struct JobRequest;
class ModelSource;

/// Path of the scheduler's file, whether it is there or not.
[[nodiscard]] std::string scheduler_path(const models::Checkpoint& checkpoint);

/// Refuses a scheduler that model_index.json names and Troupe has not, unless
/// `sampler` names another. Errors: those of config::check_scheduler_class.
void check_scheduler(const models::Checkpoint& checkpoint,
                     const config::SamplerConfig& sampler);

/// Notes what the user should know about the folder's scheduler: a missing
/// file, a class that differs from model_index.json, or keys that diffusers
/// does not have.
void note_scheduler(const models::Checkpoint& checkpoint,
                    std::vector<std::string>& notes);

/// The same about the networks' config.json files and weights.
void note_networks(const models::Checkpoint& checkpoint,
                   const ModelSource& source, std::vector<std::string>& notes);

/// Notes that a component's plain weights are missing, so those of a variant
/// are used; and that the same weights are there twice.
void note_weight_files(const models::Component& component,
                       std::vector<std::string>& notes);

/// What is unusual about this sampler for this model (see prediction_notes), or
/// what was guessed of a model that is not known.
void note_model(const config::SamplerConfig& sampler,
                const config::ModelPrediction& model,
                const samplers::ScheduleOptions& options,
                std::vector<std::string>& notes);

/// Refuses a list of --sigmas that lies wholly above the levels the model was
/// trained with: the result would be noise. (A list that only begins there
/// makes pictures if it is fine enough, even from 20 times the highest level.)
/// Errors: Errc::invalid_argument.
void check_lists(const config::SamplerConfig& sampler,
                 const samplers::Schedule& schedule);

/// Notes the options that were given and that only guidance reads.
void note_unguided(const config::Config& config,
                   std::vector<std::string>& notes);

/// What was added to the lists that the user gave for `schedule`, and levels
/// outside those that the model was trained with.
void note_lists(const config::SamplerConfig& sampler,
                const samplers::Schedule& schedule,
                std::vector<std::string>& notes);

/// At which bin of the pipeline's pictures of another size are sampled.
void note_bin(const ModelSource& source, std::vector<std::string>& notes);

/// That --isa holds the CPU to a level without bf16, which --dtype auto would
/// take otherwise.
void note_level(const config::Config& config, std::vector<std::string>& notes);

/// That --batch was given by its name in other programs, where that counts
/// pictures, and bounds more than the job has.
void note_batch(const config::Config& config, std::uint64_t images,
                std::vector<std::string>& notes);

/// That Heun's last corrected step falls so far that noise stays behind.
void note_heun(const samplers::Schedule& schedule,
               std::vector<std::string>& notes);

/// Adds a note, unless it is empty or there already.
void add_note(std::vector<std::string>& notes, const std::string& note);

/// Prints and adds to `notes` how many of `images`, which are there, were made
/// by none of `classes`, this run's execution classes. Nothing if there are
/// none.
void say_other_classes(std::span<const EarlierImage> images,
                       const std::vector<std::string>& classes,
                       std::vector<std::string>& notes);

/// Warns of weights, latents and an execution class that are not those of the
/// image that --from names.
void warn_of_others(const config::Recipe& recipe, const JobRequest& request,
                    const JobRunner& runner);

/// What was chosen for a job and why, as lines of the log at level info
/// (--verbose): sampler, method, arithmetic, memory. `from_image`: whether the
/// schedule is that of a recipe (--from). Thread: any.
void explain(const config::Config& config, const JobRequest& request,
             bool from_image);

/// Says each as a warning.
void print_notes(const std::vector<std::string>& notes);

}  // namespace troupe::actors
