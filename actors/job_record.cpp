#include "actors/job_record.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "actors/job_classes.h"
#include "actors/job_fields.h"
#include "actors/network_cuts.h"
#include "actors/plan.h"
#include "kernels/core/error.h"
#include "kernels/core/hash.h"
#include "kernels/core/text.h"
#include "models/network/block_cache.h"
#include "models/vae/tiled_decode.h"
#include "samplers/parallel/method.h"

namespace troupe::actors {
namespace {

/// Feeds fields to a hash so that no two records look alike: a field follows
/// its key, a text or a list its length, and numbers are hashed as bits.
class FieldHasher {
 public:
  explicit FieldHasher(Xxh3Stream& hash) : hash_(hash) {}

  template <typename T>
  void operator()(const FieldKey& key, const T& value) {
    // A field that came later changes no name of a job without it.
    if constexpr (MaybeUnset<T>) {
      if (key.is_absent && !value) {
        return;
      }
    } else if constexpr (requires { value.empty(); }) {
      if (key.is_absent && value.empty()) {
        return;
      }
    }
    add(std::string_view(key.name));
    add(value);
  }

 private:
  void number(std::uint64_t value) {
    hash_.update(std::as_bytes(std::span(&value, 1)));
  }
  void add(std::string_view text) {
    number(text.size());
    hash_.update(std::as_bytes(std::span(text)));
  }
  void add(const std::string& text) { add(std::string_view(text)); }
  void add(double value) { number(std::bit_cast<std::uint64_t>(value)); }
  void add(float value) { number(std::bit_cast<std::uint32_t>(value)); }
  template <std::integral T>
  void add(T value) {
    number(static_cast<std::uint64_t>(value));
  }
  template <config::NamedEnum T>
  void add(T value) {
    add(config::name_of(value));
  }
  template <NamedRow T>
  void add(const T& row) {
    add(name_of_row(row));
  }
  template <HasFields T>
  void add(const T& record) {
    visit_fields(*this, record);
  }
  /// The same model may lie in a folder of another name, and be read whole.
  void add(const ModelRecord& model) {
    ModelRecord same = model;
    same.name.clear();
    same.tensors_xxh3.clear();
    visit_fields(*this, std::as_const(same));
  }
  template <MaybeUnset T>
  void add(const T& value) {
    number(value ? 1 : 0);
    if (value) {
      add(*value);
    }
  }
  template <typename T>
  void add(const std::vector<T>& values) {
    number(values.size());
    for (const T& value : values) {
      add(value);
    }
  }

