// What the programs beside training take of the plan, and how long an explicit plan is.
#include "training/engine/programs/program_plans.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "compiler/lower/lower.h"
#include "ir/models/family.h"
#include "training/engine/graphs.h"

namespace tessera {
namespace {

const std::filesystem::path kProgramPlansConfigs =
    std::filesystem::path(TESSERA_SOURCE_DIR) / "configs";

Plan plan_called(const std::string& name) {
  return read_plan(kProgramPlansConfigs / "plans" / (name + ".json"));
}

bool has_kernel(const TaskGraph& tasks, const std::string& kernel) {
  return std::any_of(tasks.tasks.begin(), tasks.tasks.end(), [&](const Task& task) {
    return std::any_of(task.steps.begin(), task.steps.end(),
                       [&](const KernelStep& step) { return step.call->kernel == kernel; });
  });
}

TEST(ProgramPlans, OfAllProgramsHaveEveryDecisionOfThePlan) {
  Plan plan = plan_called("gpt.dp2-tp2");
  plan.all_reduce = AllReduceAlgorithm::kOneShot;
  plan.collective_matmul = 2;
  plan.prefetch_window = Bytes(1 << 20);
  plan.bucket = Bytes(2 << 20);
  plan.halos = HaloForm::kExchange;
  const std::vector<PlannedProgram> programs =
      planned_programs(read_config(kProgramPlansConfigs / "gpt.toml"), plan);
  EXPECT_EQ(programs.size(), 7u);
  for (const PlannedProgram& program : programs) {
    EXPECT_EQ(program.plan.all_reduce, plan.all_reduce);
    EXPECT_EQ(program.plan.collective_matmul, plan.collective_matmul);
    EXPECT_EQ(program.plan.prefetch_window, plan.prefetch_window);
    EXPECT_EQ(program.plan.bucket, plan.bucket);
    EXPECT_EQ(program.plan.halos, plan.halos);
  }
}

TEST(ProgramPlans, LetAnEvaluationDecomposeItsMatmulsAsTheTrainingStepDoes) {
  Plan plan = plan_called("gpt.dp2-tp2-sp");
  plan.collective_matmul = 2;
  for (const PlannedProgram& program :
       planned_programs(read_config(kProgramPlansConfigs / "gpt.toml"), plan)) {
    if (program.purpose != Purpose::kTrain && program.purpose != Purpose::kEvaluate) continue;
    EXPECT_TRUE(has_kernel(compile(program.graph, program.plan).tasks, "take_chunk"))
        << section_of(program.purpose);
  }
}

// The last stage has the mean of the loss alone. The ops of the accuracy, which training does not
// have, would be there, though the counts of the labels that they read are made before it.
TEST(ProgramPlans, OfAnEvaluationHaveItsOwnOpsWhereTheirOperandsAreMade) {
  Plan plan = plan_called("gpt.pp2");
  plan.marks = {stage("*", plan.meshes[0].name),
                stage("loss.{terms,valid_terms,total}", plan.meshes[1].name),
                stage("loss.mean", plan.meshes[1].name)};
  for (const PlannedProgram& program :
       planned_programs(read_config(kProgramPlansConfigs / "gpt.toml"), plan)) {
    if (program.purpose != Purpose::kEvaluate) continue;
    EXPECT_EQ(program.plan.micro_batches, plan.micro_batches);
    const PlacedGraph placed = placements(program.graph, program.plan);
    const OpId hits = placed.graph.find_op("correct.is_hit").value();
    EXPECT_EQ(placed.sharded.stages.ops[hits.index], 0);
  }
}

// The names of layers are ranges: 24 layers need a few digits more than 12.
// What a search finds are placements of the training step alone. Those of its results do not follow
// from its inputs and variables: the evaluation would hold them whole.
TEST(ProgramPlans, OfAnEvaluationHaveItsResultsWhereASearchedTrainingHasThem) {
  const RunConfig config = read_config(kProgramPlansConfigs / "gpt.toml");
  const Network network = network_of(config.model);
  const TrainingSettings settings = training_settings(config);
  const Graph graph = training_graph(config);
  Plan plan;
  plan.meshes = one_mesh(std::make_shared<const Mesh>(parse_mesh("x=4")));
  plan.marks = {shard_tensor("positions.added", "P(None, \"x\")"),
                shard_tensor("blocks.*.ffn.gelu.gated", "P(None, \"x\")")};
  Plan searched = plan;
  searched.marks.clear();
  searched.shardings.emplace();
  searched.shardings->sections.emplace_back(
      kTrainSection, explicit_section(graph, plan, {}, std::string(kTrainSection), {}));
  const Plan whole = with_other_programs(network, settings, searched);
  const PlacedGraph training = placements(graph, whole);
  const Graph evaluation = graph_of(Purpose::kEvaluate, network, settings, 1);
  CompileOptions options;
  options.section = section_of(Purpose::kEvaluate);
  const PlacedGraph placed = placements(evaluation, whole, options);
  for (const char* name : {"positions.added", "blocks.0.ffn.gelu.gated", "blocks.1.ffn.up.dot"})
    EXPECT_EQ(to_text(placed.sharded.at(*placed.graph.find_value(name))),
              to_text(training.sharded.at(*training.graph.find_value(name))))
        << name;
  EXPECT_EQ(to_text(placed.sharded.at(*placed.graph.find_value("positions.added"))), "[*, @x, *]");
}

TEST(ResolvedPlans, AreAsLongForManyLayersAsForFew) {
  const auto bytes = [](const std::string& plan_name, int64_t layers) {
    RunConfig config = read_config(kProgramPlansConfigs / "gpt.toml");
    config.model.layers = layers;
    const Plan written = explicit_plan(config, plan_called(plan_name));
    return std::ssize(to_json(to_document(written, training_graph(config)), 2));
  };
  for (const char* plan : {"gpt.dp2-tp2", "gpt.pp2-dp2-tp2"}) {
    const int64_t few = bytes(plan, 12);
    EXPECT_LE(bytes(plan, 24), few * 102 / 100) << plan;
    EXPECT_LE(few, 60 << 10) << plan;
  }
}

}  // namespace
}  // namespace tessera
