#include "ir/ops/compositions.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/testing/error.h"
#include "base/testing/tensor_types.h"
#include "ir/ops/interpreter.h"

namespace tessera {
namespace {

/// The result of `write` for the input x.
template <typename Write>
std::vector<double> values_of(const TensorType& type, std::vector<double> x, Write write) {
  Graph graph;
  Builder builder(graph);
  const ValueId result = write(builder, builder.input("x", type));
  return interpret(graph, {{"x", {type, std::move(x)}}}).at(graph.value(result).name).values;
}

TEST(Compositions, WhereBroadcastsItsCondition) {
  Graph graph;
  Builder builder(graph);
  const ValueId condition = builder.input("condition", {DType::kBool, {2}});
  const ValueId a = builder.input("a", f32({2, 2})), b = builder.input("b", f32({2, 2}));
  where(builder, condition, a, b, "y");
  const ReferenceValues values = interpret(graph, {{"condition", {{DType::kBool, {2}}, {1, 0}}},
                                                   {"a", {f32({2, 2}), {1, 2, 3, 4}}},
                                                   {"b", {f32({2, 2}), {5, 6, 7, 8}}}});
  EXPECT_EQ(values.at("y").values, (std::vector<double>{1, 6, 3, 8}));
}

TEST(Compositions, ClampKeepsWhatLiesBetween) {
  EXPECT_EQ(values_of(f32({4}), {-5, -1, 0.5, 9},
                      [](Builder& b, ValueId x) { return clamp(b, x, -1, 2); }),
            (std::vector<double>{-1, -1, 0.5, 2}));
}

TEST(Compositions, ClampRefusesLimitsThatCross) {
  const auto act = [] {
    values_of(f32({1}), {0}, [](Builder& b, ValueId x) { return clamp(b, x, 2, -1, "limited"); });
  };
  EXPECT_EQ(error_testing::message_of(ExitCode::kBadData, act),
            "clamp 'limited': low 2.0 is not at most high -1.0\n"
            "  why: no number is between them\n"
            "  fix: exchange the two, or correct them");
}

TEST(Compositions, OneHotOfAnIdOutsideIsARowOfZeros) {
  EXPECT_EQ(values_of({DType::kI32, {3}}, {1, -1, 2},
                      [](Builder& b, ValueId ids) { return one_hot(b, ids, 3); }),
            (std::vector<double>{0, 1, 0, 0, 0, 0, 0, 0, 1}));
}

TEST(Compositions, TellNumbersFromWhatIsNone) {
  const double infinity = std::numeric_limits<double>::infinity(),
               nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(values_of(f32({4}), {1, infinity, -infinity, nan},
                      [](Builder& b, ValueId x) { return is_nan(b, x); }),
            (std::vector<double>{0, 0, 0, 1}));
  EXPECT_EQ(values_of(f32({4}), {1, infinity, -infinity, nan},
                      [](Builder& b, ValueId x) { return is_finite(b, x); }),
            (std::vector<double>{1, 0, 0, 0}));
}

TEST(Compositions, TopKGivesTheLargestFirstAndTiesToTheLowestIndex) {
  EXPECT_EQ(values_of(f32({5}), {2, 7, 1, 7, 3},
                      [](Builder& b, ValueId x) { return top_k(b, x, 0, 3).values; }),
            (std::vector<double>{7, 7, 3}));
  EXPECT_EQ(values_of(f32({5}), {2, 7, 1, 7, 3},
                      [](Builder& b, ValueId x) { return top_k(b, x, 0, 3).indices; }),
            (std::vector<double>{1, 3, 4}));
}

TEST(Compositions, SortKeepsTheOrderOfEqualElementsBothWays) {
  EXPECT_EQ(values_of(f32({5}), {2, 7, 2, 1, 7},
                      [](Builder& b, ValueId x) { return sort(b, x, 0, false).indices; }),
            (std::vector<double>{3, 0, 2, 1, 4}));
  EXPECT_EQ(values_of(f32({5}), {2, 7, 2, 1, 7},
                      [](Builder& b, ValueId x) { return sort(b, x, 0, true).indices; }),
            (std::vector<double>{1, 4, 0, 2, 3}));
}

}  // namespace
}  // namespace tessera
