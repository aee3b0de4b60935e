#include "compiler/rewrite/cheapest_recompute.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <random>

#include "base/testing/test_folder.h"
#include "compiler/rewrite/internal/recompute_pareto_front.h"
#include "compiler/rewrite/rewrite.h"
#include "compiler/rewrite/testing/recompute_program.h"
#include "compiler/rewrite/testing/rewritten.h"
#include "ir/autodiff/optimizer.h"
#include "ir/models/model.h"
#include "ir/ops/builder.h"
#include "ir/ops/operator.h"

namespace tessera {
namespace {

std::vector<bool> values_of(const Graph& graph, const RecomputeChoice& choice) {
  std::vector<bool> values(graph.values().size(), false);
  for (int i = 0; i < std::ssize(graph.ops()); ++i)
    if (choice.ops[i])
      for (ValueId output : graph.op({i}).outputs) values[output.index] = true;
  return values;
}

Graph graph_with(const Graph& graph, const RecomputeChoice& choice) {
  RewriteBounds bounds;
  bounds.recomputed = values_of(graph, choice);
  return rewrite(graph, bounds, rewrite_testing::passes_named({"recompute"})).made.graph;
}

/// What the backward of the rewritten graph reads of results of its forward.
Bytes kept_by(const Graph& made, const Graph& before, const RecomputeTerms& terms) {
  Bytes sum{0};
  for (const Value& value : made.values()) {
    if (value.producer.index < 0 || made.op(value.producer).role != Role::kForward) continue;
    const ValueId first = *before.find_value(value.name);
    const bool is_output = std::ranges::any_of(
        before.outputs(), [&](const auto& output) { return output.second == first; });
    const bool is_read = std::ranges::any_of(
        value.users, [&](OpId user) { return made.op(user).role == Role::kBackward; });
    if (is_read || is_output) sum += terms.kept_bytes(first, 0);
  }
  return sum;
}

Seconds cost_of(const Graph& made, const Graph& before, const RecomputeTerms& terms) {
  Seconds sum{0};
  for (const Op& op : made.ops())
    if (op.role == Role::kBackward)
      if (const auto source = before.find_op(op.origin.derivation == "recompute" ? op.origin.source
                                                                                 : std::string()))
        sum += terms.cost[source->index];
  return sum;
}

RecomputeTerms terms_of(const Graph& graph, Bytes limit) {
  RecomputeTerms terms{
      .stages = std::vector<int>(graph.ops().size(), 0),
      .devices = {0},
      .kept_bytes = [&graph](ValueId value, int) { return byte_size(graph.type(value)); },
      .limit = limit};
  for (const Op& op : graph.ops()) {
    const OpView shape = view(graph, op);
    const Work work = shape.definition->work(shape);
    terms.cost.push_back(Seconds(1e-6 + std::max(work.flops.value() / 1e11,
                                                 static_cast<double>(work.bytes.value()) / 1e10)));
  }
  return terms;
}

Bytes max_kept(const Graph& graph) {
  RecomputeTerms terms = terms_of(graph, Bytes(int64_t{1} << 60));
  return cheapest_recompute(graph, terms).kept.front();
}

Bytes min_kept(const Graph& graph) {
  RecomputeTerms terms = terms_of(graph, Bytes(0));
  return cheapest_recompute(graph, terms).kept.front();
}

constexpr std::string_view kChain =
    "input x: f32[4]\n"
    "a = exp(x): f32[4]\n"
    "b = neg(a): f32[4]\n"
    "c = tanh(b): f32[4]\n"
    "p = mul(c, b): f32[4] @backward <- gradient c\n"
    "q = mul(p, a): f32[4] @backward <- gradient b\n"
    "output c = c\n"
    "output q = q\n";

/// By the name of the op.
RecomputeChoice choice_of(const Graph& graph, const std::map<std::string, double>& costs,
                          int64_t limit) {
  RecomputeTerms terms = terms_of(graph, Bytes(limit));
  for (int i = 0; i < std::ssize(graph.ops()); ++i)
    if (const auto cost = costs.find(graph.op({i}).name); cost != costs.end())
      terms.cost[i] = Seconds(cost->second);
  return cheapest_recompute(graph, terms);
}

std::string again(const Graph& graph, const RecomputeChoice& choice) {
  std::string names;
  for (int i = 0; i < std::ssize(graph.ops()); ++i)
    if (choice.ops[i]) names += graph.op({i}).name + " ";
  return names;
}

// a, b and c are kept: 48 bytes. c is an output.

TEST(CheapestRecompute, ChangesNothingWhereEverythingFits) {
  const Graph graph = parse_graph(kChain);
  const RecomputeChoice choice = choice_of(graph, {}, 48);
  EXPECT_EQ(again(graph, choice), "");
  EXPECT_EQ(choice.kept.front(), Bytes(48));
}

TEST(CheapestRecompute, TakesTheCheaperOne) {
  const Graph graph = parse_graph(kChain);
  EXPECT_EQ(again(graph, choice_of(graph, {{"a", 1}, {"b", 2}}, 32)), "a ");
  EXPECT_EQ(again(graph, choice_of(graph, {{"a", 2}, {"b", 1}}, 32)), "b ");
  EXPECT_EQ(again(graph, choice_of(graph, {{"a", 2}, {"b", 1}}, 16)), "a b ");
}

TEST(CheapestRecompute, KeepsTheLeastWhereNothingFits) {
  const Graph graph = parse_graph(kChain);
  EXPECT_EQ(choice_of(graph, {}, 1).kept.front(), Bytes(16));
}

// The last node needs all others, so that the dynamic program would have 2^24 states.
TEST(CheapestRecompute, OfAWideBlockHasAFrontOnlyWhereTheSolverMayMakeIt) {
  constexpr int kNodes = 24;
  RecomputeBlock block;
  for (int i = 0; i <= kNodes; ++i) block.nodes.push_back({.costs = {0, 1 + i}, .usages = {1, 0}});
  for (int i = 0; i < kNodes; ++i)
    block.edges.push_back({i, kNodes, {0, solver::kForbidden, 0, 0}});
  EXPECT_TRUE(recompute_pareto_front(block, false).empty());
  EXPECT_GT(recompute_pareto_front(block, true).size(), 2);
  block.edges.clear();
  EXPECT_GT(recompute_pareto_front(block, false).size(), 2);
}

TEST(CheapestRecompute, OfAStageReadsWhatItReceived) {
  const Graph graph = parse_graph(kChain);
  RecomputeTerms terms = terms_of(graph, Bytes(16));
  terms.stages = {0, 1, 1, 1, 0};  // a, q | b, c, p
  terms.devices = {0, 1};
  const RecomputeChoice choice = cheapest_recompute(graph, terms);
  // Stage 0 keeps a, which stage 1 reads. Stage 1 keeps c, and a to compute b again: 32 bytes, as
  // many as b and c.
  EXPECT_EQ(choice.kept[0], Bytes(16));
  EXPECT_EQ(choice.kept[1], Bytes(32));
  EXPECT_EQ(again(graph, choice), "");
}

/// Ops of one or two operands; a third of them are read by the backward.
std::string random_program(std::mt19937& random, int forward) {
  std::string text = "input v0: f32[4]\n";
  const auto any = [&](int count) {
    const int near = std::max(0, count - 8);
    return "v" + std::to_string(near + static_cast<int>(random() % (count - near)));
  };
  for (int i = 1; i <= forward; ++i) {
    text += "v" + std::to_string(i) + " = ";
    switch (random() % 4) {
      case 0: text += "exp(" + any(i) + ")"; break;
      case 1: text += "tanh(" + any(i) + ")"; break;
      case 2: text += "mul(" + any(i) + ", " + any(i) + ")"; break;
      default: text += "add(" + any(i) + ", " + any(i) + ")"; break;
    }
    text += ": f32[4]\n";
  }
  std::string sum = "v" + std::to_string(forward);
  for (int i = 0; i < forward; ++i) {
    if (random() % 3 != 0) continue;
    const std::string name = "g" + std::to_string(i);
    text += name + " = mul(" + sum + ", v" + std::to_string(i) + "): f32[4] @backward\n";
    sum = name;
  }
  return text + "output g = " + sum + "\n";
}

class IntegerProgram : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!rewrite_testing::has_cbc()) GTEST_SKIP() << "cbc is not installed";
  }

  /// Compares the choice with the program, and counts what it keeps and computes again in the graph
  /// that the pass makes of it.  returns  whether CBC finished
  bool compare(const Graph& graph, const RecomputeTerms& terms) {
    const RecomputeChoice choice = cheapest_recompute(graph, terms);
    const Graph made = graph_with(graph, choice);
    verify(made);
    EXPECT_LE(choice.kept.front(), terms.limit);
    EXPECT_LE(kept_by(made, graph, terms), choice.kept.front());
    EXPECT_LE(cost_of(made, graph, terms).value(), choice.cost.value() * (1 + 1e-6));
    const std::optional<double> smallest =
        rewrite_testing::RecomputeProgram(graph, terms).smallest(folder_.path());
    if (!smallest) return false;
    EXPECT_LE(choice.cost.value(), *smallest * 1.02 + 1e-9);
    EXPECT_GE(choice.cost.value(), *smallest * (1 - 1e-6) - 1e-9);
    return true;
  }

  TestFolder folder_;
};

