#include "search/find_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "cluster/cluster_file.h"
#include "network/family.h"
#include "network/graphs.h"

namespace tessera {
namespace {

using testing::Contains;
using testing::IsEmpty;

Graph small_mlp(int64_t rows = 16) {
  const Network network = network_of({.kind = "mlp", .context = 8, .layers = 2, .width = 64});
  return training_graph(network, {}, rows, 1);
}

Graph small_gpt() {
  const Network network =
      network_of({.kind = "gpt", .context = 16, .layers = 2, .width = 32, .heads = 4});
  return training_graph(network, {}, 8, 1);
}

/// Four cores in one machine, with `memory` each.
Cluster cores(Bytes memory = Bytes(1 << 30)) {
  ClusterDescription description = parse_cluster_line("cpu:4").description();
  for (DeviceType& type : description.types) type.memory = memory;
  return Cluster(description);
}

PlanningAnswer answer_for(const Graph& graph, const Cluster& cluster, PlanningOptions options) {
  return find_plan({graph, cluster}, options);
}

PlanningAnswer answer_for(const Graph& graph, const Cluster& cluster, int ranks,
                          const std::string& fixed = "") {
  return answer_for(graph, cluster, {.constraints = constraints_of(ranks, false, fixed)});
}

std::vector<std::string> names_of(const PlanningAnswer& answer) {
  std::vector<std::string> names;
  for (const EvaluatedCandidate& candidate : answer.candidates)
    names.push_back(candidate.candidate.name);
  return names;
}

const EvaluatedCandidate& best_of(const PlanningAnswer& answer) {
  return answer.candidates.at(answer.best.value());
}

TEST(FindPlan, NoCandidateThatObeysIsFasterThanTheAnswer) {
  for (const Graph& graph : {small_mlp(), small_gpt()}) {
    const Cluster cluster = cores();
    const PlanningAnswer answer = answer_for(graph, cluster, 4);
    ASSERT_TRUE(answer.best);
    EXPECT_EQ(best_of(answer).ranks(), 4);
    for (const EvaluatedCandidate& candidate : answer.candidates) {
      if (!candidate.fits() || candidate.ranks() != 4) continue;
      EXPECT_LE(best_of(answer).step(), candidate.step()) << candidate.candidate.name;
    }
  }
}

TEST(FindPlan, OneDeviceDataAndTensorParallelismAreAlwaysCompared) {
  const Graph graph = small_gpt();
  const Cluster cluster = cores();
  PlanningOptions options{.constraints = constraints_of(4, false)};
  options.max_presets = 1;
  const PlanningAnswer answer = answer_for(graph, cluster, options);
  EXPECT_THAT(names_of(answer), testing::IsSupersetOf({"one device", "dp=4", "tp=4"}));
}

}  // namespace
}  // namespace tessera
