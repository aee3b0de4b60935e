#include "tools/cli/internal/print/plan/stages_text.h"

#include <gtest/gtest.h>

#include "cluster/cluster/cluster_file.h"

namespace tessera {
namespace {

NamedMesh mesh_of(const char* name, std::vector<Rank> ranks) {
  const auto size = static_cast<int64_t>(ranks.size());
  return {name, std::make_shared<const Mesh>(Shape{size}, std::vector<std::string>{"dp"},
                                             std::move(ranks))};
}

StageRow row_of(size_t stage, const char* name, ModuleRun modules, std::vector<Rank> ranks,
                double compute) {
  StageRow row;
  row.stages = {stage};
  row.name = name;
  row.modules = {std::move(modules)};
  row.ranks = std::move(ranks);
  row.forward = Seconds(1e-3);
  row.backward = Seconds(2e-3);
  row.compute = compute;
  row.exposed = 0.1;
  row.idle = 0.9 - compute;
  row.memory.variables = Bytes(1 << 30);
  row.memory.capacity = Bytes(int64_t{16} << 30);
  return row;
}

/// Two stages of a pipeline of 10 ms on two machines.
Planned two_stages() {
  Planned planned;
  planned.cluster =
      std::make_shared<const Cluster>(parse_cluster_line("1x2xv100-16g+1x1xp100;ib=100Gb"));
  EvaluatedCandidate best;
  best.candidate.source = Candidate::Source::kPipeline;
  best.candidate.plan.meshes = {mesh_of("stage0", {0, 1}), mesh_of("stage1", {2})};
  best.candidate.plan.micro_batches = 4;
  best.prediction.step = Seconds(10e-3);
  planned.result.candidates = {std::move(best)};
  planned.result.best = 0;
  return planned;
}

DescribedStages described() {
  return {{row_of(0, "stage0", {"tokens", "blocks.0"}, {0, 1}, 0.6),
           row_of(1, "stage1", {"blocks.1", "loss"}, {2}, 0.8)},
          {{1, "blocks.0.residual2", "blocks.1.residual1", Seconds(10.5e-3)}}};
}

TEST(StagesText, HasALineForEachStageAndSaysWhatBinds) {
  EXPECT_EQ(
      stages_text(two_stages(), described()),
      "\n"
      "Stages: times of a micro-batch, parts of the step\n"
      "  stage   modules             ranks  devices           forward  backward  kernels  "
      "exchanges  waits           memory\n"
      "  stage0  tokens .. blocks.0  0-1    2 v100-16g of n0     1 ms      2 ms    60.0%  "
      "    10.0%  30.0%  1 GiB of 16 GiB\n"
      "  stage1  blocks.1 .. loss    2      1 p100 of n1         1 ms      2 ms    80.0%  "
      "    10.0%  10.0%  1 GiB of 16 GiB\n"
      "stage1 binds: its ranks compute for 80.0% of the step, those of the others for 60.0%.\n"
      "With the boundary of stage0 and stage1 after blocks.1.residual1 instead of "
      "blocks.0.residual2 the step takes 10.5 ms (+5.0%).\n");
}

TEST(StagesText, OfOneMicroBatchNoStageBinds) {
  Planned planned = two_stages();
  planned.result.candidates.front().candidate.plan.micro_batches = 1;
  planned.constraints.boundaries = {"blocks.0"};
  DescribedStages stages = described();
  stages.moves.front().step.reset();
  const std::string text = stages_text(planned, stages);
  EXPECT_NE(
      text.find("The boundaries are fixed.\n"
                "With one micro-batch the stages wait for each other, so none of them binds; the "
                "ranks of stage1 compute longest, for 80.0% of the step, those of the others for "
                "60.0%.\n"),
      std::string::npos)
      << text;
  EXPECT_NE(text.find("instead of blocks.0.residual2 the plan does not fit.\n"), std::string::npos)
      << text;
}

TEST(StagesText, WithoutStagesThereIsNone) {
  EXPECT_EQ(stages_text(two_stages(), {}), "");
  EXPECT_EQ(stages_document(two_stages(), {}), Document());
}

TEST(StagesDocument, HasTheSame) {
  Document document = stages_document(two_stages(), described());
  EXPECT_EQ(document["binding"], Document("stage1"));
  Document row = document["table"].as_list().at(0);
  EXPECT_EQ(row["devices"], Document(Document::List{"n0/0", "n0/1"}));
  EXPECT_EQ(row["forward_seconds"], Document(1e-3));
  EXPECT_EQ(row["peak_bytes"], Document(int64_t{1} << 30));
  Document move = document["moved"].as_list().at(0);
  EXPECT_EQ(move["step_seconds"], Document(10.5e-3));
}

}  // namespace
}  // namespace tessera
