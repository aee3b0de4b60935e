#include "simulator/step/place_ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "cluster/cluster/cluster_file.h"
#include "compiler/lower/lower.h"
#include "ir/ops/builder.h"

namespace tessera {
namespace {

/// y = x w, with partial sums over `tp` when the inner dim is divided; 64 x 16 results of f32.
std::shared_ptr<const TaskGraph> product(const MeshPtr& mesh, const std::string& op_mark,
                                         const std::string& x_mark = "") {
  Graph graph;
  Builder builder(graph);
  const ValueId x = builder.input("x", {DType::kF32, {64, 32}});
  const ValueId w = builder.input("w", {DType::kF32, {32, 16}});
  graph.add_output("y", builder.dot(x, w, "mk,kn->mn", "y"));
  std::vector<Mark> marks{shard_op("y", op_mark)};
  if (!x_mark.empty()) marks.push_back(shard_tensor("x", x_mark));
  return std::make_shared<const TaskGraph>(compile(graph, mesh, marks).tasks);
}

MeshPtr mesh(Shape shape, std::vector<std::string> axes) {
  return std::make_shared<const Mesh>(std::move(shape), std::move(axes));
}

constexpr const char* kSumOverTp = "[P(None, \"tp\"), P(\"tp\")] -> [P()]";

int64_t bytes_between(const std::vector<PairTraffic>& traffic, Rank from, Rank to) {
  int64_t bytes = 0;
  for (const PairTraffic& pair : traffic)
    if (pair.from == from && pair.to == to) bytes += pair.bytes.value();
  return bytes;
}

TEST(RankTraffic, IsWhatTheReceiversTake) {
  // Each of two ranks receives half of the other's partial sum, and then the other's reduced half;
  // or all of the other's partial sum at once. Both are all 64 x 16 x 4 bytes.
  const std::vector<PairTraffic> traffic = rank_traffic(*product(mesh({2}, {"tp"}), kSumOverTp));
  EXPECT_EQ(bytes_between(traffic, 0, 1), 64 * 16 * 4);
  EXPECT_EQ(bytes_between(traffic, 1, 0), 64 * 16 * 4);
  for (const PairTraffic& pair : traffic) EXPECT_EQ(pair.axes, "tp");
}

TEST(RankTraffic, OfRanksThatExchangeNothingIsEmpty) {
  EXPECT_TRUE(rank_traffic(*product(mesh({1}, {"tp"}), "[P(), P()] -> [P()]")).empty());
}

StepPrediction predicted(const std::shared_ptr<const TaskGraph>& tasks, const Cluster& cluster,
                         int ranks) {
  return predict_step(tasks, identity_mapping(cluster, ranks), {.prefetch_exchanges = false});
}

TEST(MappingInput, HasTheTrafficOfAnAxisInItsGrid) {
  // On dp=2, tp=4 only the lines along tp exchange, all pairs alike.
  const auto tasks = product(mesh({2, 4}, {"dp", "tp"}),
                             "[P(\"dp\", \"tp\"), P(\"tp\")] -> [P(\"dp\")]", "P(\"dp\", \"tp\")");
  const Cluster cluster = parse_cluster_line("8xa100-80g");
  const MappingInput input = mapping_input(*tasks, predicted(tasks, cluster, 8));
  ASSERT_TRUE(input.grid.has_value());
  EXPECT_TRUE(input.traffic.empty());
  ASSERT_EQ(input.grid->axes.size(), 2U);
  EXPECT_EQ(input.grid->axes[0].bytes, Bytes(0));
  EXPECT_EQ(input.grid->axes[1].name, "tp");
  EXPECT_EQ(input.grid->axes[1].pattern, AxisPattern::kAllPairs);
  EXPECT_EQ(input.needs.size(), 8U);
}

TEST(MappingInput, KeepsAllBytesWhateverItsForm) {
  const auto tasks = product(mesh({2, 4}, {"dp", "tp"}),
                             "[P(\"dp\", \"tp\"), P(\"tp\")] -> [P(\"dp\")]", "P(\"dp\", \"tp\")");
  const Cluster cluster = parse_cluster_line("8xa100-80g");
  const MappingInput input = mapping_input(*tasks, predicted(tasks, cluster, 8));
  double in_pairs = 0, in_input = 0;
  for (const PairTraffic& pair : rank_traffic(*tasks))
    in_pairs += static_cast<double>(pair.bytes.value());
  for (int axis = 0; axis < std::ssize(input.grid->axes); ++axis)
    for (const RankTraffic& sent : axis_traffic(*input.grid, axis))
      in_input += static_cast<double>(sent.bytes.value());
  for (const RankTraffic& sent : input.traffic) in_input += static_cast<double>(sent.bytes.value());
  EXPECT_GT(in_pairs, 0);
  EXPECT_DOUBLE_EQ(in_input, in_pairs);
}

TEST(MappingInput, KeepsTheLinesOfTheAxisThatExchangesOnOneMachine) {
  // In order, ranks 0 and 4 of a line along tp, the outer axis here, are on two machines.
  const auto tasks = product(mesh({2, 4}, {"tp", "dp"}),
                             "[P(\"dp\", \"tp\"), P(\"tp\")] -> [P(\"dp\")]", "P(\"dp\", \"tp\")");
  const Cluster cluster = parse_cluster_line("2x4xa100-80g;ib=100Gb");
  const MappingInput input = mapping_input(*tasks, predicted(tasks, cluster, 8));
  const Mapping mapping = map_ranks(input, cluster);
  for (Rank rank = 0; rank < 4; ++rank)
    EXPECT_EQ(cluster.machine(mapping.devices[rank]), cluster.machine(mapping.devices[rank + 4]));
  EXPECT_LT(mapping.cost.cost,
            mapping_cost(input, cluster, identity_mapping(cluster, 8).device_of_rank).cost);
}

TEST(Deployment, OnNamedDevicesRefusesNamesOfOtherClusters) {
  const Cluster cluster = parse_cluster_line("2xa100-80g");
  EXPECT_EQ(on_named_devices(cluster, {"n0/1", "n0/0"}).device_of_rank,
            (std::vector<DeviceId>{1, 0}));
  EXPECT_THROW(on_named_devices(cluster, {"n1/0"}), UserError);
}

}  // namespace
}  // namespace tessera
