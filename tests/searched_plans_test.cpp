// Searched plans over every configuration: they compute what the serial program computes.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "cluster/cluster_file.h"
#include "engine/engine.h"
#include "engine/graphs.h"
#include "engine/program_plans.h"
#include "network/family.h"
#include "search/placement_source.h"
#include "verify/verify.h"

namespace tessera {
namespace {

/// A configuration, and the number of ranks.
struct Case {
  std::string model;
  int ranks;
};
std::ostream& operator<<(std::ostream& out, const Case& item) {
  return out << item.model << " on " << item.ranks;
}

std::vector<Case> cases() {
  std::vector<Case> list;
  for (const std::string model : {"mlp", "image_mlp", "gpt_markov", "bert", "lstm", "gru",
                                  "two_tower", "unet", "encoder_decoder", "llama"})
    for (int ranks : {2, 3, 4}) list.push_back({model, ranks});
  return list;
}

class EveryConfiguration : public testing::TestWithParam<Case> {};

// Links that are fast and devices that are slow, so that the search divides all it can.
TEST_P(EveryConfiguration, OfTheSearchComputesWhatTheSerialProgramComputes) {
  RunConfig config = read_config(std::filesystem::path(TESSERA_SOURCE_DIR) / "configs" /
                                 (GetParam().model + ".toml"));
  set_sizes(config.model, config.data);
  ClusterDescription description = parse_cluster_line("8xv100").description();
  description.types.front().cost.flops_per_second /= 1000;
  description.types.front().cost.bytes_per_second /= 1000;
  const Cluster cluster(description);
  const Graph graph = training_graph(config);
  std::vector<Candidate> plans =
      PlacementSource()({graph, cluster}, constraints_of(GetParam().ranks, false), {});
  ASSERT_FALSE(plans.empty());
  const auto data =
      std::make_shared<const RunData>(load_data(config.data, {.context = config.model.context}));
  const Plan plan =
      with_other_programs(network_of(config.model), training_settings(config), plans.back().plan);
  const VerifyReport report = verify_plan(config, plan, data, {.steps = 1});
  EXPECT_TRUE(report.ok) << (report.first_difference ? report.first_difference->value : "losses");
}

INSTANTIATE_TEST_SUITE_P(Searched, EveryConfiguration, testing::ValuesIn(cases()));

}  // namespace
}  // namespace tessera
