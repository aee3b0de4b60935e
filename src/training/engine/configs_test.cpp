// Every configuration fits the plans that come with the project.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "compiler/lower/redundant_work.h"
#include "task_graph/tasks/arena_blocks.h"
#include "training/engine/engine.h"
#include "training/engine/programs/program_plans.h"

namespace tessera {
namespace {

const std::filesystem::path kConfigFolder = std::filesystem::path(TESSERA_SOURCE_DIR) / "configs";

/// The file names without `extension`, in order.
std::vector<std::string> names_in(const std::filesystem::path& folder,
                                  const std::string& extension) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() == extension) names.push_back(entry.path().stem());
  std::sort(names.begin(), names.end());
  return names;
}

class EngineEveryPlanFile : public testing::TestWithParam<std::string> {};

TEST_P(EngineEveryPlanFile, CompilesForTheConfigurationOfItsName) {
  const std::string model = GetParam().substr(0, GetParam().find('.'));
  const RunConfig config = read_config(kConfigFolder / (model + ".toml"));
  const Plan plan = read_plan(kConfigFolder / "plans" / (GetParam() + ".json"));
  EXPECT_EQ(config.train.batch % plan.micro_batches, 0);
  const Graph graph = training_graph(config);
  const Compiled compiled = compile(graph, plan);  // throws when a mark names nothing
  // Every stage has work of its own.
  const std::vector<int>& stages = compiled.sharded.stages.ops;
  for (size_t stage = 0; stage < plan.meshes.size(); ++stage)
    EXPECT_THAT(stages, testing::Contains(static_cast<int>(stage))) << plan.meshes[stage].name;
  // No arena exceeds what is alive at once by more than 1%.
  for (const ArenaPlan& arena : compiled.arenas) {
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

TEST_P(EngineEveryPlanFile, WastesNoWork) {
  const std::string model = GetParam().substr(0, GetParam().find('.'));
  const RunConfig config = read_config(kConfigFolder / (model + ".toml"));
  const Plan plan = read_plan(kConfigFolder / "plans" / (GetParam() + ".json"));
  std::vector<std::string> texts;
  for (const ShardingNote& note : redundant_work_notes(placements(training_graph(config), plan)))
    texts.push_back(note.text);
  const auto repeats = testing::HasSubstr("all compute");
  if (repeats_work(GetParam()))
    EXPECT_THAT(texts, testing::ElementsAre(repeats));
  else
    EXPECT_THAT(texts, testing::IsEmpty());
}

// Of the same micro-batches it has the forwards alone.
TEST_P(EngineEveryPlanFile, TheEvaluationRunsInTheArenaOfTheStep) {
  const std::string model = GetParam().substr(0, GetParam().find('.'));
  const RunConfig config = read_config(kConfigFolder / (model + ".toml"));
  const Plan plan = read_plan(kConfigFolder / "plans" / (GetParam() + ".json"));
  std::map<Purpose, TaskGraph> programs;
  for (const PlannedProgram& program : planned_programs(config, plan))
    if (program.purpose == Purpose::kTrain || program.purpose == Purpose::kEvaluate)
      programs[program.purpose] = compile(program.graph, program.plan).tasks;
  for (const Rank rank : plan.ranks()) {
    ArenaBlocks blocks;
    blocks.add(programs.at(Purpose::kTrain), rank);
    const Bytes of_step = blocks.size();
    blocks.add(programs.at(Purpose::kEvaluate), rank);
    EXPECT_EQ(blocks.size(), of_step) << "rank " << rank;
  }
}

/// The plan, written to a file and read again.
Plan written_and_read(const Plan& plan, const Graph& graph) {
  const std::string text = to_json(to_document(plan, graph), 2);
  return parse_plan(parse_json(text, "resolved.json"), "resolved.json");
}

TEST_P(EngineEveryPlanFile, ResolvedGivesTheSameProgramsAsItsMarks) {
  const std::string model = GetParam().substr(0, GetParam().find('.'));
  const RunConfig config = read_config(kConfigFolder / (model + ".toml"));
  const Plan plan = read_plan(kConfigFolder / "plans" / (GetParam() + ".json"));
  const std::vector<PlannedProgram> programs = planned_programs(config, plan);
  Plan written = written_and_read(explicit_plan(config, plan), programs.front().graph);
  EXPECT_TRUE(written.marks.empty());
  for (const PlannedProgram& program : programs) {
    written.micro_batches = program.plan.micro_batches;
    const std::string_view section = section_of(program.purpose);
    EXPECT_EQ(to_text(compile(program.graph, program.plan).tasks),
              to_text(compile(program.graph, written, {.dump = {}, .section = section}).tasks))
        << section;
  }
}

INSTANTIATE_TEST_SUITE_P(Configs, EngineEveryPlanFile,
                         testing::ValuesIn(names_in(kConfigFolder / "plans", ".json")),
                         [](const auto& given) {
                           std::string name = given.param;
                           for (char& letter : name)
                             if (letter == '.' || letter == '-') letter = '_';
                           return name;
                         });

// Results and learning would be the same if every rank computed the whole image. Only the
// placements show the division.
TEST(Configs, PlansInSpaceDivideTheRowsOfEveryConvolution) {
  for (const std::string model : {"resnet20", "unet"}) {
    const Plan plan = read_plan(kConfigFolder / "plans" / (model + ".sp2.json"));
    const Graph graph = training_graph(read_config(kConfigFolder / (model + ".toml")));
    const Compiled compiled = compile(graph, plan);
    int convolutions = 0;
    for (const Op& op : compiled.graph.ops()) {
      if (op.kind != "convolution" || op.role != Role::kForward) continue;
      ++convolutions;
      EXPECT_FALSE(compiled.sharded.of(op.outputs.front()).dims[2].axes.empty())
          << model << " " << op.name;
    }
    EXPECT_GT(convolutions, 10) << model;
  }
}

TEST(Configs, HaveAPlanForOneRank) {
  for (const std::string& model : names_in(kConfigFolder, ".toml"))
    EXPECT_THAT(names_in(kConfigFolder / "plans", ".json"), testing::Contains(model + ".serial"));
}

}  // namespace
}  // namespace tessera