TEST_F(IntegerProgram, IsAtMostTwoPercentCheaperOnRandomGraphs) {
  int compared = 0;
  for (unsigned seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const Graph graph = parse_graph(random_program(random, 10 + static_cast<int>(random() % 51)));
    if (!find_repeated_layers(graph).groups.empty()) continue;
    RecomputeTerms terms = terms_of(graph, Bytes(int64_t{1} << 50));
    std::vector<int64_t> bytes;
    for (int i = 0; i < std::ssize(graph.values()); ++i)
      bytes.push_back(1 + static_cast<int64_t>(random() % 1000));
    terms.kept_bytes = [&](ValueId value, int) { return Bytes(bytes[value.index]); };
    for (Seconds& cost : terms.cost) cost = Seconds(1 + static_cast<double>(random() % 100));
    const Bytes largest = cheapest_recompute(graph, terms).kept.front();
    terms.limit = Bytes(0);
    const Bytes smallest = cheapest_recompute(graph, terms).kept.front();
    const double share = static_cast<double>(random() % 100) / 100;
    terms.limit =
        smallest +
        Bytes(static_cast<int64_t>(share * static_cast<double>((largest - smallest).value())));
    compared += compare(graph, terms);
  }
  EXPECT_GT(compared, 40);
}

Graph training_graph(const std::string& family, int64_t layers) {
  ModelConfig config;
  config.kind = family;
  config.vocabulary = 32;
  config.layers = layers;
  config.width = 32;
  config.context = 16;
  Graph graph = build_model(config, {.batch = 2, .training = true, .loss = true, .seed = 1});
  Builder builder(graph, 1);
  add_training(builder, graph.output("loss"), {});
  return graph;
}

