#include "sharding/propagation/axis_levels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/graph/graph.h"
#include "sharding/propagation/propagate.h"

namespace tessera {
namespace {

using testing::ElementsAre;

constexpr const char* kProduct =
    "input x: f32[16,4]\n"
    "variable w: f32[4,8] = constant(1.0)\n"
    "y = dot_general(x, w) {spec=\"bi,io->bo\"}: f32[16,8]\n"
    "s = reduce(y) {dims=[0], op=\"sum\"}: f32[8]\n"
    "output s = s\n";

LinkCosts links_with(const std::string& axis, std::vector<AxisLevel> levels) {
  LinkCosts links;
  links.levels[axis] = std::move(levels);
  return links;
}

/// The placements of x, y and the result of the product's operator side, on these levels.
std::vector<std::string> placements_on(const std::string& mesh, const LinkCosts& links) {
  const Graph graph = parse_graph(kProduct);
  const ShardedGraph sharded =
      on_levels(propagate(graph, std::make_shared<const Mesh>(parse_mesh(mesh)),
                          {shard_tensor("x", "P(\"dp\")"), shard_tensor("s", "P()")}),
                links);
  std::vector<std::string> texts{to_text(*sharded.meshes.front().mesh)};
  for (const char* name : {"x", "y", "s"})
    texts.push_back(to_text(sharded.at(*graph.find_value(name))));
  const OpId sum = graph.value(*graph.find_value("s")).producer;
  texts.push_back(to_text(
      output_attr(view(graph, graph.op(sum)), sharded.rules[sum.index], sharded.at(sum), 0)));
  return texts;
}

TEST(AxisLevels, AreAxesThatDivideWhatTheirAxisDivides) {
  EXPECT_THAT(placements_on("dp=8 tp=2", links_with("dp", {{"dp_ib", 2}, {"dp_nvlink", 4}})),
              ElementsAre("dp_ib=2 dp_nvlink=4 tp=2", "[@dp_ib@dp_nvlink, *]",
                          "[@dp_ib@dp_nvlink, *]", "[*]", "[*] {partial sum: dp_ib, dp_nvlink}"));
}

TEST(AxisLevels, OfOtherSizesAndWeightedAxesAreNotTaken) {
  const std::vector<std::string> as_it_is{"dp=8", "[@dp, *]", "[@dp, *]", "[*]",
                                          "[*] {partial sum: dp}"};
  EXPECT_EQ(placements_on("dp=8", links_with("dp", {{"dp_ib", 2}, {"dp_nvlink", 2}})), as_it_is);
  EXPECT_EQ(placements_on("dp=8", links_with("tp", {{"tp_ib", 2}, {"tp_nvlink", 4}})), as_it_is);
  EXPECT_EQ(placements_on("dp=1:2:1:1", links_with("dp", {{"dp_ib", 2}, {"dp_nvlink", 2}})).front(),
            "dp=1:2:1:1");
}

TEST(AxisLevels, OfMoreAxesThanAMeshMayHaveAreNotTaken) {
  EXPECT_EQ(placements_on("dp=4 a=1 b=1 c=1 d=1 e=1 f=1",
                          links_with("dp", {{"dp_ib", 2}, {"dp_nvlink", 2}}))
                .front(),
            "dp=4 a=1 b=1 c=1 d=1 e=1 f=1");
}

TEST(AxisLevels, MeshesKeepTheirRanks) {
  const MeshPtr mesh = std::make_shared<const Mesh>(Shape{4}, std::vector<std::string>{"dp"},
                                                    std::vector<Rank>{3, 1, 2, 0});
  const Meshes meshes =
      on_levels(one_mesh(mesh), links_with("dp", {{"dp_ib", 2}, {"dp_nvlink", 2}}));
  EXPECT_EQ(meshes.front().mesh->ranks(), mesh->ranks());
  EXPECT_EQ(meshes.front().name, "all");
}

}  // namespace
}  // namespace tessera
