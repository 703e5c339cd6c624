#include "actors/artefacts/trace_writer.h"

#include <fmt/format.h>

#include <array>
#include <fstream>
#include <set>
#include <string_view>

#include "kernels/core/error.h"

namespace troupe::actors {
namespace {

constexpr std::string_view kOpening =
    "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n"
    "{\"ph\":\"M\",\"pid\":1,\"name\":\"process_name\",\"args\":{\"name\":"
    "\"troupe\"}}";

/// By samplers::Op.
constexpr std::array kOps = {"evaluate", "segment", "combine",
                             "step",     "sweep",   "decode"};

double microseconds(Duration duration) {
  return std::chrono::duration<double, std::micro>(duration).count();
}

}  // namespace

std::string trace_json(const std::deque<TraceSpan>& spans, TimePoint start) {
  std::string text(kOpening);
  std::set<int> workers;
  for (const TraceSpan& span : spans) {
    workers.insert(span.worker);
  }
  for (const int worker : workers) {
    text += fmt::format(
        ",\n{{\"ph\":\"M\",\"pid\":1,\"tid\":{0},\"name\":\"thread_name\","
        "\"args\":{{\"name\":\"worker {0}\"}}}}",
        worker);
  }
  for (const TraceSpan& span : spans) {
    text += fmt::format(
        ",\n{{\"ph\":\"X\",\"pid\":1,\"tid\":{},\"name\":\"{}\","
        "\"ts\":{:.3f},\"dur\":{:.3f},\"args\":{{\"sample\":{},\"step\":{},"
        "\"segment\":{},\"rows\":{}}}}}",
        span.worker, kOps.at(static_cast<std::size_t>(span.op)),
        microseconds(span.start - start), microseconds(span.duration),
        span.sample_index, span.step, span.segment, span.rows);
  }
  return text + "\n]}\n";
}

bool is_trace(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  require(file.is_open(), Errc::io, path.string(), "cannot read the file",
          "check its permissions");
  std::string head(kOpening.size(), '\0');
  file.read(head.data(), static_cast<std::streamsize>(head.size()));
  return file && head == kOpening;
}

}  // namespace troupe::actors
