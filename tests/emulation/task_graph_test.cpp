#include "actors/emulation/task_graph.h"

#include <gtest/gtest.h>

#include <vector>

namespace troupe::actors::emulation {
namespace {

using samplers::Op;
using samplers::Slot;

constexpr std::uint64_t kBytes = 125'000;  // a millisecond at 1 Gbit/s

SampleTask evaluation(samplers::Slots inputs, Slot output, int part = 0) {
  SampleTask work;
  work.task.op = Op::evaluate;
  work.task.part = part;
  work.task.inputs = std::move(inputs);
  work.task.outputs = {output};
  return work;
}

/// Each in a pass of its own.
TaskGraph graph_of(const std::vector<SampleTask>& tasks) {
  GraphRecorder recorder;
  for (const SampleTask& work : tasks) {
    recorder.begin({&work, 1}, 1.0);
    for (const Slot slot : work.task.outputs) {
      recorder.made({work.sample_index, work.run, slot}, kBytes);
    }
  }
  return recorder.take();
}

Machine machine_of(std::vector<double> speeds) {
  return {.step_ms = 100, .speeds = std::move(speeds), .link_us = 500};
}

TEST(TaskGraph, HasALongestChain) {
  const TaskGraph graph =
      graph_of({evaluation({0}, 1), evaluation({0}, 2), evaluation({1}, 3),
                evaluation({2, 3}, 4), evaluation({0}, 5)});
  const Bounds bounds = bounds_of(graph, machine_of({1, 2}), {}, 1, 0);
  EXPECT_DOUBLE_EQ(bounds.critical_path, 3 * 0.1 / 2);
  EXPECT_DOUBLE_EQ(bounds.work, 5 * 0.1 / 3);
  EXPECT_DOUBLE_EQ(bounds.lower(), bounds.work);
}

TEST(TaskGraph, SendsValuesWhereThePlanDivides) {
  const TaskGraph graph = graph_of(
      {evaluation({0}, 1, 0), evaluation({1}, 2, 1), evaluation({2}, 3, 0)});
  const double way = 0.001 + 0.0005;
  const Machine two = machine_of({1, 1});
  const Bounds apart = bounds_of(graph, two, {.num_parts = 2}, 1, 2 * kBytes);
  EXPECT_DOUBLE_EQ(apart.critical_path, 0.3 + 2 * way);
  EXPECT_DOUBLE_EQ(apart.list_schedule, 0.3 + 2 * way);
  EXPECT_DOUBLE_EQ(apart.traffic, 0.001);
  // One device has both parts.
  const Bounds alone =
      bounds_of(graph, machine_of({1}), {.num_parts = 2}, 1, 0);
  EXPECT_DOUBLE_EQ(alone.critical_path, 0.3);
  EXPECT_DOUBLE_EQ(alone.list_schedule, 0.3);
  // A group of three devices, and one that has all parts.
  const Bounds either =
      bounds_of(graph, machine_of({1, 1, 1, 1}), {.num_parts = 3}, 1, 0);
  EXPECT_DOUBLE_EQ(either.critical_path, 0.3);
}

TEST(TaskGraph, CannotShareThePartOfADevice) {
  const TaskGraph graph = graph_of(
      {evaluation({0}, 1, 0), evaluation({0}, 2, 0), evaluation({0}, 3, 1)});
  EXPECT_DOUBLE_EQ(
      bounds_of(graph, machine_of({1, 1}), {.num_parts = 2}, 1, 0).work, 0.2);
  EXPECT_DOUBLE_EQ(
      bounds_of(graph, machine_of({1, 1, 1, 3}), {.num_parts = 2}, 1, 0).work,
      0.1);
}

TEST(TaskGraph, FillsPassesInItsWork) {
  const TaskGraph graph = graph_of({evaluation({0}, 1), evaluation({0}, 2)});
  Machine machine = machine_of({1});
  machine.row_slope = 0.5;
  EXPECT_DOUBLE_EQ(bounds_of(graph, machine, {}, 2, 0).work, 0.15);
  machine.row_slope = 3;
  EXPECT_DOUBLE_EQ(bounds_of(graph, machine, {}, 2, 0).work, 0.2);
}

TEST(TaskGraph, IsListScheduledWhereItEndsFirst) {
  // Two evaluations at the fast device end before one at the slow.
  const TaskGraph graph = graph_of({evaluation({0}, 1), evaluation({0}, 2),
                                    evaluation({0}, 3), evaluation({0}, 4)});
  EXPECT_DOUBLE_EQ(bounds_of(graph, machine_of({1, 3}), {.spreads = true}, 1, 0)
                       .list_schedule,
                   0.1);
}

/// A sweep waits for the pass that runs, not for those that are planned.
TEST(TaskGraph, RunsWhatTakesNoTimeBetweenPasses) {
  SampleTask sweep = evaluation({1}, 4);
  sweep.task.op = Op::sweep;
  const TaskGraph graph =
      graph_of({evaluation({0}, 1), evaluation({0}, 2), evaluation({0}, 3),
                sweep, evaluation({4}, 5)});
  const Bounds bounds = bounds_of(graph, machine_of({1}), {}, 1, 0);
  EXPECT_DOUBLE_EQ(bounds.list_schedule, 0.4);
  EXPECT_DOUBLE_EQ(bounds.critical_path, 0.2);
}

TEST(Links, TakeOneValueAtATimeAtEachEnd) {
  const Machine machine = machine_of({1, 1, 1});
  Links links(machine);
  using std::chrono::microseconds;
  const TimePoint start{};
  EXPECT_EQ(links.send(0, 1, kBytes, start), start + microseconds(1500));
  EXPECT_EQ(links.send(0, 2, kBytes, start), start + microseconds(2500));
  EXPECT_EQ(links.send(2, 1, kBytes, start), start + microseconds(2500));
  EXPECT_EQ(links.send(1, 0, kBytes, start), start + microseconds(1500));
}

}  // namespace
}  // namespace troupe::actors::emulation
