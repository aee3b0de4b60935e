// Explicit shardings: what they say, and what they refuse.
#include "sharding/explicit/explicit_shardings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/testing/error.h"
#include "base/testing/tensor_types.h"
#include "ir/ops/builder.h"
#include "sharding/layout/testing/mesh_of.h"
#include "sharding/propagation/micro_batches.h"
#include "sharding/propagation/propagate.h"

namespace tessera {
namespace {

using error_testing::message_of;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// Layers y = tanh(y w) with weights of 8 x 8; the last one is added up over the columns.
Graph layers(int count) {
  Graph graph;
  Builder b(graph);
  ValueId y = b.input("x", f32({4, 8}));
  for (int i = 0; i < count; ++i) {
    const auto scope = b.scope("layer." + std::to_string(i));
    const ValueId w = b.variable("w", f32({8, 8}), Initializer::normal(0, 1));
    y = b.unary("tanh", b.dot(y, w, "mk,kn->mn", "dot"), "tanh");
  }
  graph.add_output("sum", b.reduce_sum(y, {1}, "sum"));
  return graph;
}

const std::vector<Mark> kByRowsAndInner = {shard_tensor("x", "P(\"dp\")"),
                                           shard_tensor("layer.*.w", "P(\"tp\")")};

Shardings train_section(ShardingSection section) {
  Shardings shardings;
  shardings.sections.emplace_back(kTrainSection, std::move(section));
  return shardings;
}

TEST(ResolvedShardings, SayEachDecisionOnceForAllLayers) {
  const Graph graph = layers(96);
  const ShardingSection section =
      to_shardings(graph, propagate(graph, mesh_of("dp=2 tp=2"), kByRowsAndInner), kTrainSection);
  EXPECT_THAT(section.stages, IsEmpty());
  EXPECT_EQ(section.ops, (std::vector<PatternDecision>{{"m@dp, k@tp", {"layer.{0..95}.dot"}},
                                                       {"d0@dp, d1@tp", {"layer.{0..94}.tanh"}},
                                                       {"d0@dp", {"layer.95.tanh", "sum"}}}));
  // A product makes sums over tp, which are scattered as the next layer reads them.
  EXPECT_EQ(section.values, (std::vector<PatternDecision>{{"[@dp, *]", {"x"}},
                                                          {"[@tp, *]", {"layer.{0..95}.w"}},
                                                          {"[@dp, @tp]", {"layer.{0..94}.dot"}}}));
}

TEST(ResolvedShardings, PlaceEveryOpAndValueAsPropagationDid) {
  const Graph graph = layers(3);
  for (const int64_t micro_batches : {1, 2}) {
    Meshes meshes = one_mesh(mesh_of("dp=2 tp=2"));
    if (micro_batches > 1) meshes = with_micro_batches(meshes, micro_batches);
    const ShardedGraph wanted = propagate(graph, meshes, kByRowsAndInner);
    const ShardedGraph got = apply_shardings(
        graph, meshes, train_section(to_shardings(graph, wanted, kTrainSection)), kTrainSection);
    EXPECT_EQ(got.ops, wanted.ops);
    EXPECT_EQ(got.values, wanted.values);
    EXPECT_EQ(got.stages.ops, wanted.stages.ops);
    EXPECT_EQ(got.stages.values, wanted.stages.values);
  }
}

// No mark is there that a value could have its placement from.
TEST(ResolvedShardings, AreTheReasonOfEveryPlacement) {
  const Graph graph = layers(2);
  const Meshes meshes = one_mesh(mesh_of("dp=2 tp=2"));
  const ShardedGraph made = apply_shardings(
      graph, meshes,
      train_section(to_shardings(graph, propagate(graph, meshes, kByRowsAndInner), kTrainSection)),
      kTrainSection);
  const auto reason = [&](const char* value) {
    return made.value_reasons[graph.find_value(value)->index];
  };
  EXPECT_EQ(reason("x"), "the plan's shardings");
  EXPECT_EQ(reason("layer.0.dot"), "the plan's shardings");
  EXPECT_EQ(reason("layer.0.tanh"), "the plan's sharding of op 'layer.0.tanh'");
  EXPECT_EQ(reason("sum"), "the plan's sharding of op 'sum'");
}

// What a step in micro-batches says is also what one whole batch needs, without the axis "mb".
TEST(ResolvedShardings, WithoutMicroBatchesLeaveTheirAxisOut) {
  const Graph graph = layers(1);
  const Meshes meshes = one_mesh(mesh_of("dp=2"));
  const std::vector<Mark> marks = {shard_tensor("x", "P(\"dp\")")};
  const ShardingSection section =
      to_shardings(graph, propagate(graph, with_micro_batches(meshes, 2), marks), kTrainSection);
  EXPECT_EQ(section.values.front(), (PatternDecision{"[@mb@dp, *]", {"x"}}));
  const ShardedGraph once = apply_shardings(graph, meshes, train_section(section), kTrainSection);
  EXPECT_EQ(once.ops, propagate(graph, meshes, marks).ops);
}

// Nothing would be divided by the micro-batches: each op would compute the whole batch at once.
TEST(ResolvedShardings, OfOneMicroBatchAreRefusedForSeveral) {
  const Graph graph = layers(1);
  const Meshes meshes = one_mesh(mesh_of("dp=2"));
  const ShardingSection section = to_shardings(
      graph, propagate(graph, meshes, {shard_tensor("x", "P(\"dp\")")}), kTrainSection);
  EXPECT_EQ(message_of(ExitCode::kBadConfig,
                       [&] {
                         apply_shardings(graph, with_micro_batches(meshes, 4),
                                         train_section(section), kTrainSection);
                       }),
            "the plan has 4 micro-batches, and its sharding of input 'x' is for one\n"
            "  why: micro-batches divide the rows of every input, and shardings say '@mb' of all "
            "that they divide\n"
            "  fix: make the plan anew with `tessera explain --explicit` for 4 micro-batches, or "
            "set micro_batches to 1");
}

TEST(ResolvedShardings, APartialVariableBeginsAsZero) {
  const Graph graph = layers(1);
  const Meshes meshes = one_mesh(mesh_of("dp=2"));
  ShardingSection section = to_shardings(graph, propagate(graph, meshes, {}), kTrainSection);
  section.values.insert(section.values.begin(), {"[*, *] {partial sum: dp}", {"layer.0.w"}});
  for (PatternDecision& decision : section.values)
    if (&decision != &section.values.front()) std::erase(decision.names, "layer.0.w");
  EXPECT_THAT(
      message_of(ExitCode::kBadConfig,
                 [&] { apply_shardings(graph, meshes, train_section(section), kTrainSection); }),
      testing::HasSubstr("'layer.0.w' makes it partial"));
}

TEST(ResolvedShardings, OfAnotherProgramSayOnlyWhatDiffers) {
  const MeshPtr mesh = mesh_of("dp=2 tp=2");
  const Graph training = layers(2), other = layers(3);
  const Shardings known = train_section(
      to_shardings(training, propagate(training, mesh, kByRowsAndInner), kTrainSection));
  const ShardedGraph wanted = propagate(other, mesh, kByRowsAndInner);
  const ShardingSection section = to_shardings(other, wanted, "evaluate", known);
  EXPECT_EQ(section.ops, (std::vector<PatternDecision>{{"d0@dp, d1@tp", {"layer.1.tanh"}},
                                                       {"m@dp, k@tp", {"layer.2.dot"}},
                                                       {"d0@dp", {"layer.2.tanh"}}}));
  Shardings both = known;
  both.sections.emplace_back("evaluate", section);
  EXPECT_EQ(apply_shardings(other, one_mesh(mesh), both, "evaluate").ops, wanted.ops);
}

TEST(ResolvedShardings, SayTheStagesByTheLongestBeginningThatOpsShare) {
  const Graph graph = layers(4);
  Meshes meshes = {{"first", std::make_shared<const Mesh>(Shape{1}, std::vector<std::string>{"dp"},
                                                          std::vector<Rank>{0})},
                   {"last", std::make_shared<const Mesh>(Shape{1}, std::vector<std::string>{"dp"},
                                                         std::vector<Rank>{1})}};
  const ShardedGraph wanted =
      propagate(graph, meshes, {stage("layer.{0,1}.*", "first"), stage("layer.{2,3}.*", "last")});
  const ShardingSection section = to_shardings(graph, wanted, kTrainSection);
  EXPECT_EQ(section.stages, (std::vector<PatternDecision>{{"first", {"layer.{0..1}.*"}},
                                                          {"last", {"layer.{2..3}.*", "sum"}}}));
  EXPECT_EQ(section.values,
            (std::vector<PatternDecision>{{"[*, *] on first", {"x", "layer.{0..1}.w"}},
                                          {"[*, *] on last", {"layer.{2..3}.w"}}}));
  const ShardedGraph got = apply_shardings(graph, meshes, train_section(section), kTrainSection);
  EXPECT_EQ(got.stages.ops, wanted.stages.ops);
  EXPECT_EQ(got.stages.values, wanted.stages.values);
}

TEST(ResolvedShardings, AreWrittenAndRead) {
  const Graph graph = layers(2);
  const Shardings shardings = train_section(
      to_shardings(graph, propagate(graph, mesh_of("dp=2 tp=2"), kByRowsAndInner), kTrainSection));
  EXPECT_EQ(parse_shardings(to_document(shardings), "plan.json"), shardings);
}

// ---- what is refused ----

/// The error of placing one layer by these decisions for its dot, and these further ops.
std::string refusal(const std::string& dot, const std::vector<PatternDecision>& others,
                    const std::string& canonical_placement = "[@dp, *]") {
  const Graph graph = layers(1);
  ShardingSection section;
  section.ops = others;
  if (!dot.empty()) section.ops.push_back({dot, {"layer.0.dot"}});
  section.values = {{canonical_placement, {"x"}}, {"[*, *]", {"layer.0.w"}}};
  try {
    apply_shardings(graph, one_mesh(mesh_of("dp=2 tp=2")), train_section(section), kTrainSection);
  } catch (const UserError& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::kBadConfig);
    return error.what();
  }
  return "";
}

const std::vector<PatternDecision> kOthers = {{"d0@dp", {"layer.0.tanh", "sum"}}};

TEST(ResolvedShardings, AreObeyed) {
  EXPECT_EQ(refusal("m@dp", kOthers), "");
}

TEST(ResolvedShardings, RefuseAMissingOpByItsName) {
  EXPECT_THAT(refusal("", kOthers),
              HasSubstr("the plan's shardings say nothing of op 'layer.0.dot' of the program "
                        "'train'\n  why: explicit shardings have every op"));
}

TEST(ResolvedShardings, RefuseAnOpThatTheProgramLacks) {
  EXPECT_THAT(refusal("m@dp", {{"d0@dp", {"layer.0.tanh", "sum", "layer.1.tanh"}}}),
              HasSubstr("has the op 'layer.1.tanh', which the program 'train' lacks"));
}

TEST(ResolvedShardings, RefuseAnOpThatIsListedTwice) {
  EXPECT_THAT(refusal("m@dp", {{"d0@dp", {"layer.0.tanh", "sum"}}, {"whole", {"sum"}}}),
              HasSubstr("has the op 'sum' twice: as 'd0@dp' and 'whole'"));
}

TEST(ResolvedShardings, RefuseWhatAnOpDoesNotAllow) {
  EXPECT_THAT(
      refusal("q@dp", kOthers),
      HasSubstr("the factor 'q', which the op does not have\n  why: its factors are m, k, n"));
  EXPECT_THAT(refusal("m@ep", kOthers), HasSubstr("ep"));
  EXPECT_THAT(refusal("m@dp, n@dp", kOthers), HasSubstr("uses the axis 'dp' twice"));
  EXPECT_THAT(refusal("m@dp, {sum 0, 1: tp}", kOthers),
              HasSubstr("why: the op is linear in inputs 0; 1"));
  EXPECT_THAT(refusal("k@tp~8(-1:+1)", kOthers),
              HasSubstr("why: parts that overlap would be reduced twice"));
  EXPECT_THAT(refusal("m@dp/3", kOthers), HasSubstr("divides the factor 'm' in chunks"));
  EXPECT_THAT(refusal("m@dp", kOthers, "[@dp]"),
              HasSubstr("it has 1 entries and the tensor 2 dims"));
}

TEST(ResolvedShardings, OfAPlanHaveTheSectionOfTheTrainingStep) {
  EXPECT_THROW(parse_shardings(parse_json("{\"evaluate\": {}}", "p"), "p"), UserError);
  EXPECT_THROW(parse_shardings(parse_json("{\"train\": {\"op\": {}}}", "p"), "p"), UserError);
  EXPECT_THROW(parse_shardings(parse_json("{\"train\": {\"ops\": [1]}}", "p"), "p"), UserError);
}

}  // namespace
}  // namespace tessera
