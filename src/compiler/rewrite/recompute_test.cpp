#include "compiler/rewrite/recompute.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "compiler/rewrite/rewrite.h"
#include "compiler/rewrite/testing/rewritten.h"
#include "ir/autodiff/gradient.h"
#include "ir/autodiff/optimizer.h"
#include "ir/graph/derivations.h"
#include "ir/graph/repeated_layers.h"
#include "ir/models/model.h"
#include "ir/ops/builder.h"
#include "ir/ops/operator.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// The graph in which the backward computes the values `names` again.
std::string text_with(std::string_view text, const std::vector<std::string>& names,
                      const std::vector<std::string_view>& passes = {"recompute"}) {
  const Graph graph = parse_graph(text);
  RewriteBounds bounds;
  bounds.recomputed.assign(graph.values().size(), false);
  for (const std::string& name : names) bounds.recomputed[graph.find_value(name)->index] = true;
  return rewrite_testing::text_after(text, passes, bounds);
}

constexpr std::string_view kRecomputeChain =
    "input x: f32[4]\n"
    "a = exp(x): f32[4]\n"
    "b = neg(a): f32[4]\n"
    "c = tanh(b): f32[4]\n"
    "p = add(c, x): f32[4] @backward <- gradient c\n"
    "q = mul(p, b): f32[4] @backward <- gradient b\n"
    "output c = c\n"
    "output q = q\n";

TEST(Recompute, StandsBeforeTheFirstReaderInTheBackward) {
  EXPECT_EQ(text_with(kRecomputeChain, {"a", "b"}),
            "input x: f32[4]\n"
            "a = exp(x): f32[4]\n"
            "b = neg(a): f32[4]\n"
            "c = tanh(b): f32[4]\n"
            "p = add(c, x): f32[4] @backward <- gradient c\n"
            "a.recompute = exp(x): f32[4] @backward <- recompute a\n"
            "b.recompute = neg(a.recompute): f32[4] @backward <- recompute b\n"
            "q = mul(p, b.recompute): f32[4] @backward <- gradient b\n"
            "output c = c\n"
            "output q = q\n");
}

TEST(Recompute, ReadsWhatIsKept) {
  const std::string text = text_with(kRecomputeChain, {"b"});
  EXPECT_THAT(text, HasSubstr("b.recompute = neg(a): f32[4] @backward <- recompute b\n"));
  EXPECT_THAT(text, Not(HasSubstr("a.recompute")));
}

TEST(Recompute, StaysInAStage) {
  const Graph graph = parse_graph(kRecomputeChain);
  RewriteBounds bounds;
  bounds.stages = {0, 1, 1, 1, 1};  // a | b, c, p, q
  bounds.recomputed.assign(graph.values().size(), true);
  bounds.recomputed[0] = bounds.recomputed[4] = bounds.recomputed[5] = false;
  bounds.recomputed[graph.find_value("c")->index] = false;
  const std::string text = rewrite_testing::text_after(kRecomputeChain, {"recompute"}, bounds);
  EXPECT_THAT(text, HasSubstr("b.recompute = neg(a)"));
  EXPECT_THAT(text, HasSubstr("q = mul(p, b.recompute)"));
  EXPECT_THAT(text, Not(HasSubstr("a.recompute")));
}

TEST(Recompute, OfWhatNobodyNeedsIsLeftOut) {
  EXPECT_EQ(text_with(kRecomputeChain, {"a"}), kRecomputeChain);
}

TEST(Recompute, MovesWhatOnlyTheBackwardReads) {
  EXPECT_EQ(text_with("input x: f32[4]\n"
                      "a = exp(x): f32[4]\n"
                      "b = neg(a): f32[4]\n"
                      "c = tanh(x): f32[4]\n"
                      "p = mul(c, b): f32[4] @backward <- gradient c\n"
                      "output c = c\n"
                      "output p = p\n",
                      {"a", "b"}),
            "input x: f32[4]\n"
            "c = tanh(x): f32[4]\n"
            "a = exp(x): f32[4] @backward\n"
            "b = neg(a): f32[4] @backward\n"
            "p = mul(c, b): f32[4] @backward <- gradient c\n"
            "output c = c\n"
            "output p = p\n");
}

