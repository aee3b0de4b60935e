// Exchanges as programs of several ranks: every rank holds the data that the placements specify.
#include <gtest/gtest.h>

#include <limits>

#include "runtime/runtime/testing/exchange_programs.h"

namespace tessera {
namespace {

using namespace testing_programs;

/// The plain computation of a reduction.
double combine(ReduceOp reduce, double a, double b) {
  switch (reduce) {
    case ReduceOp::kSum: return a + b;
    case ReduceOp::kProd: return a * b;
    case ReduceOp::kMax:
    case ReduceOp::kAny: return a > b ? a : b;
    case ReduceOp::kMin:
    case ReduceOp::kAll: return a < b ? a : b;
  }
  throw InternalError("unknown reduction");
}

template <typename T>
void reduce_leading(const Tensor& fed, ReduceOp reduce, Tensor& whole) {
  const int64_t count = whole.size();
  for (int64_t i = 0; i < count; ++i) {
    T sum = fed.values<T>()[i];
    // f32 rounds after each step: the sum of two f32 in double is rounded once.
    for (int64_t at = i + count; at < fed.size(); at += count)
      sum = static_cast<T>(
          combine(reduce, static_cast<double>(sum), static_cast<double>(fed.values<T>()[at])));
    whole.values<T>()[i] = sum;
  }
}

/// The value of the fed tensor: the partial values of the partial axes, reduced in the order of the
/// coordinates.
Tensor meaning(const Tensor& fed, const DistType& from) {
  if (from.attr.partial.empty()) return fed.clone();
  Tensor whole(from.type);
  const ReduceOp reduce = from.attr.partial[0].reduce;
  if (from.type.dtype == DType::kF32) reduce_leading<float>(fed, reduce, whole);
  if (from.type.dtype == DType::kI32) reduce_leading<int32_t>(fed, reduce, whole);
  if (from.type.dtype == DType::kBool) reduce_leading<uint8_t>(fed, reduce, whole);
  return whole;
}

class Exchanged : public testing::TestWithParam<ReshardCase> {};

TEST_P(Exchanged, EveryRankHoldsItsBoxBitForBit) {
  const auto& [mesh_text, from, to] = GetParam();
  HandMade made(mesh_of(mesh_text));
  const RegisterIndex source = feed_anything(made, "x", from);
  const RegisterIndex target = made.reshard("x", source, to);
  made.result("x", target);
  Bench bench(std::move(made));
  Seen seen(bench.graph(), target);
  const Observer observer = seen.observer();
  bench.step(&observer);

  const Tensor whole =
      meaning(bench.input("x"), parse_dist_type(from, bench.graph().meshes.front()));
  EXPECT_EQ(bytes_of(bench.result("x")), bytes_of(whole));
  const DistType wanted = parse_dist_type(to, bench.graph().meshes.front());
  for (Rank rank : bench.graph().meshes.front()->ranks()) {
    const Box box =
        wanted.attr.box(wanted.type.shape, *bench.graph().meshes.front()->coordinate_of(rank));
    EXPECT_EQ(bytes_of(seen.by_rank().at(rank)), bytes_of(part_of(whole, box)))
        << "rank " << rank << " " << to_text(box);
  }
}

const std::vector<ReshardCase>& ways() {
  static const std::vector<ReshardCase> all{
      {"dp=1", "f32[4] {partial sum: dp}", "f32[4]"},
      // gathers: rows, columns, uneven (3 and 2), empty parts (1, 1, 1, 0), units, one of two axes
      {"dp=2", "f32[8@dp, 3]", "f32[8, 3]"},
      {"dp=2", "f32[3, 8@dp]", "f32[3, 8]"},
      {"dp=2", "f32[5@dp, 2]", "f32[5, 2]"},
      {"dp=4", "i32[3@dp, 2]", "i32[3, 2]"},
      {"dp=2", "f32[12@dp:4]", "f32[12]"},
      {"dp=2 tp=2", "f32[8@dp@tp, 3]", "f32[8@dp, 3]"},
      {"dp=16", "bool[33@dp]", "bool[33]"},
      // slices
      {"dp=4", "f32[8, 2]", "f32[8@dp, 2]"},
      {"dp=2 tp=2", "f32[8@dp, 6]", "f32[8@dp, 6@tp]"},
      // reduce-scatters, sums in rank order
      {"dp=4", "f32[8, 4] {partial sum: dp}", "f32[8@dp, 4]"},
      {"dp=4", "f32[3, 7] {partial sum: dp}", "f32[3, 7@dp]"},
      {"dp=2 tp=2", "f32[8@dp, 6] {partial sum: tp}", "f32[8@dp, 6@tp]"},
      // all-reduces: in one exchange, and of 8 KiB in two
      {"dp=4", "f32[] {partial sum: dp}", "f32[]"},
      {"dp=4", "f32[9] {partial sum: dp}", "f32[9]"},
      {"dp=4", "f32[64, 32] {partial sum: dp}", "f32[64, 32]"},
      {"dp=3", "f32[2000] {partial sum: dp}", "f32[2000]"},
      {"dp=16", "f32[50, 41] {partial sum: dp}", "f32[50, 41]"},
      {"dp=4 tp=4", "f32[8@tp, 6] {partial sum: dp}", "f32[8@tp, 6]"},
      {"dp=4", "f32[5] {partial max: dp}", "f32[5]"},
      {"dp=4", "i32[5] {partial min: dp}", "i32[5]"},
      {"dp=4", "i32[5] {partial prod: dp}", "i32[5@dp]"},
      {"dp=4", "bool[5] {partial any: dp}", "bool[5]"},
      {"dp=4", "bool[5] {partial all: dp}", "bool[5]"},
      // all-to-alls and others
      {"dp=2", "f32[8@dp, 6]", "f32[8, 6@dp]"},
      {"dp=4", "f32[7@dp, 6]", "f32[7, 6@dp]"},
      {"dp=2 tp=2", "f32[8@dp, 6@tp]", "f32[8@tp, 6@dp]"},
      {"dp=2 tp=2", "f32[8@dp@tp]", "f32[8@tp@dp]"},
      {"dp=4 tp=4", "f32[9@dp, 7@tp, 2]", "f32[9, 7@dp, 2@tp]"},
      {"dp=3 tp=2", "f32[8@dp, 6] {partial sum: tp}", "f32[8@tp, 6@dp]"},
  };
  return all;
}

INSTANTIATE_TEST_SUITE_P(Ways, Exchanged, testing::ValuesIn(ways()),
                         [](const auto& given) { return "way" + std::to_string(given.index); });

TEST(Exchange, TensorsThatAreExchangedTogetherHaveTheBitsOfEachAlone) {
  for (const ReshardPair& way : ways_together()) {
    Bench apart(exchanging(way, false)), together(exchanging(way, true));
    apart.step();
    for (int step = 0; step < 3; ++step) together.step();
    EXPECT_EQ(all_results(together, way), all_results(apart, way))
        << way.mesh << ": " << way.parts.front().first;
  }
}

TEST(Exchange, ANewPartialHoldsItsIdentityAwayFromCoordinateZero) {
  HandMade made(mesh_of("dp=3"));
  const RegisterIndex x = made.input("x", "f32[4]");
  const RegisterIndex partial = made.exchange("start", x, "f32[4] {partial max: dp}");
  made.result("x", made.exchange("end", partial, "f32[4]"));
  Bench bench(std::move(made));
  Seen seen(bench.graph(), partial);
  const Observer observer = seen.observer();
  bench.step(&observer);
  const float lowest = -std::numeric_limits<float>::infinity();
  EXPECT_EQ(list<float>(seen.by_rank().at(0)), list<float>(bench.input("x")));
  EXPECT_EQ(list<float>(seen.by_rank().at(1)), std::vector<float>(4, lowest));
  EXPECT_EQ(list<float>(seen.by_rank().at(2)), std::vector<float>(4, lowest));
  EXPECT_EQ(list<float>(bench.result("x")), list<float>(bench.input("x")));
}

TEST(Exchange, ProcessesOfAMeshMayHaveAnyNumbers) {
  HandMade made(
      std::make_shared<Mesh>(Shape{2}, std::vector<std::string>{"dp"}, std::vector<Rank>{7, 3}));
  const RegisterIndex x = made.input("x", "f32[3@dp]");
  const RegisterIndex all = made.exchange("gather", x, "f32[3]");
  made.result("x", all);
  Bench bench(std::move(made));
  Seen seen(bench.graph(), x);
  const Observer observer = seen.observer();
  bench.step(&observer);
  EXPECT_EQ(seen.by_rank().at(7).size(), 2);
  EXPECT_EQ(seen.by_rank().at(3).size(), 1);
  EXPECT_EQ(list<float>(bench.result("x")), list<float>(bench.input("x")));
}

}  // namespace
}  // namespace tessera
