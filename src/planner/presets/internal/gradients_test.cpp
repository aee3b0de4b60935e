#include "planner/presets/internal/gradients.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tessera {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::string> gradients_named(const std::string& text) {
  const Graph graph = parse_graph(text);
  std::vector<std::string> names;
  for (const auto& [parameter, values] :
       gradients_of(graph, std::vector<int>(graph.ops().size(), 0)))
    for (const ValueId value : values) names.push_back(graph.value(value).name);
  return names;
}

constexpr const char* kStep =
    "input x: f32[8,4]\n"
    "variable w: f32[4,2] = normal(0.0, 0.02)\n"
    "y = dot_general(x, w) {spec=\"bi,io->bo\"}: f32[8,2]\n"
    "of_rows = dot_general(x, y) {spec=\"bi,bo->io\"}: f32[4,2] @backward <- gradient y\n"
    "of_penalty = mul(w, w): f32[4,2] @backward <- gradient w\n";

TEST(Gradients, AreWhatTheBackwardGivesToTheOptimizer) {
  EXPECT_THAT(gradients_named(std::string(kStep) +
                              "w_next = sub(w, of_rows): f32[4,2] @optimizer <- optimizer w\n"),
              ElementsAre("of_rows"));
}

// The penalty is computed once a step: only the other term is a sum over micro-batches.
TEST(Gradients, OfAPenaltyAreNoSumsOverMicroBatches) {
  EXPECT_THAT(gradients_named(std::string(kStep) +
                              "sum = add(of_rows, of_penalty): f32[4,2] @backward <- gradient w\n"
                              "w_next = sub(w, sum): f32[4,2] @optimizer <- optimizer w\n"),
              ElementsAre("of_rows"));
  EXPECT_THAT(gradients_named(std::string(kStep) +
                              "w_next = sub(w, of_penalty): f32[4,2] @optimizer <- optimizer w\n"),
              IsEmpty());
}

TEST(Gradients, MayHaveTermsThatNothingMakes) {
  EXPECT_THAT(gradients_named("input x: f32[4,2]\n"
                              "variable w: f32[4,2] = normal(0.0, 0.02)\n"
                              "of_penalty = mul(w, w): f32[4,2] @backward <- gradient w\n"
                              "sum = sub(x, of_penalty): f32[4,2] @backward <- gradient w\n"
                              "w_next = sub(w, sum): f32[4,2] @optimizer <- optimizer w\n"),
              IsEmpty());
}

}  // namespace
}  // namespace tessera