TEST(Recompute, LeavesWhatNobodyReads) {
  constexpr std::string_view kText =
      "input x: f32[4]\n"
      "a = exp(x): f32[4]\n"
      "b = neg(a): f32[4]\n";
  EXPECT_EQ(text_with(kText, {"a", "b"}), kText);
}

TEST(Recompute, TheOptimizerReadsTheFirstResult) {
  const std::string text = text_with(
      "variable w: f32[4] = constant(0.0)\n"
      "a = exp(w): f32[4]\n"
      "p = neg(a): f32[4] @backward <- gradient a\n"
      "w.next = add(p, a): f32[4] @optimizer\n"
      "next w = w.next\n",
      {"a"});
  EXPECT_THAT(text, HasSubstr("p = neg(a.recompute)"));
  EXPECT_THAT(text, HasSubstr("w.next = add(p, a)"));
}

// It is the same for all micro-batches: a second one would be kept from the begin of the step.
TEST(Recompute, LeavesCastsOfParameters) {
  const Graph graph = parse_graph(
      "input x: bf16[4]\n"
      "variable w: f32[4] = constant(0.0)\n"
      "a = cast(w) {dtype=\"bf16\"}: bf16[4]\n"
      "b = mul(x, a): bf16[4]\n"
      "c = cast(b) {dtype=\"f32\"}: f32[4]\n"
      "p = mul(c, c): f32[4] @backward <- gradient c\n"
      "output p = p\n");
  const std::vector<bool> again = recomputed_values(graph, {Recompute::Kind::kPatterns, {"*"}});
  const auto is_again = [&](const char* name) { return again[graph.find_value(name)->index]; };
  EXPECT_FALSE(is_again("a"));
  EXPECT_TRUE(is_again("b"));
  EXPECT_TRUE(is_again("c")) << "a cast of an activation";
}

TEST(Recompute, SamplesTheSameRandomNumbers) {
  const std::string text = text_with(
      "input step: i32[]\n"
      "input x: f32[4]\n"
      "m = random_uniform(step) {key=17, shape=[4]}: f32[4]\n"
      "y = mul(x, m): f32[4]\n"
      "p = mul(y, m): f32[4] @backward <- gradient y\n"
      "output y = y\n"
      "output p = p\n",
      {"m"});
  EXPECT_THAT(text, HasSubstr("m.recompute = random_uniform(step) {key=17"));
}

TEST(Recompute, IsNotMergedWithTheFirstComputation) {
  EXPECT_THAT(
      text_with(kRecomputeChain, {"a", "b"}, {"fold", "algebra", "cse", "dead-code", "recompute"}),
      HasSubstr("q = mul(p, b.recompute)"));
}

TEST(Recompute, OfAValueThatAPassReplacedIsThatOfTheOther) {
  const std::string text = text_with(
      "input x: f32[4]\n"
      "a = exp(x): f32[4]\n"
      "b = exp(x): f32[4]\n"
      "c = add(a, b): f32[4]\n"
      "p = mul(b, x): f32[4] @backward <- gradient b\n"
      "output c = c\n"
      "output p = p\n",
      {"a", "b"}, {"cse", "recompute"});
  EXPECT_THAT(text, HasSubstr("p = mul(a.recompute, x)"));
}

// ---- which values ----

Graph recompute_training_graph(const std::string& family) {
  ModelConfig config;
  config.kind = family;
  config.vocabulary = 32;
  Graph graph = build_model(config, {.batch = 2, .training = true, .loss = true, .seed = 1});
  Builder builder(graph, 1);
  add_training(builder, graph.output("loss"), {});
  return graph;
}

