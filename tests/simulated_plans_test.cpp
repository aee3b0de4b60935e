// The simulator on compiled plans: representative ranks take the times of all ranks, to the
// nanosecond, and both those of the actors one by one.
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

std::shared_ptr<const TaskGraph> compiled(const Graph& graph, const Plan& plan) {
  return std::make_shared<const TaskGraph>(compile(graph, plan).tasks);
}

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
