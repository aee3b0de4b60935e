#include "ir/graph/classes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tessera {
namespace {

using testing::ElementsAre;

/// The classes of the ops, each a list of names.
std::vector<std::vector<std::string>> op_names(const Graph& graph, int depth) {
  std::vector<std::vector<std::string>> lists;
  for (const std::vector<OpId>& members : classes_of(graph, depth).ops) {
    lists.emplace_back();
    for (OpId op : members) lists.back().push_back(graph.op(op).name);
  }
  return lists;
}

bool are_alike(const Graph& graph, std::string_view a, std::string_view b, int depth) {
  const Classes classes = classes_of(graph, depth);
  return classes.at(*graph.find_op(a)) == classes.at(*graph.find_op(b));
}

/// A chain of five equal layers, each the one op `lK`.
Graph chain() {
  return parse_graph(
      "input x: f32[4]\n"
      "l0 = relu(x): f32[4]\n"
      "l1 = relu(l0): f32[4]\n"
      "l2 = relu(l1): f32[4]\n"
      "l3 = relu(l2): f32[4]\n"
      "l4 = relu(l3): f32[4]\n"
      "output y = l4\n");
}

TEST(Classes, AtDepthZeroTheOpAloneCounts) {
  EXPECT_THAT(op_names(chain(), 0), ElementsAre(ElementsAre("l0", "l1", "l2", "l3", "l4")));
}

TEST(Classes, EachStepOfDepthTellsOneMoreOpAtEachBorder) {
  // l0 reads an input and l4 makes an output
  EXPECT_THAT(op_names(chain(), 1),
              ElementsAre(ElementsAre("l0"), ElementsAre("l1", "l2", "l3"), ElementsAre("l4")));
  EXPECT_THAT(op_names(chain(), 2),
              ElementsAre(ElementsAre("l0"), ElementsAre("l1"), ElementsAre("l2"),
                          ElementsAre("l3"), ElementsAre("l4")));
}

TEST(Classes, StopWhenMoreDepthDividesNothing) {
  const Classes classes = classes_of(chain(), 100);
  EXPECT_TRUE(classes.is_stable);
  // Depth 2 leaves only the values l1 and l2 together, each made and read by an inner op.
  EXPECT_EQ(classes.depth, 3);
  EXPECT_EQ(classes.ops.size(), 5);
  EXPECT_FALSE(classes_of(chain(), 1).is_stable);
}

TEST(Classes, OfValuesTellInputsVariablesAndResults) {
  const Graph graph = parse_graph(
      "input x: f32[4]\n"
      "variable w: f32[4] = constant(0.0)\n"
      "variable v: f32[4] = constant(1.0)\n"
      "variable s: f32[4] = constant(0.0) state\n"
      "y = add(x, w): f32[4]\n"
      "z = add(x, v): f32[4]\n");
  const Classes classes = classes_of(graph, 0);
  const auto of = [&](std::string_view name) { return classes.at(*graph.find_value(name)); };
  EXPECT_EQ(of("w"), of("v"));  // initial values do not count
  EXPECT_NE(of("w"), of("s"));  // which is not trained
  EXPECT_NE(of("w"), of("x"));
  EXPECT_NE(of("x"), of("y"));
  EXPECT_EQ(of("y"), of("z"));
}

TEST(Classes, NamesAndRandomKeysDoNotCount) {
  const Graph graph = parse_graph(
      "input step: i32[]\n"
      "a.noise = random_uniform(step) {key=17, shape=[4]}: f32[4]\n"
      "b.noise = random_uniform(step) {key=-3, shape=[4]}: f32[4]\n");
  EXPECT_TRUE(are_alike(graph, "a.noise", "b.noise", 10));
}

TEST(Classes, KindAttributesTypesRolesAndDerivationsCount) {
  const Graph graph = parse_graph(
      "input x: f32[4]\n"
      "input i: i32[4]\n"
      "a = relu(x): f32[4]\n"
      "kind = exp(x): f32[4]\n"
      "attributes = relu(x) {slope=0.5}: f32[4]\n"
      "types = relu(i): i32[4]\n"
      "role = relu(x): f32[4] @backward\n"
      "derivation = relu(x): f32[4] @backward <- gradient a\n"
      "same = relu(x): f32[4]\n");
  for (const char* other : {"kind", "attributes", "types", "role", "derivation"})
    EXPECT_FALSE(are_alike(graph, "a", other, 0)) << other;
  EXPECT_FALSE(are_alike(graph, "role", "derivation", 0));
  EXPECT_TRUE(are_alike(graph, "a", "same", 0));
}

TEST(Classes, TheOrderOfOperandsCountsAndThatOfUsersDoesNot) {
  const Graph graph = parse_graph(
      "input x: f32[4]\n"
      "input y: i32[4]\n"
      "a = select(x, y): f32[4]\n"
      "b = select(y, x): f32[4]\n"
      "p = relu(x): f32[4]\n"
      "p.first = exp(p): f32[4]\n"
      "p.second = sqrt(p): f32[4]\n"
      "q = relu(x): f32[4]\n"
      "q.first = sqrt(q): f32[4]\n"
      "q.second = exp(q): f32[4]\n");
  EXPECT_FALSE(are_alike(graph, "a", "b", 0));
  EXPECT_TRUE(are_alike(graph, "p", "q", 1));
  EXPECT_TRUE(are_alike(graph, "p.first", "q.second", 10));
}

TEST(Classes, OpsAreToldApartByWhatTheyAreDerivedFrom) {
  const Graph graph = parse_graph(
      "input x: f32[4]\n"
      "input dy: f32[4]\n"
      "a = relu(x): f32[4]\n"
      "b = relu(x): f32[4]\n"
      "c = exp(b): f32[4]\n"
      "a.grad = mul(dy, dy): f32[4] @backward <- gradient a\n"
      "b.grad = mul(dy, dy): f32[4] @backward <- gradient b\n");
  EXPECT_TRUE(are_alike(graph, "a.grad", "b.grad", 0));
  EXPECT_FALSE(are_alike(graph, "a.grad", "b.grad", 2));  // only b is read by c
}

TEST(Classes, RegionsCountWithoutTheNamesInThem) {
  const auto loop = [](const std::string& name, const std::string& kind) {
    return name + " = while(x) {carried=1}: f32[4]\n  region\n    input " + name +
           ".h: f32[4]\n    " + name + ".next = " + kind + "(" + name +
           ".h): f32[4]\n    output next = " + name + ".next\n  end\n";
  };
  const Graph graph =
      parse_graph("input x: f32[4]\n" + loop("a", "relu") + loop("b", "relu") + loop("c", "exp"));
  EXPECT_TRUE(are_alike(graph, "a", "b", 0));
  EXPECT_FALSE(are_alike(graph, "a", "c", 0));
}

}  // namespace
}  // namespace tessera
