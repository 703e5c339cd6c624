#pragma once

#include <string>
#include <vector>

#include "actors/cli/method_figures.h"
#include "config/config.h"
#include "config/method_plan.h"

namespace troupe::actors {

struct JobRequest;
class ModelSource;

/// What was measured of the methods on a job's model.
struct MeasuredMethods {
  std::string place;                  ///< the file
  std::vector<MethodFigure> figures;  ///< of any setting
  std::string lack;                   ///< why there are none
};

/// The table of --method-table, or of the model's folder. All weights are read
/// for their hash, if there is a table. Errors: those of read_method_figures;
/// Errc::invalid_argument for --method-table of other weights.
[[nodiscard]] MeasuredMethods measured_methods(const config::Config& config,
                                               const ModelSource& source);

/// What figures of the job would be of.
[[nodiscard]] FigureSetting figure_setting(const JobRequest& request);

/// What --max-rmse takes.
struct MethodChoice {
  samplers::MethodOptions method;
  std::string note;  ///< what was chosen, and why
};

/// Chooses between the exact methods and the settings whose measured error is
/// within --max-rmse: what ends the job first, as `workload_of` counts it. Of
/// equals that of config::make_plan, then an exact one, then the nearest. The
/// settings are those of the request's `measured` that were measured with this
/// sampling on eight pictures or more, and that the workers can run. Where
/// other processes may come, no setting cuts the network.
/// Errors: Errc::corrupt_file for a setting that cannot be; those of
/// config::make_plan.
[[nodiscard]] MethodChoice choose_method(const config::Config& config,
                                         const JobRequest& request,
                                         const config::PlanInputs& inputs);

/// The measured error of an approximate method that the user has named, or that
/// there is none; empty: the method is exact, or has a note of its own.
/// Errors: those of measured_methods for --method-table.
[[nodiscard]] std::string error_note(const config::Config& config,
                                     const JobRequest& request);

}  // namespace troupe::actors
