#include "sharding/propagation/named.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text/text.h"

namespace tessera {
namespace {

Graph layers() {
  Graph graph;
  const TensorType type{DType::kF32, {4}};
  ValueId value = graph.add_input("x", type);
  for (const char* layer : {"blocks.0.up", "blocks.0.down", "blocks.10.up", "head"})
    value = graph.op(graph.add_op(layer, "exp", {}, {value}, {type})).outputs.front();
  return graph;
}

TEST(Named, GivesTheValuesAndOpsWhoseNamesMatch) {
  const Graph graph = layers();
  for (const std::string pattern : {"x", "head", "blocks.0.*", "blocks.*.up", "{x,head}", "*",
                                    "blocks.{0,10}.up", "none", "", "hea", "{head"}) {
    std::vector<ValueId> values;
    for (int i = 0; i < std::ssize(graph.values()); ++i)
      if (matches(pattern, graph.value({i}).name)) values.push_back({i});
    EXPECT_EQ(values_named(graph, pattern), values) << pattern;
    std::vector<OpId> ops;
    for (int i = 0; i < std::ssize(graph.ops()); ++i)
      if (matches(pattern, graph.op({i}).name)) ops.push_back({i});
    EXPECT_EQ(ops_named(graph, pattern), ops) << pattern;
  }
  EXPECT_THAT(values_named(graph, "blocks.*.up"), testing::ElementsAre(ValueId{1}, ValueId{3}));
  EXPECT_THAT(ops_named(graph, "head"), testing::ElementsAre(OpId{3}));
}

}  // namespace
}  // namespace tessera
