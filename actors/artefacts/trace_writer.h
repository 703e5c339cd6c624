#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "actors/grant.h"

namespace troupe::actors {

/// A timeline in the Chrome trace format, as Perfetto and chrome://tracing
/// read it: one track per worker, one bar per span with what ran as its name
/// and sample, step, segment and rows as arguments. Times count from `start`.
/// Source: "Trace Event Format", the "X" (complete) and "M" (metadata) events.
[[nodiscard]] std::string trace_json(std::span<const TraceSpan> spans,
                                     TimePoint start);

/// Whether the file begins as trace_json's texts do. Errors: Errc::io.
[[nodiscard]] bool is_trace(const std::filesystem::path& path);

}  // namespace troupe::actors