/// The results of forward ops that ops of the backward read.
std::vector<ValueId> kept_values(const Graph& graph) {
  std::vector<ValueId> kept;
  for (int i = 0; i < std::ssize(graph.values()); ++i) {
    const Value& value = graph.value({i});
    if (value.producer.index < 0 || graph.op(value.producer).role != Role::kForward) continue;
    for (OpId user : value.users)
      if (graph.op(user).role == Role::kBackward) {
        kept.push_back({i});
        break;
      }
  }
  return kept;
}

int64_t kept_bytes(const Graph& graph) {
  int64_t sum = 0;
  for (ValueId value : kept_values(graph)) sum += byte_size(graph.type(value)).value();
  return sum;
}

Graph recompute_graph_with(const Graph& graph, const Recompute& choice) {
  RewriteBounds bounds;
  bounds.recomputed = recomputed_values(graph, choice);
  Graph made = rewrite(graph, bounds, rewrite_testing::passes_named({"recompute"})).made.graph;
  verify(made);
  return made;
}

TEST(FullRecompute, KeepsOfALayerOnlyWhatLaterOnesRead) {
  const Graph graph =
      recompute_graph_with(recompute_training_graph("gpt"), {Recompute::Kind::kFull});
  const RepeatedLayers layers = find_repeated_layers(graph);
  int of_layers = 0;
  for (ValueId value : kept_values(graph)) {
    const LayerPlace place = layers.at(graph.value(value).producer);
    if (place.is_none()) continue;
    ++of_layers;
    bool is_read_later = false;
    for (OpId user : graph.value(value).users)
      is_read_later =
          is_read_later || (graph.op(user).role == Role::kForward && layers.at(user) != place);
    EXPECT_TRUE(is_read_later) << graph.value(value).name;
  }
  EXPECT_GT(of_layers, 0);
}

TEST(FullRecompute, ComputesNoOpMoreThanTwice) {
  const Graph before = recompute_training_graph("gpt");
  const Graph graph = recompute_graph_with(before, {Recompute::Kind::kFull});
  int again = 0, forward = 0;
  for (const Op& op : before.ops()) forward += op.role == Role::kForward;
  for (const Op& op : graph.ops()) again += op.origin.derivation == kRecomputed;
  EXPECT_GT(again, forward / 2);
  EXPECT_LE(again, forward);
}

TEST(FullRecompute, AddsAtMostTheWorkOfOneForward) {
  for (const char* family : {"gpt", "llama", "encoder_decoder", "lstm"}) {
    const Graph before = recompute_training_graph(family);
    const Graph graph = recompute_graph_with(before, {Recompute::Kind::kFull});
    double forward = 0, again = 0;
    const auto flops = [](const Graph& of, const Op& op) {
      const OpView shape = view(of, op);
      return shape.definition->work ? shape.definition->work(shape).flops.value() : 0;
    };
    for (const Op& op : before.ops())
      if (op.role == Role::kForward) forward += flops(before, op);
    for (const Op& op : graph.ops())
      if (op.origin.derivation == kRecomputed) again += flops(graph, op);
    EXPECT_LE(again, 1.03 * forward) << family;
  }
}

TEST(SelectiveRecompute, ComputesNoProductsAgainAndKeepsFewerBytes) {
  for (const char* family : {"gpt", "llama"}) {
    const Graph before = recompute_training_graph(family);
    const Graph graph = recompute_graph_with(before, {Recompute::Kind::kSelective});
    for (const Op& op : graph.ops())
      if (op.origin.derivation == kRecomputed) {
        EXPECT_NE(op.kind, "dot_general") << op.name;
        EXPECT_NE(op.kind, "attention") << op.name;
      }
    EXPECT_LT(kept_bytes(graph), kept_bytes(before)) << family;
  }
}