  Xxh3Stream& hash_;
};

[[noreturn]] void refuse(const std::string& field, const std::string& what) {
  throw Error(Errc::corrupt_file, "job record", field + ": " + what,
              "submit the job again");
}

void expect(bool good, const char* field, const std::string& what) {
  if (!good) {
    refuse(field, what);
  }
}

/// Runs a check of another folder; its errors become the record's.
template <typename Body>
auto as_field(const char* field, const Body& body) {
  try {
    return body();
  } catch (const Error& error) {
    if (error.code() == Errc::unsupported) {
      throw;
    }
    refuse(field, error.place() + ": " + error.message());
  }
}

Shape shape_of(const JobRecord& job) {
  constexpr std::int64_t kMostElements = std::int64_t{1} << 32U;
  expect(
      !job.latent_shape.empty() && job.latent_shape.size() <= Shape::kMaxRank,
      "latent_shape",
      "got " + std::to_string(job.latent_shape.size()) +
          " extents, expected 1 to " + std::to_string(Shape::kMaxRank));
  std::int64_t elements = 1;
  for (const std::int64_t extent : job.latent_shape) {
    expect(extent >= 1 && extent <= kMostElements / elements, "latent_shape",
           "an extent is out of range: " + std::to_string(extent));
    elements *= extent;
  }
  return Shape(job.latent_shape);
}

void check_cuts(const JobRecord& job, const models::DenoiserInfo& info) {
  const auto num_blocks = static_cast<int>(info.blocks.size());
  const auto segments =
      static_cast<std::size_t>(samplers::num_segments(job.method));
  expect(job.cuts.size() == segments + 1 && job.cuts.front() == 0 &&
             job.cuts.back() == num_blocks &&
             std::ranges::adjacent_find(job.cuts, std::greater_equal<>()) ==
                 job.cuts.end(),
         "cuts",
         "expected " + counted(segments, "segment") +
             " that go from block 0 to " + std::to_string(num_blocks) +
             " in order");
  expect(job.method.cut == samplers::CutShape::chain ||
             keep_skips_at_home(info.skips, job.cuts),
         "cuts", "a skip crosses a cut of an onion");
  const int parts = samplers::num_network_parts(job.method);
  expect(are_speeds_of(job.method.segment_speeds, parts),
         "method.segment_speeds",
         "expected none, or a positive number for each of " +
             counted(static_cast<std::size_t>(parts), "part"));
}

/// The number of hashes of given tensors: one for each sample, or one for all.
void check_hashes(const char* field, const std::vector<std::uint64_t>& hashes,
                  const JobRecord& job) {
  expect(hashes.size() <= 1 || hashes.size() >= job.end, field,
         "got " + std::to_string(hashes.size()) +
             " hashes, expected none, one, or one per sample");
}

void check_samples(const JobRecord& job) {
  // As --samples has it.
  constexpr std::uint64_t kMostSamples = 10'000'000;
  constexpr std::uint64_t kMostIndex = std::uint64_t{1} << 48U;
  expect(job.begin < job.end && job.end <= kMostIndex &&
             job.end - job.begin <= kMostSamples,
         "begin, end",
         "no range of samples: " + std::to_string(job.begin) + " to " +
             std::to_string(job.end));
  check_hashes("init_latents", job.init_latents, job);
  check_hashes("guesses", job.guesses, job);
}

void check_branches(const JobRecord& job,
                    const models::DenoiserDescription& denoiser,
                    const models::DenoiserInfo& info) {
  expect(std::isfinite(job.guidance.scale), "guidance_scale",
         "expected a finite number");
  expect(job.guidance.rescale >= 0 && job.guidance.rescale <= 1,
         "guidance_rescale", "expected a number from 0 to 1");
  const auto& interval = job.guidance.interval;
  expect(!interval || (interval->low >= 0 && interval->low < interval->high),
         "guidance_interval", "expected two noise levels in rising order");
  expect(!job.conditions.empty(), "conditions", "there are none");
  expect(job.unconditional.empty() || info.num_classes > 0 ||
             denoiser.prompt_width() > 0,
         "unconditional", "the model has one branch");
}

void check_tiles(const JobRecord& job, const models::ModelDescription& model,
                 const Shape& latents) {
  if (job.vae_tile == 0) {
    return;
  }
  expect(model.decoder && job.vae_tile == model.decoder->tile_side() &&
             models::exceeds_tile(latents, job.vae_tile),
         "vae_tile",
         "got " + std::to_string(job.vae_tile) + ", expected 0" +
             (model.decoder ? " or, for larger pictures, the decoder's own " +
                                  std::to_string(model.decoder->tile_side())
                            : std::string()));
}

bool computes(DType dtype) {
  return dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16;
}

void check_classes(const JobRecord& job) {
  constexpr std::size_t kMostClasses = 4096;
  expect(!job.execution_classes.empty() &&
             job.execution_classes.size() <= kMostClasses,
         "execution_classes",
         "got " + std::to_string(job.execution_classes.size()) +
             ", expected 1 to " + std::to_string(kMostClasses));
  for (const ClassRecord& one : job.execution_classes) {
    expect(is_class_name(one.name), "execution_classes",
           "a name is not 16 hexadecimal digits");
    expect(computes(one.dtype), "execution_classes",
           "nothing computes in " + std::string(to_string(one.dtype)));
    const bool is_cpu = one.device == DeviceKind::cpu;
    expect(!is_cpu || (one.architecture.empty() && one.batch_invariant &&
                       !one.tf32 && one.dtype != DType::f16),
           "execution_classes", "the CPU has what only GPUs have");
    expect(is_cpu || !one.isa, "execution_classes",
           "a GPU has a level of the CPU");
  }
  expect(!job.dtype || computes(*job.dtype), "dtype", "nothing computes in it");
}

void check_picture(const JobRecord& job, const models::ModelDescription& model,
                   const Shape& latents) {
  const auto is_side = [](std::int64_t side) {
    return side >= 1 && side <= config::kMostPixelsPerSide;
  };
  const std::vector<std::int64_t>& sides = job.picture_size;
  expect(
      sides.empty() ||
          (sides.size() == 2 && !models::LatentGeometry::of(latents).frames &&
           model.decoder != nullptr && std::ranges::all_of(sides, is_side)),
      "picture_size",
      "expected none, or two sides of 1 to " +
          std::to_string(config::kMostPixelsPerSide) +
          " pixels for pictures that are decoded");
}

/// row: the shape of what belongs to one hash.
void check_given(const char* field, const std::vector<std::uint64_t>& hashes,
                 const Tensor& given, const Shape& row) {
  if (hashes.empty()) {
    return expect(given.empty(), field, "values that nobody names");
  }
  const Shape shape = with_rows(static_cast<std::int64_t>(hashes.size()), row);
  expect(
      !given.empty() && given.dtype() == DType::f32 && given.shape() == shape,
      field, "expected f32 of " + to_string(shape));
  for (std::size_t i = 0; i < hashes.size(); ++i) {
    expect(
        xxh3_64(given.item(static_cast<std::int64_t>(i)).bytes()) == hashes[i],
        field, "row " + std::to_string(i) + " has another hash");
  }
}

/// Checks the record and returns the model that it describes.
models::ModelDescription checked_model(const JobRecord& job,
                                       models::DenoiserTable table) {
  models::ModelDescription model = describe(job.model, table);
  expect(std::ranges::is_sorted(job.model.tensors_xxh3), "tensors_xxh3",
         "they are not sorted");
  const Shape latents = shape_of(job);
  expect(latents.rank() == model.denoiser->latent_shape().rank() &&
             model.denoiser->nearest_latents(latents) == latents,
         "latent_shape", "the model takes no latents of " + to_string(latents));
  const models::DenoiserInfo info = model.denoiser->info(latents, DType::f32);
  check_samples(job);
  check_branches(job, *model.denoiser, info);
  check_classes(job);
  check_picture(job, model, latents);
  check_tiles(job, model, latents);
  expect(
      !job.ring_blocks ||
          (*job.ring_blocks > 1 && *job.ring_blocks <= info.most_ring_blocks),
      "ring_blocks",
      "got " + std::to_string(job.ring_blocks.value_or(0)) +
          ", expected none or 2 to " + std::to_string(info.most_ring_blocks));
  const samplers::Schedule schedule = as_field(
      "schedule", [&] { return samplers::Schedule::from_table(job.schedule); });
  expect(job.guesses.empty() ==
             (job.method.initial_guess != samplers::InitialGuess::trajectory),
         "guesses", "expected trajectories where guesses come from them alone");
  expect(!job.method.kind.has(samplers::Modifier::cache) ||
             models::can_leave_out_blocks(info),
         "method", "kind: the network has no blocks that +cache can leave out");
  // A plan of its tasks is made.
  const auto num_blocks = static_cast<int>(info.blocks.size());
  expect(samplers::num_network_parts(job.method) <= num_blocks, "method",
         "num_segments: expected no more than " + counted(num_blocks, "block"));
  as_field("method",
           [&] { (void)samplers::make_method(job.method, schedule); });
  check_cuts(job, info);
  return model;
}

}  // namespace

int JobRecord::num_guided_calls() const {
  return static_cast<int>(std::ranges::count_if(
      std::span(schedule.sigmas).first(schedule.timesteps.size()),
      [this](double sigma) { return guidance.is_on_at(sigma); }));
}

std::size_t JobRecord::num_used(
    const std::vector<std::uint64_t>& conditions) const {
  return static_cast<std::size_t>(
      std::min<std::uint64_t>(conditions.size(), end - begin));
}

std::uint64_t hash_of(const JobRecord& job) {
  Xxh3Stream hash;
  FieldHasher hasher(hash);
  visit_fields(hasher, job);
  return hash.digest();
}

models::ModelDescription describe(const ModelRecord& model,
                                  models::DenoiserTable table) {
  return as_field("model", [&] {
    models::ModelDescription description;
    const models::Json config =
        models::Json::parse(model.denoiser_config, "denoiser_config");
    description.denoiser =
        models::find_denoiser(config, config.string("_class_name", ""), table)
            .describe(config);
    if (!model.decoder_config.empty()) {
      description.decoder = models::describe_decoder(
          models::Json::parse(model.decoder_config, "decoder_config"));
      models::check_fit(description, "decoder_config");
    }
    return description;
  });
}

void check(const JobRecord& job, models::DenoiserTable table) {
  (void)checked_model(job, table);
}

void check(const JobRecord& job, const JobValues& values,
           models::DenoiserTable table) {
  const models::ModelDescription model = checked_model(job, table);
  std::vector<std::uint64_t> wanted = job.conditions;
  wanted.insert(wanted.end(), job.unconditional.begin(),
                job.unconditional.end());
  std::erase(wanted, 0U);
  for (const std::uint64_t hash : wanted) {
    const auto found = values.conditions.find(hash);
    expect(found != values.conditions.end() && found->second.hash() == hash,
           "conditions", "there is no value with the hash " + to_hex(hash));
    as_field("conditions",
             [&] { model.denoiser->check_condition(found->second.get()); });
  }
  const Shape latents(job.latent_shape);
  check_given("init_latents", job.init_latents, values.init_latents, latents);
  check_given(
      "guesses", job.guesses, values.guesses,
      with_rows(static_cast<std::int64_t>(job.schedule.timesteps.size() + 1),
                latents));
}

}  // namespace troupe::actors
