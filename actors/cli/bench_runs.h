#pragma once

#include <cstdint>
#include <vector>

#include "actors/cli/bench_grid.h"
#include "actors/cli/bench_log.h"
#include "actors/cli/job_runner.h"
#include "actors/cli/picture_classifier.h"
#include "actors/cli/verbs.h"

namespace troupe::actors {

/// Sets of --quality pictures that the sequential run draws. The first has the
/// noise of all settings, the others have noise of their own: distances between
/// two sets are those that chance makes.
constexpr std::uint64_t kSeedSets = 5;

/// Runs what the log lacks: each setting's measurements, the emulation of
/// measured settings, and with a classifier the pictures that it judges.
/// classifier: null: nothing is judged. Errors: those of run_job;
/// Errc::interrupted. Thread: one.
void run_missing(Invocation& invocation, const std::vector<Grid>& grids,
                 const JobRunner& runner, BenchLog& log, int repeats,
                 PictureClassifier* classifier);

}  // namespace troupe::actors
