// The search over op clusters against the search over single ops, on the small configurations.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "cluster/cluster/cluster_file.h"
#include "compiler/lower/lower.h"
#include "planner/placement/placement_search.h"
#include "simulator/step/deployment.h"
#include "training/engine/engine.h"
#include "training/engine/graphs.h"

namespace tessera {
namespace {

struct ClusteredSearchCase {
  std::string model, mesh;
};
std::ostream& operator<<(std::ostream& out, const ClusteredSearchCase& item) {
  return out << item.model << " on " << item.mesh;
}

class ClusteredSearch : public testing::TestWithParam<ClusteredSearchCase> {};

/// Devices of which exchanges are dear, or kernels.
std::vector<ClusterDescription> clusters() {
  std::vector<ClusterDescription> list(2, parse_cluster_line("8xv100").description());
  list[1].types.front().cost.flops_per_second /= 1000;
  list[1].types.front().cost.bytes_per_second /= 1000;
  return list;
}

TEST_P(ClusteredSearch, FindsPlacementsWithin2PercentOfThoseOfSingleOps) {
  RunConfig config = read_config(std::filesystem::path(TESSERA_SOURCE_DIR) / "configs" /
                                 (GetParam().model + ".toml"));
  set_sizes(config.model, config.data);
  const Graph graph = training_graph(config);
  const auto mesh = std::make_shared<const Mesh>(parse_mesh(GetParam().mesh));
  for (const ClusterDescription& cluster : clusters()) {
    Plan plan;
    plan.meshes = one_mesh(mesh);
    plan.cost = cost_of(identity_mapping(Cluster(cluster), mesh->size()), std::vector{mesh});
    const PlacedGraph placed = placements(graph, plan);
    PlacementSearchOptions options{.work = 100};
    const auto clustered = search_placements(placed.graph, mesh, plan.cost, options);
    options.problem.op_clusters = false;
    const auto single = search_placements(placed.graph, mesh, plan.cost, options);
    EXPECT_LE(clustered->time.value(), 1.02 * single->time.value());
    EXPECT_LT(clustered->nodes, single->nodes / 2);
  }
}

std::vector<ClusteredSearchCase> clustered_search_cases() {
  std::vector<ClusteredSearchCase> list;
  for (const std::string model :
       {"mlp", "image_mlp", "gpt", "gpt_markov", "gpt_tied", "bert", "lstm", "gru", "two_tower",
        "unet", "encoder_decoder", "llama", "resnet20"})
    list.push_back({model, "x=4"});
  for (const std::string model : {"mlp", "gpt", "llama", "unet"})
    for (const std::string mesh : {"x=2,y=2", "x=2,y=4"}) list.push_back({model, mesh});
  return list;
}

INSTANTIATE_TEST_SUITE_P(Configurations, ClusteredSearch,
                         testing::ValuesIn(clustered_search_cases()));

}  // namespace
}  // namespace tessera
