#include "actors/cli/job_encoding.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

#include "actors/cli/encoder_device.h"
#include "kernels/core/error.h"
#include "kernels/core/log.h"
#include "kernels/core/pool.h"
#include "kernels/core/system/machine.h"
#include "kernels/core/text.h"

namespace troupe::actors {
namespace {

/// What the cache has not, encoded here.
void encode_here(const EncodingRecord& record, PromptEncoders encoders,
                 const JobDevice& by, TextCache& cache, StopFlag& stop,
                 EncodedTexts& encoded) {
  ExecContext ctx(num_usable_cores(), by.device, by.options);
  const std::stop_callback action(stop.token(), [&ctx] { ctx.request_stop(); });
  (void)encode_texts(
      ctx, record, encoders,
      [&](std::size_t text, const models::EncodedText& made,
          std::uint64_t weights) {
        cache.keep(text, made, weights);
        encoded.put(text, made);
      },
      [&](std::size_t encoder, std::uint64_t weights) {
        if (const std::size_t more =
                cache.find_more(encoder, weights, encoded)) {
          log_message(LogLevel::info,
                      fmt::format("{}: {} encoded before with these weights",
                                  record.encoders[encoder].name,
                                  counted(more, "text")));
        }
      });
}

/// The same, encoded by another process. Returns the class, device and dtype
/// that encoded the texts.
EncodedBy take_from(EncodedElsewhere its, const EncodingRecord& record,
                    const JobDevice& by, TextCache& cache,
                    EncodedTexts& encoded) {
  if (its.execution_class != record.execution_class) {
    // One class encodes all texts: kept texts of our class are not used.
    encoded = std::move(its.encoded);
    return {its.encoder_class, its.device, record.dtype};
  }
  for (std::size_t i = 0; i < record.texts.size(); ++i) {
    const EncodingText& text = record.texts[i];
    if (text.is_kept) {
      its.encoded.put(i, encoded.get(i));
      continue;
    }
    const auto e = static_cast<std::size_t>(text.encoder);
    note_hash(encoded.weights_xxh3[e], its.encoded.weights_xxh3[e]);
    if (cache.is_used()) {
      cache.keep(i, its.encoded.get(i), encoded.weights_xxh3[e]);
    }
  }
  its.encoded.weights_xxh3 = std::move(encoded.weights_xxh3);
  encoded = std::move(its.encoded);
  return {encoder_class_of(by, encoded.weights_xxh3), by.device.kind,
          by.compute};
}

double seconds_from(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
      .count();
}

JobConditions encode_by(const JobPrompts& prompts, const JobDevice& by,
                        StopFlag& stop, const ConditionFinisher& finish,
                        std::optional<DeviceKind> only,
                        const Elsewhere& elsewhere) {
  const auto start = std::chrono::steady_clock::now();
  const PromptSource& source = *prompts.source;
  PromptSource::Work work =
      source.work_of(by, prompts.tokens, prompts.clip_skips());
  work.record.device = only;
  TensorStore::check_room(source.num_bytes(work),
                          "encode fewer prompts at a time");
  TextCache cache(work.record, source.encoders(), prompts.cache);
  EncodedTexts encoded = cache.find();
  const auto num_kept =
      std::ranges::count_if(work.record.texts, &EncodingText::is_kept);
  if (!prompts.cache.empty()) {
    log_message(
        LogLevel::info,
        fmt::format("--cache {}: {} encoded before", prompts.cache,
                    counted(static_cast<std::uint64_t>(num_kept), "text")));
  }
  JobConditions result;
  if (elsewhere && num_kept < std::ssize(work.record.texts)) {
    EncodedElsewhere its = elsewhere(work.record, source.encoders());
    result.encode_seconds = its.seconds;
    result.encoded_by =
        take_from(std::move(its), work.record, by, cache, encoded);
  } else {
    if (num_kept < std::ssize(work.record.texts)) {
      encode_here(work.record, source.encoders(), by, cache, stop, encoded);
    }
    result.encode_seconds = seconds_from(start);
    result.encoded_by = {encoder_class_of(by, encoded.weights_xxh3),
                         by.device.kind, by.compute};
  }
  result.each = source.conditions(work, encoded, finish);
  const auto negatives = result.each.begin() + std::ssize(prompts.texts);
  result.unconditional.assign(std::make_move_iterator(negatives),
                              std::make_move_iterator(result.each.end()));
  result.each.erase(negatives, result.each.end());
  if (result.unconditional.size() == 1) {  // every sample uses it: in memory
    result.unconditional = {result.unconditional.front().get()};
  }
  if (prompts.is_guided && result.unconditional.empty()) {
    const auto first = std::ranges::find_if(
        result.each, [](const auto& one) { return one.hash() != 0; });
    if (auto zeros = source.no_negative(first->get())) {
      finish(*zeros, true);
      result.unconditional.emplace_back(*std::move(zeros));
    }
  }
  return result;
}

/// Whether the CPU can take over what a GPU could not do.
bool is_for_cpu(const Error& error, const JobDevice& by,
                const PromptSource& source, const JobDevice& cpu) {
  return by.is_gpu() &&
         (error.code() == Errc::device_lost ||
          error.code() == Errc::device_full) &&
         source.memory(cpu).host <= memory_info().available_bytes;
}

/// On `by`, or on the CPU if that is a GPU that fails.
JobConditions encode_in_any_case(const JobPrompts& prompts, const JobDevice& by,
                                 StopFlag& stop,
                                 const ConditionFinisher& finish,
                                 std::optional<DeviceKind> only,
                                 const Elsewhere& elsewhere) {
  const JobDevice cpu{.compute = encoder_dtype_on_cpu(by.compute)};
  try {
    return encode_by(prompts, by, stop, finish, only, elsewhere);
  } catch (const Error& error) {
    if (!is_for_cpu(error, by, *prompts.source, cpu)) {
      throw;
    }
    log_message(LogLevel::warning,
                fmt::format("the CPU encodes the prompts, since {} cannot: {}",
                            to_string(by.device), error.what()));
  }
  return encode_by(prompts, cpu, stop, finish, only, elsewhere);
}

}  // namespace

JobConditions encode(const JobPrompts& prompts, const JobDevice& by,
                     StopFlag& stop, const ConditionFinisher& finish,
                     std::optional<DeviceKind> only,
                     const Elsewhere& elsewhere) {
  if (!prompts.given.empty()) {
    return {prompts.given, prompts.given_negative};
  }
  try {
    return encode_in_any_case(prompts, by, stop, finish, only, elsewhere);
  } catch (const Error&) {
    stop.check("prompt", "stopped before it was encoded");
    throw;
  }
}

}  // namespace troupe::actors
