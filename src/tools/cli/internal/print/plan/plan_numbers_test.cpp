#include "tools/cli/internal/print/plan/plan_numbers.h"

#include <gtest/gtest.h>

#include "planner/presets/presets.h"
#include "training/engine/testing/runs.h"

namespace tessera {
namespace {

PlanNumbers numbers_with(const std::string& preset) {
  const Graph graph = training_graph(tiny_gpt());
  Plan plan = preset_plan(parse_preset(preset), graph);
  plan.all_reduce = AllReduceAlgorithm::kReduceScatterAllGather;
  return numbers_of(compile(graph, plan), preset);
}

double sent_with(const std::string& preset) {
  return static_cast<double>(numbers_with(preset).all_sent.bytes.value());
}

// Rajbhandari et al., SC 2020, section 7: divided states and gradients send what data parallelism
// sends, divided parameters half as much again. With k micro-batches the gradients of level 2 are
// scattered k times, which is (k + 1) / 2 times as much; level 3 gathers the parameters twice in
// each of them, except for tables, which the backward does not read.
TEST(PlanNumbers, OfZeroAreThoseOfTheArticle) {
  const double plain = sent_with("dp=4");
  EXPECT_NEAR(sent_with("dp=4,zero=1"), plain, 0.01 * plain);
  EXPECT_NEAR(sent_with("dp=4,zero=2"), plain, 0.01 * plain);
  EXPECT_LE(sent_with("dp=4,zero=3"), 1.5 * plain);
  EXPECT_NEAR(sent_with("dp=4,micro_batches=2,zero=1"), plain, 0.01 * plain);
  EXPECT_NEAR(sent_with("dp=4,micro_batches=2,zero=2"), 1.5 * plain, 0.01 * plain);
  EXPECT_LE(sent_with("dp=4,micro_batches=2,zero=3"), 3 * plain);
}

}  // namespace
}  // namespace tessera
