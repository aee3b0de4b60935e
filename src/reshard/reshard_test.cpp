#include "reshard/reshard.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace tessera {
namespace {

MeshPtr mesh_of(std::string_view text) {
  return std::make_shared<const ProcessMesh>(parse_mesh(text));
}

using Values = std::vector<double>;

int64_t offset_in(const Box& box, const Box& inner, int64_t i) {
  const Dims inner_strides = row_major_strides(inner.shape()), strides = row_major_strides(box.shape());
  int64_t at = 0;
  for (int d = 0; d < strides.size(); ++d) {
    const int64_t index = i / inner_strides[d] % inner.shape()[d] + inner.ranges[static_cast<size_t>(d)].begin;
    at += (index - box.ranges[static_cast<size_t>(d)].begin) * strides[d];
  }
  return at;
}

/// What each process holds of `whole` under `attr`; a Partial(sum) is spread so that the addends sum to it.
std::map<Rank, Values> distribute(const Values& whole, const Shape& shape, const DistAttr& attr) {
  std::map<Rank, Values> parts;
  for (Rank process : attr.mesh->processes()) {
    const Coordinate coordinate = *attr.mesh->coordinate_of(process);
    const Box box = attr.box(shape, coordinate);
    Values part(static_cast<size_t>(element_count(box.shape())));
    bool counts = true;
    for (const PartialAxis& p : attr.partial) counts = counts && coordinate[p.axis] == 0;
    for (size_t i = 0; i < part.size(); ++i) {
      const int64_t at = offset_in(whole_box(shape), box, static_cast<int64_t>(i));
      // Addends: process-dependent integers that cancel but for the whole value at the first coordinate.
      double addend = counts ? whole[static_cast<size_t>(at)] : 0;
      for (const PartialAxis& p : attr.partial) {
        const int64_t parts_on_axis = attr.mesh->shape()[p.axis];
        addend += static_cast<double>((coordinate[p.axis] * 2 - (parts_on_axis - 1)) * (at + 1));
      }
      part[i] = addend;
    }
    parts[process] = std::move(part);
  }
  return parts;
}

std::map<Rank, Values> execute(const std::map<Rank, Values>& before, const Shape& shape, const Exchange& exchange) {
  std::map<Rank, Values> after;
  for (Rank receiver : exchange.to.mesh->processes()) {
    const Box target = exchange.to.box(shape, *exchange.to.mesh->coordinate_of(receiver));
    Values part(static_cast<size_t>(element_count(target.shape())), 0.0);
    std::vector<int> firsts(part.size(), 0);
    for (const Pull& pull : pulls(shape, exchange, receiver)) {
      const Box source = exchange.from.box(shape, *exchange.from.mesh->coordinate_of(pull.sender));
      for (int64_t i = 0; i < element_count(pull.box.shape()); ++i) {
        const double value = before.at(pull.sender)[static_cast<size_t>(offset_in(source, pull.box, i))];
        const auto at = static_cast<size_t>(offset_in(target, pull.box, i));
        EXPECT_TRUE(pull.first || firsts[at] == 1) << "a contribution is added before the first one";
        firsts[at] += pull.first;
        part[at] = pull.first ? value : part[at] + value;
      }
    }
    bool starts = false;
    for (const PartialAxis& p : exchange.to.partial)
      starts = starts || (!exchange.from.is_partial_on(p.axis) && (*exchange.to.mesh->coordinate_of(receiver))[p.axis] != 0);
    if (!starts) {
      EXPECT_TRUE(std::all_of(firsts.begin(), firsts.end(), [](int count) { return count == 1; })) << "the first pulls tile the target";
    }
    after[receiver] = std::move(part);
  }
  return after;
}

Values numbered(const Shape& shape) {
  Values values(static_cast<size_t>(element_count(shape)));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i);
  return values;
}

std::map<Rank, Values> execute_all(std::map<Rank, Values> parts, const Shape& shape, const std::vector<Exchange>& exchanges) {
  for (const Exchange& exchange : exchanges) parts = execute(parts, shape, exchange);
  return parts;
}