/// Random ops of one or two operands, forward and backward; "dot_general" cannot be cheap here.
std::string recompute_random_program(unsigned seed) {
  std::mt19937 random(seed);
  std::string text = "input v0: f32[64,64]\n";
  const int forward = 2 + static_cast<int>(random() % 7);
  const auto any = [&](int count) { return "v" + std::to_string(random() % count); };
  for (int i = 1; i <= forward; ++i) {
    const std::string name = "v" + std::to_string(i);
    switch (random() % 4) {
      case 0:
        text += name + " = dot_general(" + any(i) + ", " + any(i) + ") {spec=\"mk,kn->mn\"}";
        break;
      case 1: text += name + " = add(" + any(i) + ", " + any(i) + ")"; break;
      default: text += name + " = exp(" + any(i) + ")"; break;
    }
    text += ": f32[64,64]\n";
  }
  std::string sum = "v" + std::to_string(forward);
  for (int i = 0; i < 3; ++i) {
    const std::string name = "g" + std::to_string(i);
    text += name + " = mul(" + sum + ", " + any(forward + 1) + "): f32[64,64] @backward\n";
    sum = name;
  }
  return text + "output g = " + sum + "\n";
}

TEST(SelectiveRecompute, KeepsTheFewestBytesOfAllChoicesOfCheapValues) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    const Graph graph = parse_graph(recompute_random_program(seed));
    std::vector<int> cheap;
    for (int i = 0; i < std::ssize(graph.values()); ++i) {
      const OpId maker = graph.value({i}).producer;
      if (maker.index >= 0 && graph.op(maker).role == Role::kForward &&
          graph.op(maker).kind != "dot_general")
        cheap.push_back(i);
    }
    int64_t smallest = kept_bytes(graph);
    for (unsigned set = 0; set < 1U << cheap.size(); ++set) {
      RewriteBounds bounds;
      bounds.recomputed.assign(graph.values().size(), false);
      for (size_t k = 0; k < cheap.size(); ++k) bounds.recomputed[cheap[k]] = set >> k & 1U;
      smallest = std::min(
          smallest,
          kept_bytes(
              rewrite(graph, bounds, rewrite_testing::passes_named({"recompute"})).made.graph));
    }
    EXPECT_EQ(kept_bytes(recompute_graph_with(graph, {Recompute::Kind::kSelective})), smallest)
        << "seed " << seed;
  }
}

TEST(RecomputedValues, ArePatternsOfOpsAndNoOutputs) {
  const Graph graph = parse_graph(kRecomputeChain);
  const std::vector<bool> values =
      recomputed_values(graph, {Recompute::Kind::kPatterns, {"{a,c}", "q"}});
  std::vector<std::string> names;
  for (size_t i = 0; i < values.size(); ++i)
    if (values[i]) names.push_back(graph.value({static_cast<int>(i)}).name);
  EXPECT_EQ(names, std::vector<std::string>{"a"});
}

// The gradient of a maximum compares the maximum of the forward with the elements. Elements that
// are computed again under another placement round their sums otherwise, and none would be equal.
TEST(RecomputedValues, HaveNoneThatTheBackwardComparesForEquality) {
  Graph graph;
  Builder builder(graph);
  const ValueId x = builder.input("x", {DType::kF32, {2, 3}});
  const ValueId w = builder.variable("w", {DType::kF32, {2, 3}}, Initializer::constant(0.5));
  const ValueId scaled = builder.mul(x, w), bent = builder.unary("tanh", scaled);
  const ValueId largest = builder.reduce(ReduceOp::kMax, bent, {0, 1});
  differentiate(builder, largest, {w});
  for (const Recompute& choice :
       {Recompute{Recompute::Kind::kSelective}, Recompute{Recompute::Kind::kPatterns, {"*"}}}) {
    const std::vector<bool> values = recomputed_values(graph, choice);
    EXPECT_FALSE(values[bent.index]);
  }
  EXPECT_TRUE(recomputed_values(graph, {Recompute::Kind::kPatterns, {"*"}})[scaled.index]);
}

TEST(RecomputedValues, OfAProgramWithoutBackwardChangeNothing) {
  const Graph graph =
      build_model(ModelConfig{}, {.batch = 2, .training = false, .loss = true, .seed = 1});
  for (const Recompute::Kind kind : {Recompute::Kind::kFull, Recompute::Kind::kSelective})
    EXPECT_EQ(kept_values(recompute_graph_with(graph, {kind})).size(), 0U);
}

}  // namespace
}  // namespace tessera
