#include "planner/search/internal/candidates/traffic.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "compiler/lower/lower.h"
#include "ir/graph/graph.h"

namespace tessera {
namespace {

TEST(Traffic, BothRanksReceiveHalfOfASumTwice) {
  // x[4, 6 over 2 ranks] w = a partial f32[4,5] of 80 bytes on each rank. To sum it, each rank
  // receives 80 bytes: all of the other rank's, or half of it and half of the sum.
  const Graph graph = parse_graph(
      "input x: f32[4,6]\nvariable w: f32[6,5] = constant(1.0)\n"
      "y = dot_general(x, w) {spec=\"bi,io->bo\"}: f32[4,5]\noutput y = y\n");
  const auto mesh = std::make_shared<const Mesh>(Shape{2}, std::vector<std::string>{"tp"});
  const Compiled compiled =
      compile(graph, mesh, {shard_tensor("x", "P(None, \"tp\")"), shard_tensor("y", "P()")});
  const Traffic traffic = traffic_of(compiled.tasks);
  EXPECT_EQ(traffic.bytes, Bytes(160));
  EXPECT_EQ(traffic.max_bytes, Bytes(80));
  EXPECT_EQ(traffic.messages, 2 * traffic.exchanges);
  EXPECT_EQ(traffic.max_messages, traffic.exchanges);
  EXPECT_EQ(traffic.bytes_over.at("tp"), Bytes(160));
}

TEST(Traffic, OfASliceNothingIsSent) {
  const Graph graph = parse_graph(
      "input x: f32[4,6]\ny = mul(x, x): f32[4,6]\nz = add(y, y): f32[4,6]\noutput z = z\n");
  const auto mesh = std::make_shared<const Mesh>(Shape{2}, std::vector<std::string>{"tp"});
  const Compiled compiled =
      compile(graph, mesh, {shard_tensor("y", "P()"), shard_tensor("z", "P(\"tp\")")});
  const auto is_slice = [](const Task& task) { return task.kind == Task::Kind::kExchange; };
  EXPECT_GE(std::ranges::count_if(compiled.tasks.tasks, is_slice), 1);
  EXPECT_EQ(traffic_of(compiled.tasks).exchanges, 0);
}

}  // namespace
}  // namespace tessera