/// Sums over the partial axes, or the part itself: what the processes hold, as whole values.
void expect_same(const std::map<Rank, Values>& got, const Values& whole, const Shape& shape, const DistAttr& attr,
                 const std::string& what) {
  std::vector<double> sums(whole.size(), 0.0);
  for (Rank process : attr.mesh->processes()) {
    const Coordinate coordinate = *attr.mesh->coordinate_of(process);
    const Box box = attr.box(shape, coordinate);
    if (attr.partial.empty()) {
      for (size_t i = 0; i < got.at(process).size(); ++i)
        ASSERT_EQ(got.at(process)[i], whole[static_cast<size_t>(offset_in(whole_box(shape), box, static_cast<int64_t>(i)))])
            << what << " on process " << process;
      continue;
    }
    // One replica of each addend.
    bool counts = true;
    for (int axis = 0; axis < attr.mesh->axis_count(); ++axis)
      if (!attr.uses(axis)) counts = counts && coordinate[axis] == 0;
    if (!counts) continue;
    for (size_t i = 0; i < got.at(process).size(); ++i)
      sums[static_cast<size_t>(offset_in(whole_box(shape), box, static_cast<int64_t>(i)))] += got.at(process)[i];
  }
  if (!attr.partial.empty()) {
    ASSERT_EQ(sums, whole) << what;
  }
}

TEST(Reshard, WorkedExampleReceivesTheseElements) {
  const MeshPtr mesh = mesh_of("x=3 y=2");
  const Shape shape{6, 12};
  const auto exchanges = plan_reshard({DType::kF32, shape}, from_spec(mesh, 2, {"x", "y"}), from_spec(mesh, 2, {"y", "x"}));
  std::vector<int64_t> received;
  for (Rank process = 0; process < 6; ++process) received.push_back(received_elements(shape, exchanges, process));
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
  EXPECT_EQ(kind("dp=2 tp=2", "f32[8@dp, 4] {partial sum: tp}", "f32[8@dp, 4]"), ReshardKind::kAllReduce);
  EXPECT_EQ(kind("dp=2 tp=2", "f32[8@dp@tp, 4]", "f32[8@dp, 4]"), ReshardKind::kAllGather);
  EXPECT_EQ(kind("dp=2 tp=2", "f32[8@dp, 4@tp]", "f32[8@tp, 4@dp]"), ReshardKind::kAllToAll);
  EXPECT_EQ(kind("dp=2 tp=2", "f32[8@dp, 4]", "f32[8@dp, 4]"), ReshardKind::kNone);
}

TEST(Reshard, ALargeAllReduceIsAReduceScatterAndAnAllGatherAtTheByteBound) {
  const MeshPtr mesh = mesh_of("dp=4");
  const DistType from = parse_dist_type("f32[64, 100] {partial sum: dp}", mesh), to = parse_dist_type("f32[64, 100]", mesh);
  const auto exchanges = plan_reshard(from.type, from.attr, to.attr);
  ASSERT_EQ(exchanges.size(), 2u);
  EXPECT_EQ(exchanges[0].kind, ReshardKind::kReduceScatter);
  EXPECT_EQ(exchanges[1].kind, ReshardKind::kAllGather);
  for (Rank process = 0; process < 4; ++process)
    EXPECT_EQ(received_elements({64, 100}, exchanges, process), 2 * 6400 * 3 / 4);  // 2 L (n-1)/n
}

TEST(Reshard, ContributionsAreAddedInTheOrderOfTheirCoordinates) {
  const MeshPtr mesh = mesh_of("dp=3");
  const DistType from = parse_dist_type("f32[4] {partial sum: dp}", mesh), to = parse_dist_type("f32[4]", mesh);
  const auto exchanges = plan_reshard(from.type, from.attr, to.attr);
  for (Rank process = 0; process < 3; ++process) {
    std::vector<Rank> senders;
    for (const Pull& pull : pulls({4}, exchanges[0], process)) senders.push_back(pull.sender);
    EXPECT_EQ(senders, (std::vector<Rank>{0, 1, 2}));
  }
}

