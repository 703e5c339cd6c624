#include "actors/cli/artefact_observer.h"

#include <algorithm>
#include <cstring>

#include "actors/artefacts/contact_sheet.h"
#include "actors/artefacts/trace_writer.h"
#include "actors/cli/image_recipe.h"
#include "actors/cli/latents_file.h"
#include "kernels/core/atomic_file.h"
#include "kernels/core/pool.h"

namespace troupe::actors {
namespace {

Tensor stacked(const std::vector<Tensor>& items) {
  std::vector<std::int64_t> extents = {static_cast<std::int64_t>(items.size())};
  const auto item = items.front().shape().extents();
  extents.insert(extents.end(), item.begin(), item.end());
  Tensor all(Shape(extents), DType::f32);
  std::byte* out = all.bytes().data();
  for (const Tensor& tensor : items) {
    std::memcpy(out, tensor.bytes().data(), tensor.num_bytes());
    out += tensor.num_bytes();
  }
  return all;
}

}  // namespace

ArtefactObserver::ArtefactObserver(const JobRequest& request,
                                   const JobRunner& runner,
                                   const RunOutputs& outputs)
    : request_(request), runner_(runner), outputs_(outputs) {}

void ArtefactObserver::on_sample(const SampleOutcome& outcome) {
  if (outcome.report.status != SampleStatus::done) {
    return;
  }
  const std::uint64_t index = outcome.report.sample_index;
  const config::Recipe recipe = runner_.recipe_of(index, outcome.latents);
  ImageSummary summary{.index = index,
                       .seed = request_.seed,
                       .class_id = recipe.class_id,
                       .class_name = recipe.class_name,
                       .path = {},
                       .latents_xxh3 = recipe.latents_xxh3,
                       .message = {}};
  latents_.emplace(index, outcome.latents);
  if (!outcome.pixels.empty()) {
    Image image = to_image(outcome.pixels);
    image.recipe = config::to_json(recipe);
    if (!outputs_.grid.empty()) {
      pictures_[index] = image;
    }
    if (outputs_.images) {
      summary.path = outputs_.images->path(index).string();
      store_.post([this, index, image = std::move(image)] {
        outputs_.images->write(index, encode_png(image));
      });
    }
  }
  images_.emplace(index, std::move(summary));
}

void ArtefactObserver::on_preview(const Preview& preview) {
  // One picture stands for the run; while it is being made, newer ones pass.
  if (!outputs_.preview.empty() &&
      preview.sample_index == request_.samples.begin &&
      !preview_pending_.exchange(true)) {
    write_preview(preview.latents);
  }
}

void ArtefactObserver::write_preview(const Tensor& latents) {
  store_.post([this, latents] {
    use_one_openmp_thread();
    Tensor pixels;
    runner_.decode(preview_context_, latents, pixels);
    write_file(outputs_.preview, encode_png(to_image(pixels)));
    preview_pending_ = false;
  });
}

void ArtefactObserver::on_point(const TrajectoryPoint& point) {
  trajectory_[point.sample_index].insert_or_assign(point.calls, point.latents);
}

void ArtefactObserver::on_span(const TraceSpan& span) {
  spans_.push_back(span);
}

void ArtefactObserver::flush() { store_.flush(); }

std::vector<Image> ArtefactObserver::sheet_images() const {
  std::vector<Image> pictures;
  for (std::uint64_t i = request_.samples.begin; i < request_.samples.end;
       ++i) {
    const auto found = pictures_.find(i);
    if (found != pictures_.end()) {
      pictures.push_back(found->second);
    } else if (outputs_.images &&
               std::ranges::binary_search(outputs_.skipped, i)) {
      pictures.push_back(read_image(outputs_.images->path(i).string()));
    }
  }
  return pictures;
}

void ArtefactObserver::finish(TimePoint start) {
  flush();
  if (!outputs_.grid.empty()) {
    const std::vector<Image> pictures = sheet_images();
    if (!pictures.empty()) {
      write_file(outputs_.grid, encode_png(contact_sheet(pictures)));
    }
  }
  if (!outputs_.latents.empty() && !latents_.empty()) {
    std::vector<Tensor> items;
    for (const auto& [index, latents] : latents_) {
      items.push_back(latents);
    }
    const std::vector<NamedTensor> tensors = {{"latents", stacked(items)}};
    write_tensors(outputs_.latents, tensors);
  }
  write_trajectory();
  if (!outputs_.trace.empty()) {
    const std::string text = trace_json(spans_, start);
    write_file(outputs_.trace, std::as_bytes(std::span(text)));
  }
}

void ArtefactObserver::write_trajectory() const {
  std::vector<Tensor> samples;
  for (const auto& [index, points] : trajectory_) {
    if (!latents_.contains(index)) {
      continue;  // it failed or was stopped on its way
    }
    std::vector<Tensor> items;
    for (const auto& [calls, latents] : points) {
      items.push_back(latents);
    }
    samples.push_back(stacked(items));
  }
  if (!samples.empty()) {
    const std::vector<NamedTensor> tensors = {{"trajectory", stacked(samples)}};
    write_tensors(outputs_.trajectory, tensors);
  }
}

std::string ArtefactObserver::latents_xxh3() const {
  Xxh3Stream hash;
  for (const auto& [index, latents] : latents_) {
    hash.update(latents.bytes());
  }
  return to_hex(hash.digest());
}

}  // namespace troupe::actors
