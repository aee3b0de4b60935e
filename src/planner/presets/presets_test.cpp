#include "planner/presets/presets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "sharding/propagation/mesh_assignment.h"

namespace tessera {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// "PATTERN placement" or "PATTERN on MESH" of each mark.
std::vector<std::string> marks_of(const Plan& plan) {
  std::vector<std::string> texts;
  for (const Mark& mark : plan.marks)
    texts.push_back(mark.pattern + " " + (mark.mesh.empty() ? mark.placement : "on " + mark.mesh));
  return texts;
}

Plan plan_for(const std::string& text, const std::string& graph, std::optional<int> ranks = {}) {
  return preset_plan(parse_preset(text), parse_graph(graph), ranks);
}

/// The message of the error of a preset.
std::string error_of(const std::string& text, const std::string& graph,
                     std::optional<int> ranks = {}) {
  try {
    plan_for(text, graph, ranks);
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

// Names say nothing: the weights are called after colours.
constexpr const char* kTwoProducts =
    "input x: f32[8,64]\n"
    "variable red: f32[64,256] = normal(0.0, 0.02)\n"
    "variable blue: f32[256] = constant(0.0)\n"
    "variable green: f32[256,64] = normal(0.0, 0.02)\n"
    "a = dot_general(x, red) {spec=\"bi,io->bo\"}: f32[8,256]\n"
    "b = broadcast(blue) {dims=[1], shape=[8, 256]}: f32[8,256]\n"
    "c = add(a, b): f32[8,256]\n"
    "d = tanh(c): f32[8,256]\n"
    "e = dot_general(d, green) {spec=\"bi,io->bo\"}: f32[8,64]\n"
    "f = add(e, x): f32[8,64]\n"
    "loss = reduce(f) {dims=[0, 1], op=\"sum\"}: f32[]\n"
    "output loss = loss\n";

TEST(Presets, DataParallelismDividesTheRowsOfEveryInput) {
  const Plan plan = plan_for("dp=2", kTwoProducts);
  EXPECT_EQ(mesh_text(plan), "dp=2");
  EXPECT_THAT(marks_of(plan), ElementsAre("x P(\"dp\")"));
}

TEST(Presets, TwoProductsInSequenceAreColumnsAndRows) {
  EXPECT_THAT(marks_of(plan_for("tp=2", kTwoProducts)),
              ElementsAre("red P(None, \"tp\")", "{blue,green} P(\"tp\")"));
}

TEST(Presets, AxesStandInOneOrderWhateverTheOrderOfTheText) {
  EXPECT_EQ(mesh_text(plan_for("tp=2,dp=3", kTwoProducts)), "dp=3 tp=2");
}

TEST(Presets, AnAxisOfSizeOneIsLeftOut) {
  const Plan plan = plan_for("dp=1,tp=2", kTwoProducts);
  EXPECT_EQ(mesh_text(plan), "tp=2");
  EXPECT_THAT(marks_of(plan_for("dp=1,tp=1,pp=1", kTwoProducts)), IsEmpty());
}

// Queries, keys and values of two heads; the output product contracts both dims of a head.
constexpr const char* kAttention =
    "input x: f32[4,8,32]\n"
    "variable one: f32[32,2,16] = normal(0.0, 0.02)\n"
    "variable two: f32[32,2,16] = normal(0.0, 0.02)\n"
    "variable three: f32[32,2,16] = normal(0.0, 0.02)\n"
    "variable four: f32[2,16,32] = normal(0.0, 0.02)\n"
    "q = dot_general(x, one) {spec=\"bse,ehd->bshd\"}: f32[4,8,2,16]\n"
    "k = dot_general(x, two) {spec=\"bse,ehd->bshd\"}: f32[4,8,2,16]\n"
    "v = dot_general(x, three) {spec=\"bse,ehd->bshd\"}: f32[4,8,2,16]\n"
    "m = attention(q, k, v) {causal=true, scale=0.25}: f32[4,8,2,16], f32[4,8,2]\n"
    "y = dot_general(m, four) {spec=\"bshd,hde->bse\"}: f32[4,8,32]\n"
    "loss = reduce(y) {dims=[0, 1, 2], op=\"sum\"}: f32[]\n"
    "output loss = loss\n";

TEST(Presets, AttentionIsDividedByHeads) {
  EXPECT_THAT(marks_of(plan_for("tp=2", kAttention)),
              ElementsAre("{one,two,three} P(None, \"tp\")", "four P(\"tp\")"));
}

TEST(Presets, TheAxisOfSpaceDividesThePositionsOfASequence) {
  EXPECT_THAT(marks_of(plan_for("dp=2,sp=2", kAttention)), ElementsAre("x P(\"dp\", \"sp\")"));
}

TEST(Presets, PositionsAreDividedWhereOnlyTheLastOneIsReadInTheEnd) {
  std::string last = kAttention;
  const std::string all = "loss = reduce(y) {dims=[0, 1, 2], op=\"sum\"}: f32[]\n";
  last.replace(
      last.find(all), all.size(),
      "last = slice(y) {start=[0, 7, 0], limit=[4, 8, 32], stride=[1, 1, 1]}: f32[4,1,32]\n"
      "loss = reduce(last) {dims=[0, 1, 2], op=\"sum\"}: f32[]\n");
  EXPECT_THAT(marks_of(plan_for("dp=2,sp=2", last)), ElementsAre("x P(\"dp\", \"sp\")"));
}

TEST(Presets, ATableOfATiedModelIsDividedByItsVocabulary) {
  const std::string tied =
      "input tokens: i32[4,8]\n"
      "variable table: f32[64,16] = normal(0.0, 0.02)\n"
      "rows = gather(table, tokens): f32[4,8,16]\n"
      "logits = dot_general(rows, table) {spec=\"bse,ve->bsv\"}: f32[4,8,64]\n"
      "sum = reduce(logits) {dims=[2], op=\"sum\"}: f32[4,8]\n"
      "loss = reduce(sum) {dims=[0, 1], op=\"sum\"}: f32[]\n"
      "output loss = loss\n";
  EXPECT_THAT(marks_of(plan_for("tp=2", tied)), ElementsAre("table P(\"tp\")"));
}

TEST(Presets, AProjectionToFewClassesStaysWhole) {
  // Columns of `classes`: 2 x 8 x 64 x 10 operations for the 8 x 64 elements of the gradient of e,
  // 20 for each. Its rows belong to the columns of `second`, whose rows are divided already.
  const std::string classes =
      "input x: f32[8,64]\n"
      "variable first: f32[64,64] = normal(0.0, 0.02)\n"
      "variable second: f32[64,64] = normal(0.0, 0.02)\n"
      "variable classes: f32[64,10] = normal(0.0, 0.02)\n"
      "d = dot_general(x, first) {spec=\"bi,io->bo\"}: f32[8,64]\n"
      "e = dot_general(d, second) {spec=\"bi,io->bo\"}: f32[8,64]\n"
      "y = dot_general(e, classes) {spec=\"bi,io->bo\"}: f32[8,10]\n"
      "loss = reduce(y) {dims=[0, 1], op=\"sum\"}: f32[]\n"
      "output loss = loss\n";
  EXPECT_THAT(marks_of(plan_for("tp=2", classes)),
              ElementsAre("first P(None, \"tp\")", "second P(\"tp\")"));
}

TEST(Presets, AnAxisThatWouldDivideNothingIsRefused) {
  EXPECT_THAT(error_of("sp=2", kTwoProducts), HasSubstr("sp divides too little of this network"));
  const std::string alone =
      "input x: f32[8,64]\n"
      "variable w: f32[64] = constant(1.0)\n"
      "r = broadcast(w) {dims=[1], shape=[8, 64]}: f32[8,64]\n"
      "y = mul(x, r): f32[8,64]\n"
      "loss = reduce(y) {dims=[0, 1], op=\"sum\"}: f32[]\n"
      "output loss = loss\n";
  EXPECT_THAT(error_of("tp=2", alone), HasSubstr("tp divides no weight of this network"));
}

/// Residual layers of equal work: x + tanh(x w).
std::string residual_layers(int count) {
  std::string text = "input x: f32[8,64]\n", ops, last = "x";
  for (int i = 0; i < count; ++i) {
    const std::string name = "layers." + std::to_string(i);
    text += "variable " + name + ".w: f32[64,64] = normal(0.0, 0.02)\n";
    ops += name + ".dot = dot_general(" + last + ", " + name +
           ".w) {spec=\"bi,io->bo\"}: f32[8,64]\n" + name + ".tanh = tanh(" + name +
           ".dot): f32[8,64]\n" + name + ".sum = add(" + name + ".tanh, " + last + "): f32[8,64]\n";
    last = name + ".sum";
  }
  return text + ops + "loss = reduce(" + last +
         ") {dims=[0, 1], op=\"sum\"}: f32[]\noutput loss = loss\n";
}

TEST(Presets, StagesAreEvenAndEndBetweenLayers) {
  const Plan plan = plan_for("pp=2", residual_layers(6));
  EXPECT_EQ(mesh_text(plan), "stage0: dp=1 {0}, stage1: dp=1 {1}");
  EXPECT_THAT(marks_of(plan), ElementsAre("layers.{0..2}.* on stage0", "layers.{3..5}.* on stage1",
                                          "loss on stage1"));
}

TEST(Presets, RanksOfAStageAreNeighbours) {
  EXPECT_EQ(mesh_text(plan_for("dp=2,pp=2,tp=1", residual_layers(4))),
            "stage0: dp=2 {0,1}, stage1: dp=2 {2,3}");
}

TEST(Presets, WithoutMicroBatchesAPipelineTakesADivisorOfTheBatch) {
  EXPECT_EQ(plan_for("pp=2", residual_layers(4)).micro_batches, 4);
  // 6 does not divide 8.
  EXPECT_EQ(plan_for("pp=3", residual_layers(6)).micro_batches, 4);
  EXPECT_EQ(plan_for("pp=2,micro_batches=8", residual_layers(4)).micro_batches, 8);
  EXPECT_EQ(plan_for("dp=2", residual_layers(4)).micro_batches, 1);
  EXPECT_EQ(plan_for("dp=2,accumulate=2", residual_layers(4)).micro_batches, 2);
  EXPECT_EQ(plan_for("pp=2,accumulate=2", residual_layers(4)).micro_batches % 2, 0);
}

TEST(Presets, SchedulesOfTwoStagesADeviceHaveThemInTurnOrInAV) {
  const Plan turn = plan_for("pp=2,schedule=interleaved", residual_layers(4));
  EXPECT_EQ(mesh_text(turn),
            "stage0: dp=1 {0}, stage1: dp=1 {1}, stage2: dp=1 {0}, stage3: dp=1 {1}");
  const Plan v = plan_for("pp=2,schedule=zb-v", residual_layers(4));
  EXPECT_EQ(mesh_text(v), "stage0: dp=1 {0}, stage1: dp=1 {1}, stage2: dp=1 {1}, stage3: dp=1 {0}");
}

TEST(Presets, ChunksAreTheStagesOfADeviceInTurn) {
  EXPECT_EQ(mesh_text(plan_for("pp=2,schedule=interleaved,chunks=3", residual_layers(6))),
            "stage0: dp=1 {0}, stage1: dp=1 {1}, stage2: dp=1 {0}, stage3: dp=1 {1}, "
            "stage4: dp=1 {0}, stage5: dp=1 {1}");
  EXPECT_THAT(error_of("pp=2,chunks=3", residual_layers(6)),
              HasSubstr("schedule 1f1b has one stage on each device"));
  EXPECT_THAT(error_of("pp=2,schedule=zb-v,chunks=3", residual_layers(6)),
              HasSubstr("schedule zb-v has two stages on each device"));
}

TEST(Presets, StagesHaveWholeLayers) {
  const auto stages = [](const std::string& text, int layers) {
    return marks_of(plan_for(text, residual_layers(layers)));
  };
  EXPECT_THAT(stages("pp=2,stage_layers=1+5", 6),
              ElementsAre("layers.0.* on stage0", "layers.{1..5}.* on stage1", "loss on stage1"));
  EXPECT_THAT(stages("pp=2,stage_layers=6+0", 6),
              ElementsAre("layers.* on stage0", "loss on stage1"));
  // Those at both ends have one less.
  EXPECT_THAT(stages("pp=4,stage_layers=equal", 6),
              ElementsAre("layers.0.* on stage0", "layers.{1..2}.* on stage1",
                          "layers.{3..4}.* on stage2", "layers.5.* on stage3", "loss on stage3"));
  EXPECT_THAT(error_of("pp=2,stage_layers=1+4", residual_layers(6)),
              HasSubstr("this network repeats 6 layers"));
  EXPECT_THAT(error_of("pp=2,stage_layers=1+4+1", residual_layers(6)),
              HasSubstr("there are 2 stages"));
  EXPECT_THAT(error_of("pp=3,stage_layers=3+0+3", residual_layers(6)),
              HasSubstr("leaves a stage without ops"));
  EXPECT_THAT(error_of("pp=2,stage_layers=1+x", residual_layers(6)), HasSubstr("has \"x\""));
  EXPECT_THAT(error_of("pp=2,stage_layers=equal,boundaries=layers.0", residual_layers(6)),
              HasSubstr("both say where stages end"));
}

TEST(Presets, ADeviceIsThatOfEveryRank) {
  for (const char* text : {"dp=2,device=fake", "pp=2,device=fake", "dp=1,device=fake"})
    for (const NamedMesh& mesh : plan_for(text, residual_layers(4)).meshes)
      EXPECT_EQ(mesh.device, DeviceKind::kFake) << text;
}

TEST(Presets, MoreStagesThanWorkAreRefusedWithTheMost) {
  EXPECT_THAT(error_of("pp=64", residual_layers(2)), HasSubstr("does not fit this network"));
}

std::string with_states(const std::string& graph) {
  return graph +
         "variable red.mean: f32[64,256] = constant(0.0) state <- optimizer red\n"
         "variable blue.mean: f32[256] = constant(0.0) state <- optimizer blue\n"
         "variable green.mean: f32[256,64] = constant(0.0) state <- optimizer green\n"
         "variable green.steps: f32[] = constant(0.0) state <- optimizer green\n";
}

TEST(Presets, ZeroDividesTheStateOfTheOptimizerBesideTensorParallelism) {
  EXPECT_THAT(marks_of(plan_for("dp=2,tp=2,zero=1", with_states(kTwoProducts))),
              ElementsAre("x P(\"dp\")", "red P(None, \"tp\")", "red.mean P(\"dp\", \"tp\")",
                          "{blue,green} P(\"tp\")", "blue.mean P((\"tp\", \"dp\"))",
                          "green.mean P(\"tp\", \"dp\")"));
}

TEST(Presets, ZeroThreeDividesTheParametersAndFreesTheirCopies) {
  const Plan plan = plan_for("dp=2,zero=3", with_states(kTwoProducts));
  EXPECT_THAT(marks_of(plan), ElementsAre("{x,red,blue,green} P(\"dp\")",
                                          "{red,blue,green}.mean P(\"dp\")", "{red,blue,green} "));
  EXPECT_EQ(plan.marks.back().copies, ReplicaLifetime::kPass);
}

TEST(Presets, FsdpDividesParametersAndBatchAndDpOutsideOfItTheBatchAlone) {
  EXPECT_THAT(marks_of(plan_for("fsdp=2", with_states(kTwoProducts))),
              ElementsAre("{x,red,blue,green} P(\"fsdp\")", "{red,blue,green}.mean P(\"fsdp\")",
                          "{red,blue,green} "));
  const Plan both = plan_for("dp=2,fsdp=4", with_states(kTwoProducts));
  EXPECT_EQ(mesh_text(both), "dp=2 fsdp=4");
  EXPECT_THAT(marks_of(both),
              ElementsAre("x P((\"dp\", \"fsdp\"))", "{red,blue,green} P(\"fsdp\")",
                          "{red,blue,green}.mean P(\"fsdp\")", "{red,blue,green} "));
  EXPECT_THAT(marks_of(plan_for("fsdp=2,zero=0", with_states(kTwoProducts))),
              ElementsAre("x P(\"fsdp\")"));
}

// The weight is f32, and its product in 16 bits.
constexpr const char* kMixed =
    "input x: bf16[8,64]\n"
    "variable red: f32[64,256] = normal(0.0, 0.02)\n"
    "variable bias: f32[256] = constant(0.0)\n"
    "red.bf16 = cast(red) {to=\"bf16\"}: bf16[64,256]\n"
    "a = dot_general(x, red.bf16) {spec=\"bi,io->bo\"}: bf16[8,256]\n"
    "a.f32 = cast(a) {to=\"f32\"}: f32[8,256]\n"
    "b = broadcast(bias) {dims=[1], shape=[8, 256]}: f32[8,256]\n"
    "c = add(a.f32, b): f32[8,256]\n"
    "loss = reduce(c) {dims=[0, 1], op=\"sum\"}: f32[]\n"
    "variable red.mean: f32[64,256] = constant(0.0) state <- optimizer red\n"
    "output loss = loss\n";

TEST(Presets, MasterWeightsAreDividedWithTheirStateAndReadThroughCopiesOfAStep) {
  const Plan plan = plan_for("dp=2,zero=1", kMixed);
  EXPECT_THAT(marks_of(plan),
              ElementsAre("{x,red} P(\"dp\")", "red.mean P(\"dp\")", "bias P()", "red "));
  EXPECT_EQ(plan.marks.back().copies, ReplicaLifetime::kStep);
  EXPECT_THAT(marks_of(plan_for("dp=2,zero=1,master_weights=whole", kMixed)),
              ElementsAre("x P(\"dp\")", "red.mean P(\"dp\")", "{red,bias} P()"));
}

TEST(Presets, SequenceParallelismDividesPositionsWhereTpDividesNoWeight) {
  // The sum of the output product is scattered over positions; x of the products is an input.
  EXPECT_THAT(marks_of(plan_for("dp=2,tp=2,sequence_parallel=true", kAttention)),
              ElementsAre("x P(\"dp\")", "{one,two,three} P(None, \"tp\")", "four P(\"tp\")",
                          "y P(\"dp\", \"tp\")"));
  EXPECT_THAT(error_of("dp=2,sequence_parallel=true", kAttention), HasSubstr("without tp"));
  EXPECT_THAT(error_of("tp=2,sequence_parallel=true", kTwoProducts),
              HasSubstr("sequence_parallel divides nothing of this network"));
}

TEST(Presets, ZeroNeedsDataParallelism) {
  EXPECT_EQ(
      error_of("tp=2,zero=1", with_states(kTwoProducts)),
      "preset 'tp=2,zero=1' has zero=1 without dp\n"
      "  why: zero divides what the ranks of the axis fsdp, or dp without it, would all keep\n"
      "  fix: give a degree dp or fsdp of at least 2, or remove zero");
  EXPECT_THAT(error_of("dp=2,zero=4", kTwoProducts), HasSubstr("4 is no level of zero"));
}

TEST(Presets, TheRestIsWhatTheRanksLeave) {
  EXPECT_EQ(mesh_text(plan_for("dp=rest,tp=2", kTwoProducts, 6)), "dp=3 tp=2");
  EXPECT_THAT(error_of("dp=rest,tp=2", kTwoProducts), HasSubstr("no number of ranks"));
  EXPECT_THAT(error_of("dp=rest,tp=2", kTwoProducts, 5), HasSubstr("does not fit 5 ranks"));
}

TEST(Presets, AStateOfARecurrenceIsDividedWhereItIsMade) {
  // h of two steps; the weight of the state has it in both dims.
  const std::string recurrence =
      "input x: f32[4,16]\n"
      "variable in: f32[16,64] = normal(0.0, 0.02)\n"
      "variable state: f32[64,64] = normal(0.0, 0.02)\n"
      "h0 = dot_general(x, in) {spec=\"bi,io->bo\"}: f32[4,64]\n"
      "h1 = dot_general(h0, state) {spec=\"bi,io->bo\"}: f32[4,64]\n"
      "s1 = add(h1, h0): f32[4,64]\n"
      "h2 = dot_general(s1, state) {spec=\"bi,io->bo\"}: f32[4,64]\n"
      "s2 = add(h2, s1): f32[4,64]\n"
      "loss = reduce(s2) {dims=[0, 1], op=\"sum\"}: f32[]\n"
      "output loss = loss\n";
  EXPECT_THAT(marks_of(plan_for("tp=2", recurrence)), ElementsAre("{in,state} P(None, \"tp\")"));
}

MeshPtr mesh_on(const std::string& axis, std::vector<Rank> ranks) {
  const auto size = static_cast<int64_t>(ranks.size());
  return std::make_shared<const Mesh>(Shape{size}, std::vector{axis}, std::move(ranks));
}

/// kTwoProducts with the ops up to `d` on the first stage and the others on the last one.
Plan two_stages(const Graph& graph, MeshPtr first, MeshPtr last, int64_t micro_batches) {
  Plan decisions;
  decisions.meshes = {{"first", std::move(first)}, {"last", std::move(last)}};
  decisions.micro_batches = micro_batches;
  return staged_plan(graph, {0, 0, 0, 0, 1, 1, 1}, std::move(decisions));
}

/// By forward op, the stage of a preset.
std::vector<int> cut_of(const std::string& text, const Graph& graph) {
  const Plan plan = preset_plan(parse_preset(text), graph);
  return assign_meshes(graph, plan.meshes, plan.marks).ops;
}

// a to c belong to no scope, two.d and two.e to one.
constexpr const char* kScopes =
    "input x: f32[8,64]\n"
    "variable red: f32[64,64] = normal(0.0, 0.02)\n"
    "variable green: f32[64,64] = normal(0.0, 0.02)\n"
    "a = dot_general(x, red) {spec=\"bi,io->bo\"}: f32[8,64]\n"
    "b = tanh(a): f32[8,64]\n"
    "two.d = dot_general(b, green) {spec=\"bi,io->bo\"}: f32[8,64]\n"
    "two.e = tanh(two.d): f32[8,64]\n"
    "loss = reduce(two.e) {dims=[0, 1], op=\"sum\"}: f32[]\n"
    "output loss = loss\n";

TEST(PresetBoundaries, AreAfterTheLastOpOfANameOrScope) {
  const Graph graph = parse_graph(kScopes);
  EXPECT_THAT(cut_of("pp=2,boundaries=a", graph), ElementsAre(0, 1, 1, 1, 1));
  EXPECT_THAT(cut_of("pp=2,boundaries=two", graph), ElementsAre(0, 0, 0, 0, 1));
  EXPECT_THAT(cut_of("pp=3,boundaries=b+two.d", graph), ElementsAre(0, 0, 1, 2, 2));
  EXPECT_THAT(cut_of("pp=2,boundaries=a+b+two.d,schedule=v-min", graph),
              ElementsAre(0, 1, 2, 3, 3));
}

TEST(PresetHardware, IsWhatTheMeshesOfTheStagesWithTheOpsNeed) {
  const Graph graph = parse_graph(kScopes);
  const auto needs_of = [&](const std::string& text) {
    std::vector<std::string> needs;
    for (const NamedMesh& mesh : preset_plan(parse_preset(text), graph).meshes)
      needs.push_back(mesh.hardware);
    return needs;
  };
  EXPECT_THAT(needs_of("pp=2,boundaries=a,stage_hardware=a:v100"), ElementsAre("v100", ""));
  EXPECT_THAT(needs_of("pp=2,boundaries=a,stage_hardware=two:gpu"), ElementsAre("", "gpu"));
  EXPECT_THAT(needs_of("pp=3,boundaries=a+b,stage_hardware=a:v100+loss:p100"),
              ElementsAre("v100", "", "p100"));
  EXPECT_THAT(needs_of("dp=2,stage_hardware=b:v100"), ElementsAre("v100")) << "one mesh has all";
}

TEST(PresetHardware, IsRefusedWhereItCannotBe) {
  EXPECT_THAT(error_of("pp=2,boundaries=a,stage_hardware=c:gpu", kScopes),
              HasSubstr("names 'c', which no op"));
  EXPECT_THAT(error_of("pp=2,boundaries=b,stage_hardware=a:v100+b:p100", kScopes),
              HasSubstr("has to be on 'v100' and on 'p100'"));
}

TEST(PresetBoundaries, AreRefusedWhereTheyCannotBe) {
  EXPECT_THAT(error_of("pp=3,boundaries=a", kScopes),
              HasSubstr("has boundaries of 2 stages, not of 3"));
  EXPECT_THAT(error_of("dp=2,boundaries=a", kScopes),
              HasSubstr("has boundaries of 2 stages, not of 1"));
  EXPECT_THAT(error_of("pp=2,boundaries=tw", kScopes), HasSubstr("the boundary 'tw' has no op"));
  EXPECT_THAT(error_of("pp=2,boundaries=loss", kScopes), HasSubstr("leaves no op"));
  EXPECT_THAT(error_of("pp=3,boundaries=two+a", kScopes), HasSubstr("the boundary 'a' does not"));
  EXPECT_THAT(error_of("pp=3,boundaries=a+a", kScopes), HasSubstr("the boundary 'a' does not"));
}

TEST(StagedPlans, StagesOfOneAxisAndSizeHaveTheMarksOfAPreset) {
  const Graph graph = parse_graph(kTwoProducts);
  EXPECT_THAT(marks_of(two_stages(graph, mesh_on("dp", {0, 1}), mesh_on("dp", {2, 3}), 2)),
              ElementsAre("{a,b,c,d} on first", "{e,f,loss} on last", "x P(\"dp\")"));
}

// Nothing is propagated from dp=2 to dp=4. Micro-batches divide the rows first.
TEST(StagedPlans, StagesOfOtherSizesHaveMarksOnTheirFirstResults) {
  const Graph graph = parse_graph(kTwoProducts);
  EXPECT_THAT(marks_of(two_stages(graph, mesh_on("dp", {0, 1}), mesh_on("dp", {2, 3, 4, 5}), 2)),
              ElementsAre("{a,b,c,d} on first", "{e,f,loss} on last", "x P(\"dp\")",
                          "e P((\"mb\", \"dp\"))"));
  EXPECT_THAT(marks_of(two_stages(graph, mesh_on("dp", {0, 1}), mesh_on("dp", {2, 3, 4, 5}), 1)),
              ElementsAre("{a,b,c,d} on first", "{e,f,loss} on last", "{x,e} P(\"dp\")"));
}

TEST(StagedPlans, EachStageDividesWeightsByTheAxesOfItsOwnMesh) {
  const Graph graph = parse_graph(kTwoProducts);
  EXPECT_THAT(marks_of(two_stages(graph, mesh_on("tp", {0, 1}), mesh_on("dp", {2, 3}), 2)),
              ElementsAre("{a,b,c,d} on first", "{e,f,loss} on last", "red P(None, \"tp\")",
                          "blue P(\"tp\")", "e P((\"mb\", \"dp\"))"));
}

}  // namespace
}  // namespace tessera
