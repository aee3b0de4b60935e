#include "sharding/reshard/reshard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "sharding/layout/testing/mesh_of.h"

namespace tessera {
namespace {

using Values = std::vector<double>;

int64_t offset_in(const Box& box, const Box& inner, int64_t i) {
  const Dims inner_strides = row_major_strides(inner.shape()),
             strides = row_major_strides(box.shape());
  int64_t at = 0;
  for (int d = 0; d < strides.size(); ++d) {
    const int64_t index = i / inner_strides[d] % inner.shape()[d] + inner.ranges[d].begin;
    at += (index - box.ranges[d].begin) * strides[d];
  }
  return at;
}

/// What each rank holds of `whole` under `attr`. The partial values of a Partial(sum) add up to it.
std::map<Rank, Values> distribute(const Values& whole, const Shape& shape, const DistAttr& attr) {
  std::map<Rank, Values> parts;
  for (Rank rank : attr.mesh->ranks()) {
    const Coordinate coordinate = *attr.mesh->coordinate_of(rank);
    const Box box = attr.box(shape, coordinate);
    Values part(static_cast<size_t>(element_count(box.shape())));
    bool counts = true;
    for (const PartialAxis& p : attr.partial) counts = counts && coordinate[p.axis] == 0;
    for (size_t i = 0; i < part.size(); ++i) {
      const int64_t at = offset_in(whole_box(shape), box, static_cast<int64_t>(i));
      // The first coordinate holds the value; the integers that are added to each partial value
      // depend on the coordinate, and their sum is 0.
      double partial_value = counts ? whole[at] : 0;
      for (const PartialAxis& p : attr.partial) {
        const int64_t parts_on_axis = attr.mesh->shape()[p.axis];
        partial_value +=
            static_cast<double>((coordinate[p.axis] * 2 - (parts_on_axis - 1)) * (at + 1));
      }
      part[i] = partial_value;
    }
    parts[rank] = std::move(part);
  }
  return parts;
}

std::map<Rank, Values> execute(const std::map<Rank, Values>& before, const Shape& shape,
                               const Exchange& exchange) {
  std::map<Rank, Values> after;
  for (Rank receiver : exchange.to.mesh->ranks()) {
    const Box target = exchange.to.box(shape, *exchange.to.mesh->coordinate_of(receiver));
    Values part(static_cast<size_t>(element_count(target.shape())), 0.0);
    std::vector<int> firsts(part.size(), 0);
    const std::vector<RecvElements> sizes = recv_elements(shape, exchange, receiver);
    size_t at_size = 0;
    for (const RecvRegion& recv_region : recv_regions(shape, exchange, receiver)) {
      EXPECT_EQ(sizes.at(at_size).sender, recv_region.sender);
      EXPECT_EQ(sizes.at(at_size++).count, element_count(recv_region.box.shape()));
      const Box source =
          exchange.from.box(shape, *exchange.from.mesh->coordinate_of(recv_region.sender));
      for (int64_t i = 0; i < element_count(recv_region.box.shape()); ++i) {
        const double value = before.at(recv_region.sender)[offset_in(source, recv_region.box, i)];
        const auto at = static_cast<size_t>(offset_in(target, recv_region.box, i));
        EXPECT_TRUE(recv_region.first || firsts[at] == 1)
            << "a contribution is added before the first one";
        firsts[at] += recv_region.first;
        part[at] = recv_region.first ? value : part[at] + value;
      }
    }
    bool starts = false;
    for (const PartialAxis& p : exchange.to.partial)
      starts = starts || (!exchange.from.is_partial_on(p.axis) &&
                          (*exchange.to.mesh->coordinate_of(receiver))[p.axis] != 0);
    if (!starts) {
      EXPECT_TRUE(std::all_of(firsts.begin(), firsts.end(), [](int count) { return count == 1; }))
          << "the first recv regions tile the target";
    }
    after[receiver] = std::move(part);
  }
  return after;
}

DistAttr placed(const MeshPtr& mesh, const std::string& placements) {
  return parse_placements(placements, mesh, 2);
}

Values numbered(const Shape& shape) {
  Values values(static_cast<size_t>(element_count(shape)));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i);
  return values;
}

std::map<Rank, Values> execute_all(std::map<Rank, Values> parts, const Shape& shape,
                                   const std::vector<Exchange>& exchanges) {
  for (const Exchange& exchange : exchanges) parts = execute(parts, shape, exchange);
  return parts;
}

/// Expects that the parts, or the sums of the partial values, are those of `whole`.
void expect_same(const std::map<Rank, Values>& got, const Values& whole, const Shape& shape,
                 const DistAttr& attr, const std::string& what) {
  std::vector<double> sums(whole.size(), 0.0);
  for (Rank rank : attr.mesh->ranks()) {
    const Coordinate coordinate = *attr.mesh->coordinate_of(rank);
    const Box box = attr.box(shape, coordinate);
    if (attr.partial.empty()) {
      for (size_t i = 0; i < got.at(rank).size(); ++i)
        ASSERT_EQ(got.at(rank)[i], whole[offset_in(whole_box(shape), box, static_cast<int64_t>(i))])
            << what << " on rank " << rank;
      continue;
    }
    // One replica of each partial value.
    bool counts = true;
    for (int axis = 0; axis < attr.mesh->axis_count(); ++axis)
      if (!attr.uses(axis)) counts = counts && coordinate[axis] == 0;
    if (!counts) continue;
    for (size_t i = 0; i < got.at(rank).size(); ++i)
      sums[offset_in(whole_box(shape), box, static_cast<int64_t>(i))] += got.at(rank)[i];
  }
  if (!attr.partial.empty()) {
    ASSERT_EQ(sums, whole) << what;
  }
}

TEST(Reshard, TheWorkedExampleReceivesTheseElements) {
  const MeshPtr mesh = mesh_of("x=3 y=2");
  const Shape shape{6, 12};
  const auto exchanges = plan_reshard({DType::kF32, shape}, from_spec(mesh, 2, {"x", "y"}),
                                      from_spec(mesh, 2, {"y", "x"}));
  std::vector<int64_t> received;
  for (Rank rank = 0; rank < 6; ++rank)
    received.push_back(received_elements(shape, exchanges, rank));
  EXPECT_EQ(received, (std::vector<int64_t>{4, 12, 10, 10, 12, 4}));
}

ReshardKind kind(std::string_view mesh_text, const std::string& from, const std::string& to) {
  const MeshPtr mesh = mesh_of(mesh_text);
  const DistType a = parse_dist_type(from, mesh), b = parse_dist_type(to, mesh);
  return classify(a.type.shape, a.attr, b.attr);
}

TEST(Reshard, RecognisesTheCollectives) {
  EXPECT_EQ(kind("tp=2", "f32[8@tp]", "f32[8]"), ReshardKind::kAllGather);
  EXPECT_EQ(kind("tp=2", "f32[8]", "f32[8@tp]"), ReshardKind::kSlice);
  EXPECT_EQ(kind("tp=2", "f32[8] {partial sum: tp}", "f32[8]"), ReshardKind::kAllReduce);
  EXPECT_EQ(kind("tp=2", "f32[8] {partial sum: tp}", "f32[8@tp]"), ReshardKind::kReduceScatter);
  EXPECT_EQ(kind("tp=2", "f32[8@tp, 4]", "f32[8, 4@tp]"), ReshardKind::kAllToAll);
  EXPECT_EQ(kind("dp=2 tp=2", "f32[8@dp, 4] {partial sum: tp}", "f32[8@dp, 4]"),
            ReshardKind::kAllReduce);
  EXPECT_EQ(kind("dp=2 tp=2", "f32[8@dp@tp, 4]", "f32[8@dp, 4]"), ReshardKind::kAllGather);
  EXPECT_EQ(kind("dp=2 tp=2", "f32[8@dp, 4@tp]", "f32[8@tp, 4@dp]"),
            ReshardKind::kPermute);  // (0,1) and (1,0) swap their parts
  EXPECT_EQ(kind("dp=2 tp=2", "f32[8@dp, 4]", "f32[8@tp, 4]"), ReshardKind::kPermute);
  EXPECT_EQ(kind("dp=2 tp=3", "f32[8@dp, 4@tp]", "f32[8@tp, 4@dp]"), ReshardKind::kMessages);
  EXPECT_EQ(kind("dp=2 tp=2", "f32[8@dp, 4]", "f32[8@dp, 4]"), ReshardKind::kNone);
}

TEST(Reshard, ALargeAllReduceIsAReduceScatterAndAnAllGatherAtTheByteBound) {
  const MeshPtr mesh = mesh_of("dp=4");
  const DistType from = parse_dist_type("f32[64, 100] {partial sum: dp}", mesh),
                 to = parse_dist_type("f32[64, 100]", mesh);
  const auto exchanges = plan_reshard(from.type, from.attr, to.attr);
  ASSERT_EQ(exchanges.size(), 2u);
  EXPECT_EQ(exchanges[0].kind, ReshardKind::kReduceScatter);
  EXPECT_EQ(exchanges[1].kind, ReshardKind::kAllGather);
  for (Rank rank = 0; rank < 4; ++rank)
    EXPECT_EQ(received_elements({64, 100}, exchanges, rank), 2 * 6400 * 3 / 4);  // 2 L (n-1)/n
}

/// The kind of each exchange and its target placement.
std::vector<std::string> steps_of(const std::vector<Exchange>& exchanges) {
  std::vector<std::string> steps;
  for (const Exchange& exchange : exchanges)
    steps.push_back(std::string(to_text(exchange.kind)) + " to " + to_text(exchange.to));
  return steps;
}

TEST(AllReduce, OverNodesAndDevicesHasTwoLevels) {
  const MeshPtr mesh = mesh_of("node=2 gpu=4");
  const DistType from = parse_dist_type("f32[64] {partial sum: node, gpu}", mesh),
                 to = parse_dist_type("f32[64]", mesh);
  // Links between nodes are slow: only a share of the tensor is sent over them.
  ReshardOptions options;
  options.links.any = {Seconds(1e-6), 1e11};
  options.links.axes["node"] = {Seconds(1e-5), 1e9};
  const auto exchanges = plan_reshard(from.type, from.attr, to.attr, options);
  EXPECT_THAT(steps_of(exchanges),
              testing::ElementsAre("reduce-scatter to [@gpu] {partial sum: node}",
                                   "reduce-scatter to [@gpu@node]", "all-gather to [@gpu]",
                                   "all-gather to [*]"));
  int64_t between_nodes = 0;
  for (const Exchange& exchange : exchanges)
    for (const RecvRegion& recv_region : recv_regions({64}, exchange, 0))
      if (recv_region.sender >= 4) between_nodes += element_count(recv_region.box.shape());
  EXPECT_EQ(between_nodes, 2 * (64 / 4) * 1 / 2) << "2 (n-1)/n of a quarter";
}

/// The placements of a plan, "[@node@device] -> [@device/2] -> [*]".
std::string way_of(const std::vector<Exchange>& plan) {
  std::string text = plan.empty() ? "" : to_text(plan.front().from);
  for (const Exchange& exchange : plan) text += " -> " + to_text(exchange.to);
  return text;
}

// What enters a node enters once: a gather over the nodes first, of parts that are in chunks until
// they are gathered inside of the node, and the same way back.
TEST(Reshard, OverNodesAndDevicesIsLevelByLevel) {
  const MeshPtr mesh = mesh_of("node=2 device=8");
  ReshardOptions options;
  options.links.axes = {{"node", {Seconds(5e-6), 25e9}}, {"device", {Seconds(2e-6), 300e9}}};
  const TensorType type{DType::kF32, {1 << 20}};
  const DistAttr whole = DistAttr::replicated(mesh, 1), parts = from_spec(mesh, 1, {"node,device"});
  const std::vector<Exchange> gather = plan_reshard(type, parts, whole, options);
  EXPECT_EQ(way_of(gather), "[@node@device] -> [@device/2] -> [*]");
  for (const Exchange& exchange : gather) EXPECT_EQ(exchange.kind, ReshardKind::kAllGather);
  DistAttr sums = whole;
  sums.partial = {{0, ReduceOp::kSum}, {1, ReduceOp::kSum}};
  const std::vector<Exchange> scatter = plan_reshard(type, sums, parts, options);
  EXPECT_EQ(way_of(scatter),
            "[*] {partial sum: node, device} -> [@device/2] {partial sum: node} -> [@node@device]");
  for (const Exchange& exchange : scatter) EXPECT_EQ(exchange.kind, ReshardKind::kReduceScatter);
  // The order of the axes of a dim does not matter.
  const DistAttr other = from_spec(mesh, 1, {"device,node"});
  EXPECT_EQ(way_of(plan_reshard(type, other, whole, options)),
            "[@device@node] -> [@device] -> [*]");
}

TEST(AllReduce, OverAxesOfTwoRanksIsRecursiveHalvingAndDoubling) {
  const MeshPtr mesh = mesh_of("a=2 b=2 c=2");
  const DistType from = parse_dist_type("f32[64] {partial sum: a, b, c}", mesh),
                 to = parse_dist_type("f32[64]", mesh);
  const auto exchanges = plan_reshard(from.type, from.attr, to.attr,
                                      {.all_reduce = AllReduceAlgorithm::kHierarchical});
  ASSERT_EQ(exchanges.size(), 6u);
  for (Rank rank = 0; rank < 8; ++rank) {
    EXPECT_EQ(received_elements({64}, exchanges, rank),
              2 * 64 * 7 / 8);  // the lower bound
    std::vector<int64_t> received;
    for (const Exchange& exchange : exchanges)
      received.push_back(received_elements({64}, {exchange}, rank));
    EXPECT_EQ(received, (std::vector<int64_t>{32, 16, 8, 8, 16, 32}));
  }
}

TEST(AllReduce, TheAlgorithmDeterminesTheNumberOfRounds) {
  const MeshPtr mesh = mesh_of("a=2 b=3");
  const DistType from = parse_dist_type("f32[7, 30] {partial sum: a, b}", mesh),
                 to = parse_dist_type("f32[7, 30]", mesh);
  const auto rounds = [&](AllReduceAlgorithm algorithm) {
    return plan_reshard(from.type, from.attr, to.attr, {.all_reduce = algorithm}).size();
  };
  EXPECT_EQ(rounds(AllReduceAlgorithm::kOneShot), 1u);
  EXPECT_EQ(rounds(AllReduceAlgorithm::kReduceScatterAllGather), 2u);
  EXPECT_EQ(rounds(AllReduceAlgorithm::kHierarchical), 4u);
}

TEST(Reshard, ContributionsAreAddedInTheOrderOfTheirCoordinates) {
  const MeshPtr mesh = mesh_of("dp=3");
  const DistType from = parse_dist_type("f32[4] {partial sum: dp}", mesh),
                 to = parse_dist_type("f32[4]", mesh);
  const auto exchanges = plan_reshard(from.type, from.attr, to.attr);
  for (Rank rank = 0; rank < 3; ++rank) {
    std::vector<Rank> senders;
    for (const RecvRegion& recv_region : recv_regions({4}, exchanges[0], rank))
      senders.push_back(recv_region.sender);
    EXPECT_EQ(senders, (std::vector<Rank>{0, 1, 2}));
  }
}

enum class PartialAxes { kIncluded, kExcluded };

/// Every placement of a tensor of `rank` dims on `mesh`, axis by axis.
std::vector<DistAttr> all_placements(const MeshPtr& mesh, int rank,
                                     PartialAxes partial_axes = PartialAxes::kIncluded) {
  std::vector<std::vector<Placement>> lists = {{}};
  for (int axis = 0; axis < mesh->axis_count(); ++axis) {
    std::vector<std::vector<Placement>> longer;
    for (const auto& list : lists) {
      std::vector<Placement> choices = {Replicate()};
      if (partial_axes == PartialAxes::kIncluded) choices.push_back(Partial());
      for (int d = 0; d < rank; ++d) choices.push_back(Shard(d));
      for (const Placement& choice : choices) {
        longer.push_back(list);
        longer.back().push_back(choice);
      }
    }
    lists = std::move(longer);
  }
  std::vector<DistAttr> attrs;
  for (const auto& list : lists) attrs.push_back(from_placements(mesh, rank, list));
  return attrs;
}

/// Under high latency chains with few peers are the cheapest, under low bandwidth one exchange is.
const ReshardOptions kHighLatency{.links = {.any = {Seconds(1), 1e12}}},
    kLowBandwidth{.links = {.any = {Seconds(0), 1}}};
const ReshardOptions kHierarchical{.all_reduce = AllReduceAlgorithm::kHierarchical};

class OnEveryLink : public testing::TestWithParam<ReshardOptions> {};
std::string link_name(const testing::TestParamInfo<ReshardOptions>& given) {
  const char* names[] = {"Threads", "HighLatency", "LowBandwidth", "Hierarchical"};
  return names[given.index];
}
INSTANTIATE_TEST_SUITE_P(Links, OnEveryLink,
                         testing::Values(ReshardOptions{}, kHighLatency, kLowBandwidth,
                                         kHierarchical),
                         link_name);

TEST_P(OnEveryLink, EveryPairOfPlacementsOnOneMeshGivesTheSameTensor) {
  for (const auto& [mesh_text, shape] :
       std::vector<std::pair<std::string, Shape>>{{"a=2", {5, 3}},
                                                  {"a=3", {7, 2}},
                                                  {"a=2 b=2", {5, 3}},
                                                  {"a=2 b=3", {4, 7}},
                                                  {"a=5", {3}},
                                                  {"a=2 b=3", {37, 41}},
                                                  {"a=2 b=2", {0, 3}},
                                                  {"a=2 b=2 c=2", {3, 9}},
                                                  {"a=2:1", {5, 3}},
                                                  {"a=1:4:1", {7, 2}},
                                                  {"a=3:1 b=2", {5, 6}},
                                                  {"a=2:1 b=1:2", {9, 7}}}) {
    const MeshPtr mesh = mesh_of(mesh_text);
    const Values whole = numbered(shape);
    for (const DistAttr& from : all_placements(mesh, shape.size()))
      for (const DistAttr& to : all_placements(mesh, shape.size())) {
        const auto exchanges = plan_reshard({DType::kF32, shape}, from, to, GetParam());
        const std::string what = to_text({DType::kF32, shape}, from) + " -> " +
                                 to_text({DType::kF32, shape}, to) + " on " + mesh_text;
        expect_same(execute_all(distribute(whole, shape, from), shape, exchanges), whole, shape, to,
                    what);
        if (HasFatalFailure()) return;
      }
  }
}

TEST_P(OnEveryLink, BetweenMeshesOfOtherWeightsTheTensorIsTheSame) {
  const Shape shape{7, 6};
  const Values whole = numbered(shape);
  const std::vector<MeshPtr> meshes{mesh_of("a=2"), mesh_of("a=2:1"), mesh_of("a=1:5"),
                                    mesh_of("a=3:1 b=2"), mesh_of("a=2 b=1:2")};
  for (const MeshPtr& sender : meshes)
    for (const MeshPtr& receiver : meshes)
      for (const DistAttr& from : all_placements(sender, 2))
        for (const DistAttr& to : all_placements(receiver, 2, PartialAxes::kExcluded)) {
          const auto exchanges = plan_reshard({DType::kF32, shape}, from, to, GetParam());
          expect_same(execute_all(distribute(whole, shape, from), shape, exchanges), whole, shape,
                      to,
                      to_text(from) + " on " + to_text(*sender) + " -> " + to_text(to) + " on " +
                          to_text(*receiver));
          if (HasFatalFailure()) return;
        }
}

TEST(Reshard, AxesOfOtherWeightsHaveOtherParts) {
  // Ranks swap their parts only where both axes divide the dim alike.
  EXPECT_EQ(kind("a=2:1 b=2:1", "f32[6@a]", "f32[6@b]"), ReshardKind::kPermute);
  EXPECT_EQ(kind("a=2:1 b=2", "f32[6@a]", "f32[6@b]"), ReshardKind::kMessages);
  EXPECT_EQ(kind("a=2:1 b=2", "f32[6@a@b]", "f32[6@a]"), ReshardKind::kAllGather);
  EXPECT_EQ(kind("a=2:1", "f32[6@a, 3]", "f32[6, 3@a]"), ReshardKind::kAllToAll);
  EXPECT_EQ(kind("a=2:1", "f32[6] {partial sum: a}", "f32[6@a]"), ReshardKind::kReduceScatter);
}

TEST(Reshard, AnAllGatherOfWeightedPartsReceivesWhatIsMissing) {
  const MeshPtr mesh = mesh_of("a=2:1");
  const auto exchanges =
      plan_reshard({DType::kF32, {6}}, from_spec(mesh, 1, {"a"}), DistAttr::replicated(mesh, 1));
  EXPECT_EQ(received_elements({6}, exchanges, 0), 2);  // it holds 4 of 6
  EXPECT_EQ(received_elements({6}, exchanges, 1), 4);
}

int64_t local_elements(const DistAttr& attr, const Shape& shape) {
  return element_count(attr.largest_shape(shape));
}

TEST(Reshard, NoIntermediatePlacementHoldsMoreThanTheLargerEnd) {
  const MeshPtr mesh = mesh_of("a=2 b=2 c=2");
  const Shape shape{16, 16, 16};
  bool some_plan_is_a_chain = false;
  for (const DistAttr& from : all_placements(mesh, 3, PartialAxes::kExcluded))
    for (const DistAttr& to : all_placements(mesh, 3, PartialAxes::kExcluded)) {
      const auto exchanges = plan_reshard({DType::kF32, shape}, from, to, kHighLatency);
      some_plan_is_a_chain = some_plan_is_a_chain || exchanges.size() > 2;
      for (const Exchange& exchange : exchanges)
        EXPECT_LE(local_elements(exchange.to, shape),
                  std::max(local_elements(from, shape), local_elements(to, shape)))
            << to_text(from) << " -> " << to_text(to) << " by " << to_text(exchange.to);
    }
  EXPECT_TRUE(some_plan_is_a_chain);
}

/// The largest number of elements that a rank receives.
int64_t max_received(const Shape& shape, const std::vector<Exchange>& exchanges,
                     const MeshPtr& mesh) {
  int64_t result = 0;
  for (Rank rank : mesh->ranks())
    result = std::max(result, received_elements(shape, exchanges, rank));
  return result;
}

struct MeshAndShape {
  std::string mesh;
  Shape shape;
};
class ByteBound : public testing::TestWithParam<MeshAndShape> {};
INSTANTIATE_TEST_SUITE_P(Meshes, ByteBound,
                         testing::Values(MeshAndShape{"a=2 b=4", {64, 64}},
                                         MeshAndShape{"a=4 b=4", {64, 64}},
                                         MeshAndShape{"a=2 b=2 c=2", {64, 64, 64}},
                                         MeshAndShape{"a=2 b=4 c=8", {64, 64, 64}}),
                         [](const auto& given) { return "m" + std::to_string(given.index); });

TEST_P(ByteBound, OneExchangeReceivesTheFewestBytesAndTheChosenPlanNotManyMore) {
  const MeshPtr mesh = mesh_of(GetParam().mesh);
  const TensorType type{DType::kF32, GetParam().shape};
  const auto placements = all_placements(mesh, type.shape.size(), PartialAxes::kExcluded);
  double sum_of_ratios = 0;
  int pairs = 0;
  for (const DistAttr& from : placements)
    for (const DistAttr& to : placements) {
      if (from == to) continue;
      const std::vector<Exchange> one_exchange = {{classify(type.shape, from, to), from, to}};
      int64_t bound = 0;
      for (Rank rank : mesh->ranks()) {
        const int64_t smallest = min_received_elements(type.shape, from, to, rank);
        ASSERT_EQ(received_elements(type.shape, one_exchange, rank), smallest)
            << to_text(from) << " -> " << to_text(to) << " on " << rank;
        bound = std::max(bound, smallest);
      }
      const int64_t received = max_received(type.shape, plan_reshard(type, from, to), mesh);
      ++pairs;
      sum_of_ratios += bound == 0 ? (received == 0 ? 1.0 : 1e9)
                                  : static_cast<double>(received) / static_cast<double>(bound);
    }
  EXPECT_LE(sum_of_ratios / pairs, 1.25);
  RecordProperty("pairs", pairs);
  RecordProperty("mean_ratio", std::to_string(sum_of_ratios / pairs));
}

TEST(Reshard, ReductionsReceiveTheFewestBytes) {
  for (int n : {2, 3, 4, 8}) {
    const MeshPtr mesh = mesh_of("a=" + std::to_string(n));
    const Shape shape{48 * n, 100};
    const int64_t all = element_count(shape);
    const auto received = [&](const std::string& from, const std::string& to) {
      const DistAttr a = placed(mesh, from), b = placed(mesh, to);
      EXPECT_EQ(max_received(shape, plan_reshard({DType::kF32, shape}, a, b), mesh),
                min_received_elements(shape, a, b, 0));
      return max_received(shape, plan_reshard({DType::kF32, shape}, a, b), mesh);
    };
    EXPECT_EQ(received("Partial(sum)", "Replicate()"), 2 * all * (n - 1) / n);
    EXPECT_EQ(received("Partial(sum)", "Shard(0)"), all * (n - 1) / n);
    EXPECT_EQ(received("Shard(0)", "Replicate()"), all * (n - 1) / n);
    EXPECT_EQ(received("Replicate()", "Shard(1)"), 0);
    EXPECT_EQ(received("Replicate()", "Partial(sum)"), 0);
  }
}

TEST(Reshard, BetweenMeshesAPartWithManyReceiversIsSentOnce) {
  const MeshPtr one = mesh_of("a=1");
  const auto four = std::make_shared<const Mesh>(Shape{4}, std::vector<std::string>{"b"},
                                                 std::vector<Rank>{1, 2, 3, 4});
  const Shape shape{400, 100};
  const auto plan = plan_reshard({DType::kF32, shape}, DistAttr::replicated(one, 2),
                                 DistAttr::replicated(four, 2));
  ASSERT_EQ(plan.size(), 2u);  // parts to all, then an all-gather among them
  int64_t sent_by_the_only_holder = 0;
  for (const Exchange& exchange : plan)
    for (Rank receiver : four->ranks())
      for (const RecvRegion& recv_region : recv_regions(shape, exchange, receiver))
        if (recv_region.sender == 0)
          sent_by_the_only_holder += element_count(recv_region.box.shape());
  EXPECT_EQ(sent_by_the_only_holder, element_count(shape));
}

TEST(Reshard, BetweenMeshesTheHoldersShareTheReceivers) {
  const MeshPtr two = mesh_of("a=2");
  const auto four = std::make_shared<const Mesh>(Shape{4}, std::vector<std::string>{"b"},
                                                 std::vector<Rank>{2, 3, 4, 5});
  std::map<Rank, int> receivers;
  const Exchange exchange{ReshardKind::kMessages, DistAttr::replicated(two, 1),
                          DistAttr::replicated(four, 1)};
  for (Rank receiver : four->ranks())
    for (const RecvRegion& recv_region : recv_regions({8}, exchange, receiver))
      ++receivers[recv_region.sender];
  EXPECT_EQ(receivers, (std::map<Rank, int>{{0, 2}, {1, 2}}));
}

TEST(Reshard, BetweenMeshesThatOverlapARankKeepsWhatItHolds) {
  const auto low = std::make_shared<const Mesh>(Shape{6}, std::vector<std::string>{"a"},
                                                std::vector<Rank>{0, 1, 2, 3, 4, 5});
  const auto high = std::make_shared<const Mesh>(Shape{3, 2}, std::vector<std::string>{"b", "c"},
                                                 std::vector<Rank>{4, 5, 6, 7, 8, 9});
  const Shape shape{12, 6};
  for (const DistAttr& from : all_placements(low, 2, PartialAxes::kExcluded))
    for (const DistAttr& to : all_placements(high, 2, PartialAxes::kExcluded))
      for (Rank rank : high->ranks())
        EXPECT_EQ(received_elements(shape, {{ReshardKind::kMessages, from, to}}, rank),
                  min_received_elements(shape, from, to, rank))
            << to_text(from) << " -> " << to_text(to) << " on " << rank;
}

TEST(Reshard, NestedSplitsThatAreNotAFlatSplitLoseNoRow) {
  // 5 rows over 2 x 2: nested halves are 2 1 | 1 1, a flat split of four 2 1 1 1; 6 rows: 2 1 | 2 1
  // against 2 2 1 1.
  const MeshPtr nested = mesh_of("a=2 b=2");
  const auto flat = std::make_shared<const Mesh>(nested->reshape({4}, {"c"}));
  for (int64_t rows = 0; rows < 20; ++rows) {
    const Shape shape{rows, 3};
    const DistAttr from = from_spec(nested, 2, {"a,b"}), to = from_spec(flat, 2, {"c"});
    bool the_same = true;
    for (Rank rank = 0; rank < 4; ++rank)
      the_same = the_same && from.box(shape, *nested->coordinate_of(rank)) ==
                                 to.box(shape, *flat->coordinate_of(rank));
    EXPECT_EQ(the_same, rows % 4 == 0 || rows % 4 == 1 || rows % 4 == 3) << rows;
    const Values whole = numbered(shape);
    expect_same(execute_all(distribute(whole, shape, from), shape,
                            plan_reshard({DType::kF32, shape}, from, to)),
                whole, shape, to, std::to_string(rows) + " rows");
  }
}

TEST(Reshard, SeveralAxesOnOneDimInAnyOrder) {
  const MeshPtr mesh = mesh_of("a=2 b=3");
  const Shape shape{11, 4};
  const Values whole = numbered(shape);
  const std::vector<std::string> forms = {"f32[11@a@b, 4]", "f32[11@b@a, 4]",
                                          "f32[11@a, 4@b]", "f32[11, 4@b@a]",
                                          "f32[11, 4]",     "f32[11@b, 4] {partial sum: a}"};
  for (const std::string& from_text : forms)
    for (const std::string& to_text_form : forms) {
      const DistAttr from = parse_dist_type(from_text, mesh).attr,
                     to = parse_dist_type(to_text_form, mesh).attr;
      expect_same(execute_all(distribute(whole, shape, from), shape,
                              plan_reshard({DType::kF32, shape}, from, to)),
                  whole, shape, to, from_text + " -> " + to_text_form);
      if (HasFatalFailure()) return;
    }
}

TEST(Reshard, BetweenMeshesOfOtherSizeEveryReceiverGetsExactlyItsBox) {
  const MeshPtr four = mesh_of("a=2 b=2");
  const auto three = std::make_shared<const Mesh>(Shape{3}, std::vector<std::string>{"c"},
                                                  std::vector<Rank>{2, 4, 5});
  const Shape shape{7, 5};
  const Values whole = numbered(shape);
  for (const DistAttr& from : all_placements(four, 2))
    for (const DistAttr& to :
         {from_spec(three, 2, {"c"}), from_spec(three, 2, {"", "c"}), from_spec(three, 2, {})}) {
      const auto exchanges = plan_reshard({DType::kF32, shape}, from, to);
      expect_same(execute_all(distribute(whole, shape, from), shape, exchanges), whole, shape, to,
                  to_text(from) + " -> " + to_text(to));
      if (HasFatalFailure()) return;
    }
}

}  // namespace
}  // namespace tessera