TEST_F(IntegerProgram, IsAtMostTwoPercentCheaperOnModels) {
  int compared = 0;
  for (const char* family : {"gpt", "llama"})
    for (const int64_t layers : {2, 3}) {
      const Graph graph = training_graph(family, layers);
      const Bytes largest = max_kept(graph), smallest = min_kept(graph);
      for (const double share : {0.05, 0.3, 0.5, 0.8}) {
        SCOPED_TRACE(std::string(family) + " " + std::to_string(share));
        const auto room = static_cast<double>((largest - smallest).value());
        compared +=
            compare(graph, terms_of(graph, smallest + Bytes(static_cast<int64_t>(share * room))));
      }
    }
  EXPECT_GE(compared, 8);
}

TEST(CheapestRecompute, OfLikeLayersCostsNoMoreThanTheirSum) {
  // Twice the layers and, beside what is outside of them, twice the bytes: at most twice the cost,
  // up to what the points of the front leave out.
  const Graph four = training_graph("gpt", 4), eight = training_graph("gpt", 8);
  const auto half = [](const Graph& graph) {
    return Bytes((max_kept(graph) + min_kept(graph)).value() / 2);
  };
  const Seconds of_four = cheapest_recompute(four, terms_of(four, half(four))).cost;
  const Seconds of_eight = cheapest_recompute(eight, terms_of(eight, half(eight))).cost;
  EXPECT_LE(of_eight.value(), 2.04 * of_four.value());
}

}  // namespace
}  // namespace tessera
