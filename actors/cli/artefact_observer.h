#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "actors/artefacts/png.h"
#include "actors/artefacts/summary.h"
#include "actors/artefacts/trace_writer.h"
#include "actors/cli/job_runner.h"
#include "actors/cli/ordered_hash.h"
#include "actors/cli/preview_writer.h"
#include "actors/cli/required_class.h"
#include "actors/cli/row_file.h"
#include "actors/cli/run_outputs.h"
#include "actors/observer.h"
#include "actors/picture_writer.h"

namespace troupe::actors {

/// What --save latents and --save trajectory hold.
[[nodiscard]] RowFile::Rows latent_rows(const JobRequest& request);
[[nodiscard]] RowFile::Rows trajectory_rows(const JobRequest& request);

/// Makes whole what a run that was killed behind its last image has left of the
/// files of --save, where every image is there. Errors: those of RowFile.
void write_left_rows(const JobRequest& request, RunOutputs& outputs);

/// Turns finished samples into files while the job runs: each image as soon as
/// it is there, the rest (`finish`) at the end. Encoding and writing happen on
/// the writer's threads, and previews on a thread of their own: no image waits
/// for one. The trajectory file holds one tensor "trajectory" of
/// shape [n, calls + 1, C, H, W]: the latents of each finished sample before
/// the first and after every model call. Rows of --save are written as they
/// come, and of a run that is killed the next one takes them. Nothing of
/// a finished sample stays in memory but what an output at the end needs
/// (`held_bytes`).
/// Thread: the job's observer thread; `finish` and the results afterwards.
class ArtefactObserver final : public Observer {
 public:
  /// Keeps references; takes the earlier rows out of `outputs`. Errors:
  /// Errc::out_of_memory.
  ArtefactObserver(const config::Config& config, const JobRequest& request,
                   const JobRunner& runner, const RequiredClass& required,
                   RunOutputs& outputs);

  void on_sample(const SampleOutcome& outcome) override;
  void on_preview(const Preview& preview) override;
  void on_point(const TrajectoryPoint& point) override;
  void on_pass(const TracePass& pass) override;

  /// Ends a preview under way at its next block. Thread: any.
  void request_stop() noexcept {
    if (preview_context_) {
      preview_context_->request_stop();
    }
  }
  /// What even a slow disk takes in a second.
  static constexpr std::uint64_t kSoonWritten = std::uint64_t{32} << 20U;
  /// Waits for the files under way, then writes latents, trajectory, trace and
  /// contact sheet of what is there. Each is tried even if others failed. Where
  /// an image of another job is in the way, none is written. Returns the first
  /// failure that writing met.
  /// `most_bytes` is set after a stop, when nobody wants to wait: no contact
  /// sheet is written then (the run that goes on makes it whole), and of the
  /// rest only what takes at most so much. `processes`: those of the job, for
  /// the trace.
  [[nodiscard]] std::optional<Failure> finish(
      TimePoint start, std::optional<std::uint64_t> most_bytes = {},
      std::span<const TraceProcess> processes = {});
  /// The flags whose files were left out for that.
  [[nodiscard]] const std::vector<std::string>& left_out() const noexcept {
    return left_out_;
  }

  /// Samples that are done, by index. After `finish` a sample is "failed" if
  /// its image could not be written, and "skipped" if another run of this job
  /// had written the image meanwhile.
  [[nodiscard]] const std::map<std::uint64_t, ImageSummary>& images()
      const noexcept {
    return images_;
  }
  /// XXH3-64 over the final latents of all samples of the job, in index order;
  /// empty where that cannot be told.
  [[nodiscard]] std::string latents_xxh3();

  /// Why there are no more previews, or not all; empty: nothing went wrong.
  /// Once finished.
  [[nodiscard]] std::string preview_note() const {
    return previews_ ? previews_->note() : std::string();
  }
  /// Why the trace is not of the whole run; empty: it is.
  [[nodiscard]] std::string trace_note() const;

 private:
  /// Writes one output; remembers the first failure.
  void attempt(const std::function<void()>& body);
  void post_image(std::uint64_t index, Image image,
                  std::shared_ptr<void> receipt);
  bool write_image(std::uint64_t index, std::span<const std::byte> bytes);
  [[nodiscard]] FileRule image_rule(const std::string& path) const;
  void end_preview(const SampleOutcome& outcome);
  void settle();
  /// Writes to a file of --save, if there is one. On an error there is none
  /// from then on.
  void save(std::unique_ptr<RowFile>& rows, const std::function<void()>& body);

  const config::Config& config_;
  const JobRequest& request_;
  const JobRunner& runner_;
  const RequiredClass& required_;
  RunOutputs& outputs_;
  std::map<std::uint64_t, ImageSummary> images_;
  OrderedHash hash_;
  std::unique_ptr<RowFile> latents_;     ///< null: there is none, or it failed
  std::unique_ptr<RowFile> trajectory_;  ///< the same
  std::map<std::uint64_t, Image> pictures_;  ///< for the sheet
  TraceLog trace_;
  std::optional<Failure> first_failure_;
  std::vector<std::string> left_out_;
  std::mutex written_mutex_;
  std::set<std::uint64_t> written_;             ///< images that are durable
  std::map<std::uint64_t, EarlierImage> kept_;  ///< that came meanwhile
  bool keeps_other_latents_ = false;
  std::unique_ptr<ExecContext> preview_context_;  ///< null: no previews
  // Last: their threads use what stands above.
  PictureWriter writer_;
  std::optional<PreviewWriter> previews_;
};

}  // namespace troupe::actors
