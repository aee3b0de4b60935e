#include "ir/graph/repeated_layers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tessera {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// "first..last" of the ops of each layer, a list for each group.
std::vector<std::vector<std::string>> ends_of_layers(const Graph& graph) {
  std::vector<std::vector<std::string>> lists;
  for (const auto& group : find_repeated_layers(graph).groups) {
    lists.emplace_back();
    for (const Layer& layer : group)
      lists.back().push_back(graph.op(layer.ops.front()).name + ".." +
                             graph.op(layer.ops.back()).name);
  }
  return lists;
}

/// Three ops: h = relu(x w + x).
std::string layer(const std::string& scope, const std::string& x, const std::string& weight) {
  return scope + ".dot = dot_general(" + x + ", " + weight + "): f32[4,4]\n" + scope +
         ".add = add(" + scope + ".dot, " + x + "): f32[4,4]\n" + scope + ".relu = relu(" + scope +
         ".add): f32[4,4]\n";
}

constexpr const char* kThreeWeights =
    "input x: f32[4,4]\n"
    "variable one: f32[4,4] = normal(0.0, 0.02)\n"
    "variable two: f32[4,4] = normal(0.0, 0.02)\n"
    "variable three: f32[4,4] = normal(0.0, 0.02)\n";

TEST(RepeatedLayers, AreFoundWhateverTheirNames) {
  const Graph graph = parse_graph(kThreeWeights + layer("body.wide", "x", "one") +
                                  layer("body.deep", "body.wide.relu", "two") +
                                  layer("body.last", "body.deep.relu", "three"));
  EXPECT_THAT(ends_of_layers(graph), ElementsAre(ElementsAre("body.wide.dot..body.wide.relu",
                                                             "body.deep.dot..body.deep.relu",
                                                             "body.last.dot..body.last.relu")));
  const RepeatedLayers layers = find_repeated_layers(graph);
  EXPECT_EQ(layers.groups.front().front().scope, "body.wide");
  EXPECT_EQ(layers.groups.front().back().scope, "body.last");
}

TEST(RepeatedLayers, DigitsInNamesMakeNone) {
  const Graph graph = parse_graph(
      "input x: f32[4]\n"
      "layers.0.a = relu(x): f32[4]\n"
      "layers.0.b = exp(layers.0.a): f32[4]\n"
      "layers.0.c = sqrt(layers.0.b): f32[4]\n"
      "layers.1.a = exp(layers.0.c): f32[4]\n"
      "layers.1.b = relu(layers.1.a): f32[4]\n"
      "layers.1.c = square(layers.1.b): f32[4]\n");
  EXPECT_THAT(ends_of_layers(graph), IsEmpty());
}

// stem.add and stem.relu look like the end of a layer: the run of identical ops begins with them.
TEST(RepeatedLayers, BeginWhereScopesEnd) {
  const Graph graph = parse_graph(kThreeWeights +
                                  std::string("stem.add = add(x, x): f32[4,4]\n"
                                              "stem.relu = relu(stem.add): f32[4,4]\n") +
                                  layer("blocks.0", "stem.relu", "one") +
                                  layer("blocks.1", "blocks.0.relu", "two") +
                                  "head.dot = dot_general(blocks.1.relu, three): f32[4,4]\n");
  EXPECT_THAT(ends_of_layers(graph), ElementsAre(ElementsAre("blocks.0.dot..blocks.0.relu",
                                                             "blocks.1.dot..blocks.1.relu")));
}

TEST(RepeatedLayers, AreWiredAlike) {
  // The second layer adds the input of the first one, the third what the second one read.
  const std::string ops =
      "a.dot = dot_general(x, one): f32[4,4]\n"
      "a.add = add(a.dot, x): f32[4,4]\n"
      "a.relu = relu(a.add): f32[4,4]\n"
      "b.dot = dot_general(a.relu, two): f32[4,4]\n"
      "b.add = add(b.dot, x): f32[4,4]\n"
      "b.relu = relu(b.add): f32[4,4]\n";
  EXPECT_THAT(ends_of_layers(parse_graph(kThreeWeights + ops)), IsEmpty());
}

TEST(RepeatedLayers, WithOneWeightAreAlikeWhenAllHaveIt) {
  const std::string tied = kThreeWeights + layer("a", "x", "one") + layer("b", "a.relu", "one");
  EXPECT_THAT(ends_of_layers(parse_graph(tied)),
              ElementsAre(ElementsAre("a.dot..a.relu", "b.dot..b.relu")));
}

TEST(RepeatedLayers, OfOneOrTwoOpsNeedAScopeEach) {
  const std::string scoped =
      "input x: f32[4]\n"
      "a.relu = relu(x): f32[4]\n"
      "b.relu = relu(a.relu): f32[4]\n";
  EXPECT_THAT(ends_of_layers(parse_graph(scoped)),
              ElementsAre(ElementsAre("a.relu..a.relu", "b.relu..b.relu")));
  EXPECT_THAT(ends_of_layers(parse_graph("input x: f32[4]\n"
                                         "first = relu(x): f32[4]\n"
                                         "second = relu(first): f32[4]\n")),
              IsEmpty());
}

TEST(RepeatedLayers, HaveTheirVariablesAndWhatIsDerivedFromThem) {
  const Graph graph = parse_graph(
      kThreeWeights +
      std::string("variable one.momentum: f32[4,4] = constant(0.0) state <- optimizer one\n") +
      layer("a", "x", "one") + layer("b", "a.relu", "two") +
      "tail.dot = dot_general(b.relu, three): f32[4,4]\n"
      "a.dot.grad.b = dot_general(x, a.relu): f32[4,4] @backward <- gradient a.dot\n"
      "one.next = sub(one, a.dot.grad.b): f32[4,4] @optimizer <- optimizer one\n"
      "norm = relu(one.next): f32[4,4] @optimizer <- optimizer\n");
  const RepeatedLayers layers = find_repeated_layers(graph);
  const LayerPlace first{LayerGroupIndex(0), LayerIndex(0)};
  for (const char* op : {"a.dot", "a.relu", "a.dot.grad.b", "one.next"})
    EXPECT_EQ(layers.at(*graph.find_op(op)), first) << op;
  for (const char* value : {"one", "one.momentum", "one.next"})
    EXPECT_EQ(layers.at(*graph.find_value(value)), first) << value;
  EXPECT_EQ(layers.at(*graph.find_value("two")).layer, LayerIndex(1));
  EXPECT_TRUE(layers.at(*graph.find_value("three")).is_none());
  EXPECT_TRUE(layers.at(*graph.find_value("x")).is_none());
  EXPECT_TRUE(layers.at(*graph.find_op("tail.dot")).is_none());
  EXPECT_TRUE(layers.at(*graph.find_op("norm")).is_none());
}

}  // namespace
}  // namespace tessera
