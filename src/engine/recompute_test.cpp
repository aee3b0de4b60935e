// Activations that the backward computes again, in whole runs: the results are those of a run that
// keeps them, and it needs less memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/testing/runs.h"
#include "verify/verify.h"

namespace tessera {
namespace {

struct Given {
  std::string model, plan;
  Recompute recompute;
};

Plan plan_with(const Given& given, const Recompute& recompute) {
  Plan plan = plan_of(given.model, given.plan);
  if (given.model == "gpt" && given.plan.find("pp") != std::string::npos)
    plan.schedule = PipelineKind::kZeroBubbleH1;
  plan.recompute = recompute;
  return plan;
}

std::vector<float> losses_of(const Given& given, const Recompute& recompute) {
  Engine engine(tiny_run(given.model), plan_with(given, recompute), small_text());
  std::vector<float> losses;
  for (int i = 0; i < 4; ++i) losses.push_back(engine.step().loss);
  return losses;
}

class EveryRecompute : public testing::TestWithParam<Given> {};

TEST_P(EveryRecompute, ComputesWhatTheSerialProgramComputes) {
  const VerifyReport report =
      verify_plan(tiny_run(GetParam().model), plan_with(GetParam(), GetParam().recompute),
                  small_text(), {.steps = 2});
  EXPECT_TRUE(report.ok) << (report.first_difference ? report.first_difference->value : "");
}

TEST_P(EveryRecompute, HasTheLossesOfTheRunThatKeepsEverythingToTheLastBit) {
  EXPECT_EQ(losses_of(GetParam(), GetParam().recompute), losses_of(GetParam(), {}));
}

std::vector<Given> all_given() {
  std::vector<Given> all;
  const auto add = [&](const std::string& model, const std::vector<std::string>& plans) {
    for (const std::string& plan : plans)
      for (const Recompute& recompute :
           {Recompute{Recompute::Kind::kSelective}, Recompute{Recompute::Kind::kFull},
            Recompute{Recompute::Kind::kPatterns, {"*"}}})
        all.push_back({model, plan, recompute});
  };
  add("gpt", {"serial", "serial-m4", "dp2-tp2", "pp2-m4", "pp4-m8"});
  add("gpt_tied", {"pp2-dp2-m2"});
  add("llama", {"tp2", "pp2-dp2-m4"});
  add("bert", {"dp2"});
  add("mlp", {"dp2-tp2"});
  add("lstm", {"serial", "dp2"});
  add("encoder_decoder", {"pp2-m4"});
  add("two_tower", {"pp3-m4"});
  return all;
}

std::string name_of(const testing::TestParamInfo<Given>& info) {
  constexpr std::string_view kNames[] = {"none", "selective", "full", "everything"};
  std::string name = info.param.model + "_" + info.param.plan + "_";
  name += kNames[static_cast<size_t>(info.param.recompute.kind)];
  for (char& letter : name)
    if (letter == '-') letter = '_';
  return name;
}

INSTANTIATE_TEST_SUITE_P(Runs, EveryRecompute, testing::ValuesIn(all_given()), name_of);

/// Its activations take far more than its parameters.
RunConfig large_batch(int64_t layers) {
  RunConfig config = tiny_run("gpt");
  config.model.layers = layers;
  config.train.batch = 256;
  return config;
}

Bytes peak_with(const Recompute& recompute, int64_t layers) {
  const RunConfig config = large_batch(layers);
  Plan plan;
  plan.recompute = recompute;
  const Compiled compiled = compile(training_graph(config), plan);
  return compiled.arenas.front().size;
}

TEST(Recompute, AFurtherLayerKeepsItsOneResultUnderFull) {
  const RunConfig config = large_batch(1);
  const Bytes value(config.train.batch * config.model.context * config.model.width * 4);
  const Recompute full{Recompute::Kind::kFull};
  EXPECT_EQ(peak_with(full, 12) - peak_with(full, 11), value);
}

TEST(Recompute, SelectiveIsBetweenFullAndNone) {
  const Bytes none = peak_with({}, 12);
  const Bytes selective = peak_with({Recompute::Kind::kSelective}, 12);
  const Bytes full = peak_with({Recompute::Kind::kFull}, 12);
  EXPECT_LT(selective, none);
  EXPECT_LT(full, selective);
}

TEST(Recompute, IsSwitchedOffWithItsPass) {
  const RunConfig config = tiny_run("gpt");
  Plan plan;
  const Graph graph = training_graph(config);
  const std::string kept = to_text(compile(graph, plan).tasks);
  plan.recompute.kind = Recompute::Kind::kFull;
  EXPECT_NE(to_text(compile(graph, plan).tasks), kept);
  plan.disabled_passes = {"recompute"};
  EXPECT_EQ(to_text(compile(graph, plan).tasks), kept);
}

}  // namespace
}  // namespace tessera
