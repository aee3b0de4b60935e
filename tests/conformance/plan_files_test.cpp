// Every plan file of configs/plans, compiled once for the configuration of its name: what the
// compiler makes of it, and what the simulator and the engine do with that.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "actor_times.h"
#include "compiler/lower/redundant_work.h"
#include "simulator/clock/testing/machine_demands.h"
#include "simulator/clock/testing/symmetry_check.h"
#include "task_graph/tasks/arena_blocks.h"
#include "test_name.h"
#include "training/engine/engine.h"
#include "training/engine/programs/program_plans.h"

namespace tessera::conformance {
namespace {

const std::filesystem::path kConfigs = std::filesystem::path(TESSERA_SOURCE_DIR) / "configs";

std::vector<std::string> plan_files() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kConfigs / "plans"))
    if (entry.path().extension() == ".json") names.push_back(entry.path().stem());
  std::sort(names.begin(), names.end());
  return names;
}

/// A plan file with everything that is compiled of it.
struct CompiledFile {
  RunConfig config;
  Plan plan;
  std::vector<PlannedProgram> programs = {};  // the training step first
  std::vector<Compiled> compiled = {};        // by program

  const Compiled& training() const { return compiled.front(); }
};

CompiledFile compiled_file(const std::string& name) {
  CompiledFile file{.config = read_config(kConfigs / (name.substr(0, name.find('.')) + ".toml")),
                    .plan = read_plan(kConfigs / "plans" / (name + ".json"))};
  file.programs = planned_programs(file.config, file.plan);
  for (const PlannedProgram& program : file.programs)
    file.compiled.push_back(compile(program.graph, program.plan));  // throws on a mark of nothing
  return file;
}

void expect_work_for_every_stage(const CompiledFile& file) {
  const std::vector<int>& stages = file.training().sharded.stages.ops;
  for (size_t stage = 0; stage < file.plan.meshes.size(); ++stage)
    EXPECT_THAT(stages, testing::Contains(static_cast<int>(stage))) << file.plan.meshes[stage].name;
}

/// No arena exceeds what is alive at once by more than 1%.
void expect_dense_arenas(const CompiledFile& file) {
  for (const ArenaPlan& arena : file.training().arenas) {
    EXPECT_GE(arena.size, arena.live_bound);
    EXPECT_LE(100 * arena.size.value(), 101 * arena.live_bound.value());
  }
}

/// Plans that repeat work knowingly: with the few rows of a batch of image_mlp and mlp the
/// replicated optimizer, with the norm of its gradients, has 5% of the flops of a step and more,
/// and the tensor parallelism of unet leaves its last block whole.
bool repeats_work(const std::string& plan) {
  static const std::set<std::string> kNames = {"image_mlp.dp4", "image_mlp.dp2-tp2", "mlp.dp4",
                                               "mlp.dp2-tp2",   "mlp.dp2w",          "unet.tp2"};
  return kNames.contains(plan);
}

void expect_no_waste(const std::string& name, const CompiledFile& file) {
  std::vector<std::string> texts;
  for (const ShardingNote& note : redundant_work_notes(file.training())) texts.push_back(note.text);
  if (repeats_work(name))
    EXPECT_THAT(texts, testing::ElementsAre(testing::HasSubstr("all compute")));
  else
    EXPECT_THAT(texts, testing::IsEmpty());
}

/// The evaluation has the forwards of the same micro-batches, and needs no further memory.
void expect_evaluation_in_the_arena_of_the_step(const CompiledFile& file) {
  const auto evaluation =
      std::ranges::find(file.programs, Purpose::kEvaluate, &PlannedProgram::purpose);
  ASSERT_NE(evaluation, file.programs.end());
  const Compiled& evaluated =
      file.compiled[static_cast<size_t>(evaluation - file.programs.begin())];
  for (const Rank rank : file.plan.ranks()) {
    ArenaBlocks blocks;
    blocks.add(file.training().tasks, rank);
    const Bytes of_step = blocks.size();
    blocks.add(evaluated.tasks, rank);
    EXPECT_EQ(blocks.size(), of_step) << "rank " << rank;
  }
}

/// The plan with its placements in place of marks, written to a file and read again, makes the same
/// programs.
void expect_the_same_programs_when_resolved(const CompiledFile& file) {
  const Document written =
      to_document(explicit_plan(file.config, file.plan), file.programs.front().graph);
  Plan resolved = parse_plan(parse_json(to_json(written, 2), "resolved.json"), "resolved.json");
  EXPECT_TRUE(resolved.marks.empty());
  for (size_t i = 0; i < file.programs.size(); ++i) {
    const PlannedProgram& program = file.programs[i];
    resolved.micro_batches = program.plan.micro_batches;
    const std::string_view section = section_of(program.purpose);
    const Compiled again = compile(program.graph, resolved, {.dump = {}, .section = section});
    EXPECT_EQ(to_text(file.compiled[i].tasks), to_text(again.tasks)) << section;
  }
}

/// One simulated rank of each class takes the times of all ranks, to the nanosecond.
void expect_representative_ranks(const std::shared_ptr<const TaskGraph>& tasks) {
  for (const int slow_axis : {-1, 0, 1})
    for (const bool overlaps : {false, true}) {
      const Demands demands =
          machine_demands(*tasks, {.ranks_per_machine = overlaps ? 2 : 4, .slow_axis = slow_axis});
      const SymmetryCheck check = check_symmetry(tasks, demands,
                                                 {.steps = 2,
                                                  .barrier_between_steps = !overlaps,
                                                  .message = Seconds(overlaps ? 3e-7 : 0),
                                                  .prefetch_exchanges = overlaps});
      EXPECT_EQ(check.difference, "") << "slow axis " << slow_axis << ", overlaps " << overlaps;
    }
}

class EveryPlanFile : public testing::TestWithParam<std::string> {};

TEST_P(EveryPlanFile, IsCompiledToWhatItSays) {
  const CompiledFile file = compiled_file(GetParam());
  EXPECT_EQ(file.config.train.batch % file.plan.micro_batches, 0);
  expect_work_for_every_stage(file);
  expect_dense_arenas(file);
  expect_no_waste(GetParam(), file);
  expect_evaluation_in_the_arena_of_the_step(file);
  expect_the_same_programs_when_resolved(file);
  const auto tasks = std::make_shared<const TaskGraph>(file.training().tasks);
  expect_representative_ranks(tasks);
  EXPECT_EQ(simulated_acts(tasks), acts_of_actors(tasks));
}

INSTANTIATE_TEST_SUITE_P(, EveryPlanFile, testing::ValuesIn(plan_files()),
                         [](const auto& given) { return test_name(given.param); });

}  // namespace
}  // namespace tessera::conformance
