// Compares compiled pipelines in the simulator and on ranks: both do the same in the same order.
// bench/sleep_bench.cpp compares their times.
#include "sleeping_pipeline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "compiler/schedule/clock.h"
#include "runtime/runtime/runtime.h"

namespace tessera {
namespace {

constexpr double kUnit = 0.01;  // seconds

StageWork units(double forward, double input_gradient, double weight_gradient) {
  return {Seconds(forward * kUnit), Seconds(input_gradient * kUnit),
          Seconds(weight_gradient * kUnit)};
}

std::shared_ptr<const TaskGraph> graph_of(const std::vector<StageWork>& stages,
                                          const SleepingStages& placed, int64_t micro_batches,
                                          PipelineKind kind) {
  return std::make_shared<const TaskGraph>(
      sleeping_pipeline(stages, placed, micro_batches, kind).tasks);
}

/// Stage s is on rank s; all ranks are hosts.
Simulation simulated(const std::vector<StageWork>& stages, int64_t micro_batches,
                     PipelineKind kind) {
  return simulate_sleep(graph_of(stages, {}, micro_batches, kind), 2);
}

/// A time in units of work, as a whole number of thousandths: times are sums of whole nanoseconds.
int64_t thousandths(Seconds time) {
  return std::llround(time.value() / kUnit * 1000);
}

TEST(SleepingPipeline, EqualStagesTakePMinusOneMoreThanTheMicroBatches) {
  // With forward 1 and backward 1 + 1, a step takes (m + p - 1) * 3 under both schedules, and each
  // stage works for m * 3 of it.
  for (PipelineKind kind :
       {PipelineKind::kForwardThenBackward, PipelineKind::kOneForwardOneBackward})
    for (int p : {2, 3, 4})
      for (int64_t m : {p, 2 * p, 3 * p + 1}) {
        const Simulation run =
            simulated(std::vector<StageWork>(static_cast<size_t>(p), units(1, 1, 1)), m, kind);
        const std::string which =
            std::string(to_text(kind)) + " p=" + std::to_string(p) + " m=" + std::to_string(m);
        EXPECT_EQ(thousandths(run.step), (m + p - 1) * 3000) << which;
        for (const RankTimes& rank : run.ranks)
          EXPECT_EQ(thousandths(rank.compute), m * 3000) << which << " rank " << rank.rank;
      }
}

TEST(SleepingPipeline, UnequalStagesUnderForwardThenBackwardAreTwoFlowShops) {
  // A flow shop of m equal jobs takes the sum over its machines plus m - 1 times the slowest.
  const std::vector<StageWork> stages = {units(1, 2, 1), units(3, 1, 1), units(2, 2, 3)};
  const int64_t forward = (1 + 3 + 2) + 4 * 3, backward = (3 + 2 + 5) + 4 * 5;
  EXPECT_EQ(thousandths(simulated(stages, 5, PipelineKind::kForwardThenBackward).step),
            (forward + backward) * 1000);
}

/// The stages of the scheduler, in units, and the times of their passes in the order of `kind`.
double time_of_passes(const std::vector<StageWork>& stages, const std::vector<Rank>& ranks,
                      int64_t micro_batches, PipelineKind kind) {
  const int devices = *std::max_element(ranks.begin(), ranks.end()) + 1,
            rounds = static_cast<int>(stages.size()) / devices;
  const bool v = rounds == 2 && ranks.front() == ranks.back();
  PipelineShape shape =
      chain_of(devices, rounds, v ? StagePlacement::kV : StagePlacement::kRoundRobin,
               static_cast<int>(micro_batches));
  for (size_t s = 0; s < stages.size(); ++s)
    shape.stages[s].costs = {stages[s].forward.value() / kUnit,
                             stages[s].input_gradient.value() / kUnit,
                             stages[s].weight_gradient.value() / kUnit};
  return simulate_passes(shape, named_orders(kind, shape))->duration();
}

TEST(SleepingPipeline, EveryScheduleTakesAsLongAsItsPasses) {
  // The compiled tasks of all ranks are compared with their orders: no task waits unnecessarily.
  constexpr int kDevices = 3;
  constexpr int64_t kMicroBatches = 6;
  for (const PipelineFacts& facts : pipeline_schedules()) {
    if (facts.kind == PipelineKind::kAuto ||
        facts.kind == PipelineKind::kEagerOneForwardOneBackward)
      continue;
    const std::vector<Rank> ranks = ranks_for(facts.kind, kDevices);
    for (bool equal : {true, false}) {
      std::vector<StageWork> stages;
      for (size_t s = 0; s < ranks.size(); ++s) {
        const double slow = equal ? 1 : 1 + static_cast<double>(s % 2);
        stages.push_back(units(slow, equal ? 1 : slow + static_cast<double>(s % 3), 1));
      }
      const auto graph = std::make_shared<const TaskGraph>(
          sleeping_pipeline(stages, {.ranks = ranks}, kMicroBatches, facts.kind).tasks);
      EXPECT_EQ(thousandths(simulate_sleep(graph, 2).step),
                std::llround(1000 * time_of_passes(stages, ranks, kMicroBatches, facts.kind)))
          << facts.name << (equal ? " equal" : " unequal");
    }
  }
}

TEST(SleepingPipeline, WithoutABarrierConsecutiveStepsFillTheBubbles) {
  // There are four stages and eight micro-batches of 1 + 1 + 1: 24 of work. Under 1F1B the first
  // stage begins and ends a step, 3 x 3 later than its work takes. Under ZB-H2 and ZB-V every stage
  // works without a pause, but begins later than the previous one: that time is lost once, not in
  // each step. A stage updates only its own weight.
  constexpr int64_t kSteps = 6;
  const auto times = [](PipelineKind kind) {
    const std::vector<Rank> ranks = ranks_for(kind, 4);
    const auto graph =
        graph_of(std::vector<StageWork>(ranks.size(), units(1, 1, 1)), {.ranks = ranks}, 8, kind);
    return std::pair(thousandths(simulate_sleep(graph, kSteps).step),
                     thousandths(simulate_sleep(graph, kSteps, {}, false).step));
  };
  EXPECT_EQ(times(PipelineKind::kOneForwardOneBackward),
            (std::pair(int64_t{33000}, int64_t{33000})));
  EXPECT_EQ(times(PipelineKind::kZeroBubbleH2), (std::pair(int64_t{27000}, int64_t{24000})));
  EXPECT_EQ(times(PipelineKind::kZeroBubbleV), (std::pair(int64_t{51000}, int64_t{48000})))
      << "of two stages a rank";
}

TEST(SleepingPipeline, TheAutomaticScheduleIsNoSlowerThanOthersOnUnequalStages) {
  constexpr int64_t kMicroBatches = 6;
  const std::vector<StageWork> stages = {units(1, 2, 1), units(3, 1, 1), units(2, 2, 3)};
  const int64_t automatic = thousandths(simulated(stages, kMicroBatches, PipelineKind::kAuto).step);
  for (PipelineKind kind : {PipelineKind::kOneForwardOneBackward, PipelineKind::kZeroBubbleH1})
    EXPECT_LE(automatic, thousandths(simulated(stages, kMicroBatches, kind).step)) << to_text(kind);
  // The last stage works 7 for each micro-batch, and waits for 4 before its first.
  EXPECT_GE(automatic, (4 + kMicroBatches * 7) * 1000);
}

TEST(SleepingPipeline, ASlowDeviceIsASlowStage) {
  // The second of three ranks is a device that is half as fast; copies and launches take no time
  // here.
  const auto graph = graph_of(std::vector<StageWork>(3, units(1, 1, 1)), {.mixed = true}, 5,
                              PipelineKind::kForwardThenBackward);
  const int64_t forward = (1 + 2 + 1) + 4 * 2, backward = (2 + 4 + 2) + 4 * 4;
  EXPECT_EQ(thousandths(simulate_sleep(graph, 2, {.slowness = 2}).step),
            (forward + backward) * 1000);
}

TEST(SleepingPipeline, LaunchTimeDelaysEveryActOfADevice) {
  // There are two stages and one micro-batch. The second stage's forward and backward are one task,
  // which begins later by a launch of a tenth. Its input is copied in before it, and its gradient
  // is copied out after it, each later by a launch too. The update of its weight is one more
  // launch.
  const auto graph = graph_of(std::vector<StageWork>(2, units(1, 1, 1)), {.mixed = true}, 1,
                              PipelineKind::kOneForwardOneBackward);
  const Simulation run = simulate_sleep(graph, 2, {.launch = Seconds(0.1 * kUnit)});
  int64_t launches = 0;
  for (const Task& task : graph->tasks)
    if (stream_of(*graph, task) != TaskStream::kHost &&
        task.name.text().find("loss") == std::string::npos)
      ++launches;
  EXPECT_GE(thousandths(run.step), 6000 + 300);
  EXPECT_LE(thousandths(run.step), 6000 + 100 * launches);
}

/// Acts of kernels, exchanges and copies of a track by name, for one iteration.
std::vector<std::string> acts_of(const Track& track, int64_t iteration) {
  std::vector<std::string> names;
  for (const Span& span : track.spans)
    if ((span.kind == Span::Kind::kAct || span.kind == Span::Kind::kCopy) &&
        span.iteration == iteration)
      names.push_back(span.name);
  return names;
}

TEST(SleepingPipeline, RanksActStreamByStreamInTheOrderOfTheSimulatedClock) {
  for (const PipelineFacts& facts : pipeline_schedules())
    for (bool mixed : {false, true}) {
      const std::vector<Rank> placed = ranks_for(facts.kind, 2);
      const auto graph = graph_of(std::vector<StageWork>(placed.size()),
                                  {.ranks = placed, .mixed = mixed}, 6, facts.kind);
      Runtime runtime(ranks(*graph));
      LoadedProgram& program = runtime.load(graph);
      runtime.initialize(program, 1);
      const Tensor x(graph->inputs.front().type);
      std::array<TensorMap, 2> results;
      runtime.start_trace();
      runtime.run(program, {{"x", &x}}, results[0]);
      for (TensorMap& given : results)
        runtime.begin_step(program, {{"x", &x}}, given);  // there is no barrier between these two
      for (size_t ended = 0; ended < results.size(); ++ended) runtime.end_step();
      const Timeline real = runtime.stop_trace(), virtual_one = simulate_sleep(graph, 3).timeline;
      ASSERT_EQ(real.tracks.size(), virtual_one.tracks.size()) << facts.name;
      for (size_t track = 0; track < real.tracks.size(); ++track) {
        EXPECT_EQ(real.tracks[track].stream, virtual_one.tracks[track].stream);
        for (int64_t record : {0, 1, 2}) {
          EXPECT_EQ(acts_of(real.tracks[track], record), acts_of(virtual_one.tracks[track], record))
              << facts.name;
          EXPECT_FALSE(acts_of(real.tracks[track], record).empty());
        }
      }
    }
}

}  // namespace
}  // namespace tessera
