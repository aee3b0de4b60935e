#include "ir/models/class_counts.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "ir/ops/interpreter.h"

namespace tessera {
namespace {

TEST(ClassCounts, CountTheFirstOfTheLikeliestAsCorrectAndNoLabelBelowZero) {
  Graph graph;
  Builder builder(graph);
  const ValueId given = builder.input("logits", {DType::kF32, {1, 5, 3}}),
                counted = builder.input("labels", {DType::kI32, {1, 5}});
  correct_count(builder, given, counted);
  Tensor logits(TensorType{DType::kF32, {1, 5, 3}}), labels(TensorType{DType::kI32, {1, 5}});
  const float rows[] = {0, 1, 0,  // 1: hit
                        2, 1, 0,  // 0: missed
                        1, 1, 0,  // 0 before 1: hit
                        1, 1, 0,  // 0 before 1: the label 1 is missed
                        9, 0, 0};
  const int32_t wanted[] = {1, 2, 0, 1, -1};
  std::copy(std::begin(rows), std::end(rows), logits.values<float>().begin());
  std::copy(std::begin(wanted), std::end(wanted), labels.values<int32_t>().begin());
  const auto results =
      interpret(graph, {{"logits", to_reference(logits)}, {"labels", to_reference(labels)}});
  EXPECT_EQ(results.at("correct.count").values[0], 2);
}

TEST(ClassCounts, CountThePixelsOfEachClassByEitherAndByBoth) {
  Graph graph;
  Builder builder(graph);
  const ValueId given = builder.input("logits", {DType::kF32, {1, 1, 5, 3}}),
                counted = builder.input("labels", {DType::kI32, {1, 1, 5}});
  overlap_counts(builder, correct_count(builder, given, counted).likeliest, counted, 3);
  // Predicted are 0 0 1 1 1; the labels are 0 1 1 1 and one that does not count.
  const ReferenceTensor logits{{DType::kF32, {1, 1, 5, 3}},
                               {1, 0, 0, 1, 0, 0, 0, 1, 0, 0, 1, 0, 0, 1, 0}};
  const ReferenceTensor labels{{DType::kI32, {1, 1, 5}}, {0, 1, 1, 1, -1}};
  const auto results = interpret(graph, {{"logits", logits}, {"labels", labels}});
  EXPECT_EQ(results.at("overlap.intersections").values, (std::vector<double>{1, 2, 0}));
  EXPECT_EQ(results.at("overlap.unions").values, (std::vector<double>{2, 3, 0}));
}

}  // namespace
}  // namespace tessera
