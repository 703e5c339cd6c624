#include "actors/cli/preview_writer.h"

#include <algorithm>
#include <utility>

#include "actors/artefacts/png.h"
#include "actors/artefacts/png_chunks.h"
#include "kernels/core/pool.h"
#include "kernels/core/system/atomic_file.h"
#include "kernels/core/text.h"

namespace troupe::actors {
namespace {

// What waits is bounded otherwise: previews by kMostWaiting, pictures of
// finished samples by their credit.
constexpr std::size_t kNeverFull = 1U << 16U;

}  // namespace

PreviewWriter::PreviewWriter(const RunOutputs& outputs, Decode decode)
    : outputs_(outputs),
      decode_(std::move(decode)),
      followed_(outputs.preview_samples.begin),
      thread_(kNeverFull) {
  follow_the_next();
}

/// One file shows one sample until it has ended, then the next.
bool PreviewWriter::shows(std::uint64_t index) const {
  return outputs_.is_previewed(index) &&
         (!outputs_.preview->is_one_file() || index == followed_);
}

void PreviewWriter::follow_the_next() {
  while (followed_ < outputs_.preview_samples.end &&
         (outputs_.is_skipped(followed_) || ended_.erase(followed_) > 0)) {
    ++followed_;
  }
}

void PreviewWriter::show(const Preview& preview) {
  const std::uint64_t index = preview.sample_index;
  if (!shows(index) || is_off_) {
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    if (!waiting_.insert_or_assign(index, preview.latents).second) {
      return;
    }
    order_.push_back(index);
    if (order_.size() > kMostWaiting) {
      waiting_.erase(order_.front());
      order_.pop_front();
      ++num_left_out_;
      return;  // what was to make it makes another
    }
  }
  thread_.post([this] { make_next(); });
}

void PreviewWriter::forget(std::uint64_t index) {
  const std::lock_guard lock(mutex_);
  if (waiting_.erase(index) > 0) {
    std::erase(order_, index);
  }
}

void PreviewWriter::end(const SampleOutcome& outcome) {
  const std::uint64_t index = outcome.report.sample_index;
  if (!outputs_.is_previewed(index)) {
    return;
  }
  if (shows(index) && !outcome.pixels.empty()) {
    forget(index);
    thread_.post(
        [this, index, pixels = outcome.pixels, receipt = outcome.receipt] {
          write(index, [&pixels] { return pixels; });
        });
  }
  if (outputs_.preview->is_one_file()) {
    ended_.insert(index);
    follow_the_next();
  }
}

void PreviewWriter::make_next() {
  std::uint64_t index = 0;
  Tensor latents;
  {
    const std::lock_guard lock(mutex_);
    if (order_.empty()) {
      return;  // the finished picture is there already
    }
    index = order_.front();
    order_.pop_front();
    latents = std::move(waiting_.extract(index).mapped());
  }
  use_one_openmp_thread();
  write(index, [&] { return decode_(latents); });
}

void PreviewWriter::flush() {
  thread_.flush();
  const std::lock_guard lock(mutex_);
  if (num_left_out_ > 0 && note_.empty()) {
    note_ = counted(num_left_out_, "preview") +
            " left out: they came faster than they could be written";
  }
}

/// A failure here ends the previews only. The job does not depend on them.
void PreviewWriter::write(std::uint64_t index,
                          const std::function<Tensor()>& make_pixels) {
  if (is_off_) {
    return;
  }
  try {
    Image image = to_image(make_pixels());
    image.kind = PictureKind::preview;
    const std::string path = outputs_.preview->path(index).string();
    write_file(path, encode_png(image), rule_for(path));
    last_[path] = stamp_of(path);
  } catch (...) {
    const Failure failure = current_failure();
    // The next one may find memory again.
    const bool is_short = failure.code == Errc::out_of_memory ||
                          failure.code == Errc::device_full;
    is_off_ = !is_short;
    if (failure.code != Errc::interrupted &&
        failure.code != Errc::device_lost) {  // the job reports these
      note_ = (is_short ? "a preview was left out: [" : "no more previews: [") +
              failure.place + "] " + failure.message;
    }
  }
}

/// Previews replace each other. With --exists skip they also replace those of
/// an earlier run.
FileRule PreviewWriter::rule_for(const std::string& path) const {
  FileRule rule = outputs_.rule_for(path);
  const auto last = last_.find(path);
  if (last != last_.end() && last->second) {
    rule.known = last->second;
  }
  if (outputs_.exists == config::ExistsPolicy::skip) {
    const std::optional<FileStamp> there = stamp_of(path);
    const CheckedPng png = there ? check_png(path) : CheckedPng();
    if (png.kind == PictureKind::preview || png.is_wreck) {
      rule.known = there;
    }
  }
  return rule;
}

}  // namespace troupe::actors
