// The simulator on compiled plans: represented ranks take the times of all ranks, to the
// nanosecond, and both those of the actors one by one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <random>

#include "compiler/lower/lower.h"
#include "planner/presets/presets.h"
#include "simulator/clock/testing/machine_demands.h"
#include "simulator/clock/testing/symmetry_check.h"
#include "training/engine/graphs.h"

namespace tessera {
namespace {

const std::filesystem::path kConfigs = std::filesystem::path(TESSERA_SOURCE_DIR) / "configs";

std::vector<std::string> plan_files() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kConfigs / "plans"))
    if (entry.path().extension() == ".json") names.push_back(entry.path().stem());
  std::sort(names.begin(), names.end());
  return names;
}

std::shared_ptr<const TaskGraph> compiled(const Graph& graph, const Plan& plan) {
  return std::make_shared<const TaskGraph>(compile(graph, plan).tasks);
}

std::shared_ptr<const TaskGraph> compiled_file(const std::string& name) {
  const RunConfig config = read_config(kConfigs / (name.substr(0, name.find('.')) + ".toml"));
  return compiled(training_graph(config), read_plan(kConfigs / "plans" / (name + ".json")));
}

class EveryPlanFile : public testing::TestWithParam<std::string> {};

TEST_P(EveryPlanFile, FoldsToTheTimesOfAllRanks) {
  const auto graph = compiled_file(GetParam());
  for (int slow_axis : {-1, 0, 1})
    for (bool overlaps : {false, true}) {
      const Demands demands =
          machine_demands(*graph, {.ranks_per_machine = overlaps ? 2 : 4, .slow_axis = slow_axis});
      const SymmetryCheck check = check_symmetry(graph, demands,
                                                 {.steps = 2,
                                                  .barrier_between_steps = !overlaps,
                                                  .message = Seconds(overlaps ? 3e-7 : 0),
                                                  .prefetch_exchanges = overlaps});
      EXPECT_EQ(check.difference, "") << "slow axis " << slow_axis << ", overlaps " << overlaps;
    }
}

/// "[start, end) name of each act", ordered.
std::vector<std::string> acts_of(const Simulation& simulation) {
  std::vector<std::string> list;
  for (const Track& track : simulation.timeline.tracks)
    for (const Span& span : track.spans)
      if (span.kind != Span::Kind::kWait)
        list.push_back("rank " + std::to_string(track.rank) + " " + span.name + " " +
                       std::to_string(std::llround(span.begin.value() * 1e9)) + " " +
                       std::to_string(std::llround(span.end.value() * 1e9)));
  std::sort(list.begin(), list.end());
  return list;
}

/// The same of the actors of all ranks, which wait for every register that they overwrite.
std::vector<std::string> acts_of_actors(const std::shared_ptr<const TaskGraph>& graph,
                                        const std::function<int64_t(Rank, TaskId)>& duration) {
  const TaskActors actors = find_actors(graph, ranks(*graph));
  std::vector<ActorDescription> descriptions;
  SimulatedSetting setting{.barrier_between_iterations = true};
  setting.duration = [&](ActorId actor) {
    return duration(actors.ranks()[actors.rank_index_of(actor)], actors.task_of(actor));
  };
  for (int rank = 0; rank < actors.rank_count(); ++rank) {
    for (TaskId task : graph->tasks.indices()) {
      descriptions.push_back(actors.describe(rank, task));
      setting.overwrites.push_back(actors.overwrites(rank, task));
    }
    std::map<TaskStream, std::vector<ActorId>> streams;
    for (TaskId task : actors.order_of(rank))
      streams[stream_of(*graph, graph->tasks[task])].push_back(actors.actor_id(rank, task));
    for (const auto& [stream, order] : streams) setting.streams.push_back(order);
  }
  std::vector<std::string> list;
  for (const SimulatedAct& act : simulate_actors(descriptions, 2, setting).acts)
    list.push_back("rank " + std::to_string(actors.ranks()[actors.rank_index_of(act.actor)]) + " " +
                   graph->tasks[actors.task_of(act.actor)].name + " " + std::to_string(act.start) +
                   " " + std::to_string(act.end));
  std::sort(list.begin(), list.end());
  return list;
}

TEST_P(EveryPlanFile, TakesTheTimesOfItsActors) {
  const auto graph = compiled_file(GetParam());
  const auto duration = [&](Rank rank, TaskId task) -> int64_t {
    return (task.value() * 7 + rank * 3) % 11 * 100;
  };
  const Simulation simulation =
      simulate(graph,
               [&](Rank rank, TaskId task) {
                 return Seconds(static_cast<double>(duration(rank, task)) * 1e-9);
               },
               {.steps = 2});
  EXPECT_EQ(acts_of(simulation), acts_of_actors(graph, duration));
}

INSTANTIATE_TEST_SUITE_P(SimulatedPlans, EveryPlanFile, testing::ValuesIn(plan_files()),
                         [](const auto& given) {
                           std::string name = given.param;
                           for (char& letter : name)
                             if (letter == '.' || letter == '-') letter = '_';
                           return name;
                         });

/// A random preset of 16 ranks, "pp=2,dp=4,tp=2,micro_batches=4".
std::string random_preset(std::mt19937& dice) {
  int64_t degrees[3] = {1, 1, 1};  // dp, tp, pp
  for (int doubled = 0; doubled < 4;) {
    int64_t& degree = degrees[dice() % 3];
    if (&degree != &degrees[0] && degree == 4) continue;  // 4 heads, 4 layers
    degree *= 2;
    ++doubled;
  }
  const int64_t micro_batches = degrees[2] * (1 + dice() % 2);
  const char* schedules[] = {"f-then-b", "1f1b", "zb-h1"};
  return "pp=" + std::to_string(degrees[2]) + ",dp=" + std::to_string(degrees[0]) +
         ",tp=" + std::to_string(degrees[1]) + ",micro_batches=" + std::to_string(micro_batches) +
         (degrees[2] > 1 ? ",schedule=" + std::string(schedules[dice() % 3]) : "");
}

TEST(SimulatedPlans, TwentyRandomPlansOfSixteenRanksFoldToTheTimesOfAllRanks) {
  const Graph graph = training_graph(
      read_config(kConfigs / "gpt.toml", {"model.layers=4", "model.width=32", "train.batch=128"}));
  std::mt19937 dice(1);
  int ranks = 0, simulated = 0;
  for (int i = 0; i < 20; ++i) {
    const std::string preset = random_preset(dice);
    const auto tasks = compiled(graph, preset_plan(parse_preset(preset), graph));
    const TestMachines machines{.ranks_per_machine = 1 << dice() % 5,
                                .slow_axis = static_cast<int>(dice() % 3) - 1};
    SimulateOptions options{.steps = 2, .barrier_between_steps = dice() % 2 == 0};
    options.prefetch_exchanges = dice() % 2 == 0;
    options.message = Seconds(dice() % 2 == 0 ? 0 : 2e-7);
    if (dice() % 4 == 0) options.stragglers = {{static_cast<Rank>(dice() % 16), 1.25}};
    const SymmetryCheck check = check_symmetry(tasks, machine_demands(*tasks, machines), options);
    EXPECT_EQ(check.difference, "")
        << "plan " << i << ": " << preset << ", machines of " << machines.ranks_per_machine;
    EXPECT_EQ(check.ranks, 16);
    ranks += check.ranks;
    simulated += check.simulated;
  }
  EXPECT_LT(2 * simulated,
            ranks);  // otherwise few ranks were represented by others, and the test says little
}

}  // namespace
}  // namespace tessera