/// Every placement of a tensor of `rank` dims on `mesh` with at most one partial sum.
std::vector<DistAttr> all_placements(const MeshPtr& mesh, int rank) {
  std::vector<std::vector<Placement>> lists = {{}};
  for (int axis = 0; axis < mesh->axis_count(); ++axis) {
    std::vector<std::vector<Placement>> longer;
    for (const auto& list : lists) {
      std::vector<Placement> choices = {Replicate(), Partial()};
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

TEST(Reshard, EveryPairOfPlacementsOnOneMeshGivesTheSameTensor) {
  for (const auto& [mesh_text, shape] : std::vector<std::pair<std::string, Shape>>{
           {"a=2", {5, 3}}, {"a=3", {7, 2}}, {"a=2 b=2", {5, 3}}, {"a=2 b=3", {4, 7}}, {"a=5", {3}}}) {
    const MeshPtr mesh = mesh_of(mesh_text);
    const Values whole = numbered(shape);
    for (const DistAttr& from : all_placements(mesh, shape.size()))
      for (const DistAttr& to : all_placements(mesh, shape.size())) {
        const auto exchanges = plan_reshard({DType::kF32, shape}, from, to);
        const std::string what = to_text({DType::kF32, shape}, from) + " -> " + to_text({DType::kF32, shape}, to) + " on " + mesh_text;
        expect_same(execute_all(distribute(whole, shape, from), shape, exchanges), whole, shape, to, what);
        if (HasFatalFailure()) return;
      }
  }
}

TEST(Reshard, LargeTensorsGoThroughTheScatteredFormToTheSameResult) {
  const MeshPtr mesh = mesh_of("a=2 b=3");
  const Shape shape{37, 41};  // 6068 bytes, above the size of a direct reduction
  const Values whole = numbered(shape);
  for (const DistAttr& from : all_placements(mesh, 2))
    for (const DistAttr& to : all_placements(mesh, 2)) {
      const auto exchanges = plan_reshard({DType::kF32, shape}, from, to);
      expect_same(execute_all(distribute(whole, shape, from), shape, exchanges), whole, shape, to, to_text(from) + " -> " + to_text(to));
      if (HasFatalFailure()) return;
    }
}

TEST(Reshard, SeveralAxesOnOneDimInAnyOrder) {
  const MeshPtr mesh = mesh_of("a=2 b=3");
  const Shape shape{11, 4};
  const Values whole = numbered(shape);
  const std::vector<std::string> forms = {"f32[11@a@b, 4]", "f32[11@b@a, 4]", "f32[11@a, 4@b]",
                                          "f32[11, 4@b@a]", "f32[11, 4]",     "f32[11@b, 4] {partial sum: a}"};
  for (const std::string& from_text : forms)
    for (const std::string& to_text_form : forms) {
      const DistAttr from = parse_dist_type(from_text, mesh).attr, to = parse_dist_type(to_text_form, mesh).attr;
      expect_same(execute_all(distribute(whole, shape, from), shape, plan_reshard({DType::kF32, shape}, from, to)), whole, shape, to,
                  from_text + " -> " + to_text_form);
      if (HasFatalFailure()) return;
    }
}

TEST(Reshard, BetweenMeshesOfOtherSizeEveryReceiverGetsExactlyItsBox) {
  const MeshPtr four = mesh_of("a=2 b=2");
  const auto three = std::make_shared<const ProcessMesh>(Shape{3}, std::vector<std::string>{"c"}, std::vector<Rank>{2, 4, 5});
  const Shape shape{7, 5};
  const Values whole = numbered(shape);
  for (const DistAttr& from : all_placements(four, 2))
    for (const DistAttr& to : {from_spec(three, 2, {"c"}), from_spec(three, 2, {"", "c"}), from_spec(three, 2, {})}) {
      const auto exchanges = plan_reshard({DType::kF32, shape}, from, to);
      expect_same(execute_all(distribute(whole, shape, from), shape, exchanges), whole, shape, to, to_text(from) + " -> " + to_text(to));
      if (HasFatalFailure()) return;
    }
}

}  // namespace
}  // namespace tessera
