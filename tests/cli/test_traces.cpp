// Traces of jobs of several processes.

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <utility>

#include "tests/cli/link_job.h"

namespace troupe::test {
namespace {

using Track = std::pair<int, int>;  // process and worker

Track track_of(const nlohmann::json& event) {
  return {event["pid"].get<int>(), event["tid"].get<int>()};
}

struct Trace {
  explicit Trace(const nlohmann::json& trace) {
    for (const auto& event : trace["traceEvents"]) {
      const std::string phase = event["ph"];
      if (phase == "X") {
        bars[track_of(event)].emplace(event["ts"].get<double>(),
                                      event["dur"].get<double>());
      } else if (phase == "s") {
        EXPECT_TRUE(begun.emplace(event["id"], event).second);
      } else if (phase == "f") {
        EXPECT_TRUE(ended.emplace(event["id"], event).second);
      } else if (event["name"] == "process_name") {
        processes[event["pid"]] = event["args"]["name"];
      } else if (event["name"] == "thread_name") {
        tracks[track_of(event)] = event["args"]["name"];
      }
    }
  }

  std::map<int, std::string> processes;
  std::map<Track, std::string> tracks;
  std::map<Track, std::multimap<double, double>> bars;  // start, duration
  std::map<int, nlohmann::json> begun;                  // arrows
  std::map<int, nlohmann::json> ended;
};

TEST(Trace, ShowsEveryProcessAndWhatMovedBetweenThem) {
  const TempFolder folder;
  // It takes long enough for both workers to come.
  LinkJob job({"--method", "pipeline", "--segments", "2", "-n", "16", "--steps",
               "50", "--trace", folder.path("trace.json")});
  job.add_worker();
  job.add_worker();
  const nlohmann::json result = job.finish();
  EXPECT_EQ(result["latents_xxh3"], job.alone()["latents_xxh3"])
      << "which is not traced";

  const Trace trace(nlohmann::json::parse(folder.read("trace.json")));
  for (const auto& node : result["nodes"]) {
    EXPECT_EQ(trace.processes.at(node["process"].get<int>() + 1),
              "troupe " + node["name"].get<std::string>());
  }
  ASSERT_EQ(trace.tracks.size(), 2U);
  std::set<int> computing;
  constexpr double kRounding = 2e-3;  // of times, in us
  for (const auto& [track, name] : trace.tracks) {
    computing.insert(track.first);
    EXPECT_EQ(name, "cpu, worker " + std::to_string(track.second));
    double last_end = 0;
    for (const auto& [start, duration] : trace.bars.at(track)) {
      EXPECT_GE(start, last_end - kRounding);
      last_end = start + duration;
    }
  }
  EXPECT_EQ(computing, (std::set{2, 3})) << "the first process directs only";
  EXPECT_EQ(trace.bars.size(), 2U) << "no bar without a track";

  ASSERT_EQ(trace.begun.size(), trace.ended.size());
  std::map<std::pair<int, int>, int> arrows;
  for (const auto& [id, from] : trace.begun) {
    const nlohmann::json& to = trace.ended.at(id);
    EXPECT_EQ(from["name"], to["name"]);
    EXPECT_NE(from["name"].get<std::string>().find("sample "),
              std::string::npos);
    EXPECT_GT(from["args"]["bytes"], 0);
    EXPECT_LE(from["ts"], to["ts"]);
    EXPECT_TRUE(trace.tracks.contains(track_of(from)));
    EXPECT_TRUE(trace.tracks.contains(track_of(to)));
    ++arrows[{from["pid"], to["pid"]}];
  }
  // A boundary goes to the second part, and its output comes back.
  EXPECT_GT((arrows[{2, 3}]), 50);
  EXPECT_GT((arrows[{3, 2}]), 50);
  EXPECT_EQ(arrows.size(), 2U);
}

}  // namespace
}  // namespace troupe::test
