#include "actors/cli/artefact_observer.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <span>
#include <system_error>
#include <utility>

#include "actors/cli/earlier_run.h"
#include "kernels/copy.h"
#include "kernels/core/hash.h"
#include "kernels/core/system/atomic_file.h"

namespace troupe::actors {
namespace {

/// The samples whose latents this run knows: all but those that are skipped
/// without a row of --save.
std::vector<std::uint64_t> known(const JobRequest& request,
                                 const RunOutputs& outputs) {
  std::vector<std::uint64_t> indices;
  for (std::uint64_t i = request.job.begin; i < request.job.end; ++i) {
    if (!outputs.is_skipped(i) || outputs.earlier_latents.contains(i)) {
      indices.push_back(i);
    }
  }
  return indices;
}

/// A file of --save with the rows that were there, which are then forgotten. A
/// later run finds its rows by the images, if it has any.
std::unique_ptr<RowFile> begin_rows(const RunOutputs& outputs,
                                    const std::string& path, RowFile::Rows rows,
                                    std::map<std::uint64_t, Tensor>& earlier) {
  auto file =
      std::make_unique<RowFile>(path, std::move(rows), outputs.rule_for(path));
  for (const auto& [index, row] : std::exchange(earlier, {})) {
    if (outputs.is_skipped(index)) {
      file->write(index, 0, row.bytes());
      file->seal(index);
      file->complete(index);
    }
  }
  if (outputs.images && !outputs.images->is_stdout()) {
    file->keep();
  }
  return file;
}

}  // namespace

RowFile::Rows latent_rows(const JobRequest& request) {
  return {"latents", request.samples(), request.source.latent_shape()};
}

RowFile::Rows trajectory_rows(const JobRequest& request) {
  return {"trajectory", request.samples(), request.trajectory_shape()};
}

void write_left_rows(const JobRequest& request, RunOutputs& outputs) {
  const auto write = [&](const std::string& path, RowFile::Rows rows,
                         std::map<std::uint64_t, Tensor>& earlier) {
    std::error_code error;
    if (!path.empty() &&
        std::filesystem::exists(AtomicFile::kept_path(path), error)) {
      begin_rows(outputs, path, std::move(rows), earlier)->commit();
    }
  };
  write(outputs.latents, latent_rows(request), outputs.earlier_latents);
  write(outputs.trajectory, trajectory_rows(request),
        outputs.earlier_trajectory);
}

ArtefactObserver::ArtefactObserver(const config::Config& config,
                                   const JobRequest& request,
                                   const JobRunner& runner,
                                   const RequiredClass& required,
                                   RunOutputs& outputs)
    : config_(config),
      request_(request),
      runner_(runner),
      required_(required),
      outputs_(outputs),
      hash_(known(request, outputs)) {
  if (!outputs.latents.empty()) {
    for (const auto& [index, row] : outputs.earlier_latents) {
      if (outputs.is_skipped(index)) {
        hash_.add(index, row);
      }
    }
    latents_ = begin_rows(outputs, outputs.latents, latent_rows(request),
                          outputs.earlier_latents);
  }
  if (!outputs.trajectory.empty()) {
    trajectory_ =
        begin_rows(outputs, outputs.trajectory, trajectory_rows(request),
                   outputs.earlier_trajectory);
  }
  if (outputs.preview) {
    preview_context_ = runner.make_decode_context();
    previews_.emplace(outputs, [this](const Tensor& latents) {
      Tensor pixels;
      runner_.decode(*preview_context_, latents, pixels);
      return kernels::on_host(*preview_context_, pixels);
    });
  }
}

void ArtefactObserver::on_sample(const SampleOutcome& outcome) {
  const std::uint64_t index = outcome.report.sample_index;
  if (outcome.report.status != SampleStatus::done) {
    end_preview(outcome);
    hash_.pass(index);
    return;
  }
  const config::Recipe recipe =
      runner_.recipe_of(index, outcome.latents, outcome.report.execution_class);
  ImageSummary summary{.index = index,
                       .seed = request_.seed_of(index),
                       .class_id = recipe.class_id,
                       .class_name = recipe.class_name,
                       .prompt = request_.prompt_of(index),
                       .latents_xxh3 = recipe.latents_xxh3,
                       .execution_class = recipe.execution_class};
  save(latents_, [&] {
    latents_->write(index, 0, outcome.latents.bytes());
    latents_->seal(index);
  });
  save(trajectory_, [&] { trajectory_->seal(index); });
  if (!outcome.pixels.empty()) {
    Image image = to_image(outcome.pixels);
    image.recipe = config::to_json(recipe);
    if (!outputs_.grid.empty()) {
      pictures_[index] = {image.width, image.height, image.rgb, {}};
    }
    if (outputs_.images) {
      summary.path = outputs_.images->path(index).string();
      post_image(index, std::move(image), outcome.receipt);
    }
  }
  end_preview(outcome);  // behind the image, which matters more
  hash_.add(index, outcome.latents);
  images_.emplace(index, std::move(summary));
}

void ArtefactObserver::post_image(std::uint64_t index, Image image,
                                  std::shared_ptr<void> receipt) {
  struct Shared {
    Image image;
    std::shared_ptr<void> receipt;  // until the image has landed
    bool is_ours = true;
  };
  const auto shared = std::make_shared<Shared>(
      Shared{.image = std::move(image), .receipt = std::move(receipt)});
  PictureJob job;
  if (!outputs_.images->is_stdout()) {
    job.encode = [shared] { return encode_png(shared->image); };
    job.put = [this, index](Disk& disk, std::span<const std::byte> bytes) {
      return outputs_.images->put(
          disk, index, bytes,
          image_rule(outputs_.images->path(index).string()));
    };
  }
  job.publish = [this, index, shared](Disk::File* file) {
    if (file == nullptr || !outputs_.images->publish(*file)) {
      shared->is_ours = write_image(index, encode_png(shared->image));
    }
  };
  job.landed = [this, index, shared] {
    if (shared->is_ours) {
      const std::lock_guard lock(written_mutex_);
      written_.insert(index);
    }
  };
  writer_.post(std::move(job));
}

FileRule ArtefactObserver::image_rule(const std::string& path) const {
  FileRule rule = outputs_.rule_for(path);
  rule.takes_equal = false;  // it would not be counted as skipped
  return rule;
}

/// An image that appeared since the start is kept if it is this job's: the same
/// command may run twice. No image of another job is ever replaced. Returns
/// whether the image there is ours.
bool ArtefactObserver::write_image(std::uint64_t index,
                                   std::span<const std::byte> bytes) {
  const std::string path = outputs_.images->path(index).string();
  FileRule rule = image_rule(path);
  while (!outputs_.images->write(index, bytes, rule)) {
    require(outputs_.exists == config::ExistsPolicy::skip,
            Errc::invalid_argument, "--out",
            "the file is there already: " + path,
            "another run made it meanwhile: give each run its own files");
    rule.known = stamp_of(path);
    if (!rule.known) {
      continue;  // it has gone again
    }
    std::optional<FoundImage> found;
    try {
      found = examine_image(config_, request_, path, index);
    } catch (const Error& error) {
      if (error.code() == Errc::not_found) {
        continue;
      }
      throw;
    }
    if (found->image.is_wreck) {
      continue;
    }
    check_weights(found->image, path, to_hex(runner_.weights_hash()));
    required_.check_image(found->image, path);
    if (found->damage.empty()) {
      const std::lock_guard lock(written_mutex_);
      kept_.emplace(index, std::move(found->image));
      return false;
    }
  }
  return true;
}

/// A row counts when its image does: the next run finds it by the image.
void ArtefactObserver::settle() {
  const std::lock_guard lock(written_mutex_);
  for (auto& [index, image] : images_) {
    const auto kept = kept_.find(index);
    if (kept != kept_.end()) {
      const bool is_other = kept->second.latents_xxh3 != image.latents_xxh3;
      image.status = "skipped";
      image.latents_xxh3 = kept->second.latents_xxh3;
      image.execution_class = kept->second.execution_class;
      keeps_other_latents_ = keeps_other_latents_ || is_other;
      if (is_other) {
        continue;  // no row of ours belongs to it
      }
    } else if (outputs_.images && !written_.contains(index)) {
      image.status = "failed";
      image.message = "the image could not be written";
      continue;
    }
    if (latents_) {
      latents_->complete(index);
    }
    if (trajectory_) {
      trajectory_->complete(index);
    }
  }
}

void ArtefactObserver::on_preview(const Preview& preview) {
  if (previews_) {
    previews_->show(preview);
  }
}

void ArtefactObserver::end_preview(const SampleOutcome& outcome) {
  if (previews_) {
    previews_->end(outcome);
  }
}

void ArtefactObserver::on_point(const TrajectoryPoint& point) {
  save(trajectory_, [&] {
    const std::span<const std::byte> bytes = point.latents.bytes();
    trajectory_->write(point.sample_index,
                       static_cast<std::uint64_t>(point.calls) * bytes.size(),
                       bytes);
  });
}

void ArtefactObserver::on_pass(const TracePass& pass) { trace_.add(pass); }

std::string ArtefactObserver::trace_note() const {
  std::string note;
  if (trace_.num_dropped() > 0) {
    note = fmt::format(
        "the trace holds the last {} spans: {} older ones were dropped",
        trace_.spans().size(), trace_.num_dropped());
  }
  if (trace_.num_dropped_reads() > 0) {
    note += fmt::format(
        "{}the trace holds the last {} arrows: {} older ones were dropped",
        note.empty() ? "" : "; ", trace_.num_reads(),
        trace_.num_dropped_reads());
  }
  return note;
}

void ArtefactObserver::save(std::unique_ptr<RowFile>& rows,
                            const std::function<void()>& body) {
  bool is_saved = false;
  if (rows) {
    attempt([&] {
      body();
      is_saved = true;
    });
  }
  if (!is_saved) {
    rows.reset();
  }
}

void ArtefactObserver::attempt(const std::function<void()>& body) {
  try {
    body();
  } catch (...) {
    if (!first_failure_) {
      first_failure_ = current_failure();
    }
  }
}

std::string ArtefactObserver::latents_xxh3() {
  const std::string hash = hash_.finish();
  const bool is_whole =
      hash_.num_added() == request_.num_samples() && !keeps_other_latents_;
  return is_whole ? hash : std::string();
}

std::optional<Failure> ArtefactObserver::finish(
    TimePoint start, std::optional<std::uint64_t> most_bytes,
    std::span<const TraceProcess> processes) {
  const auto write = [&](const char* flag, std::uint64_t bytes,
                         const auto& body) {
    if (!most_bytes || bytes <= *most_bytes) {
      attempt(body);
    } else {
      left_out_.emplace_back(flag);
    }
  };
  attempt([&] { writer_.flush(); });
  if (previews_) {
    attempt([&] { previews_->flush(); });
  }
  settle();
  if (outputs_.images && !(written_.empty() && outputs_.skipped.empty())) {
    attempt([&] { outputs_.images->check_folder(); });
  }
  if (first_failure_ && first_failure_->code == Errc::invalid_argument) {
    // The folder is another job's, and its other files may have these names.
    return first_failure_;
  }
  for (const auto& [flag, rows] :
       {std::pair{"--save latents", &latents_},
        std::pair{"--save trajectory", &trajectory_}}) {
    if (*rows) {
      write(flag, (*rows)->commit_bytes(), [&file = **rows] { file.commit(); });
      rows->reset();
    }
  }
  if (!outputs_.trace.empty()) {
    write("--trace", trace_bytes(trace_.spans().size(), trace_.num_reads()),
          [&] {
            const std::string text = trace_json(trace_, processes, start);
            write_file(outputs_.trace, std::as_bytes(std::span(text)),
                       outputs_.rule_for(outputs_.trace));
          });
  }
  if (!most_bytes) {
    attempt([&] { write_sheet(outputs_, std::move(pictures_)); });
  } else if (!outputs_.grid.empty()) {
    left_out_.emplace_back("--grid");
  }
  return first_failure_;
}

}  // namespace troupe::actors
