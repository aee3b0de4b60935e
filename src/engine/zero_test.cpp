// Presets that divide the state of the optimizer, and the parameters, over data-parallel ranks, in
// whole runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/testing/runs.h"
#include "presets/presets.h"
#include "verify/verify.h"

namespace tessera {
namespace {

Plan preset(const RunConfig& config, const std::string& text) {
  return preset_plan(parse_preset(text), training_graph(config));
}

class EveryZero : public testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(EveryZero, ComputesWhatTheSerialProgramComputes) {
  const auto& [model, text] = GetParam();
  const RunConfig config = tiny_run(model);
  const VerifyReport report = verify_plan(config, preset(config, text), small_text(), {.steps = 2});
  EXPECT_TRUE(report.ok) << (report.first_difference ? report.first_difference->value : "");
}

INSTANTIATE_TEST_SUITE_P(
    Runs, EveryZero,
    testing::Values(std::pair("gpt", "dp=4,zero=1"), std::pair("gpt", "dp=4,zero=3"),
                    std::pair("gpt", "dp=2,tp=2,zero=1"), std::pair("gpt", "dp=2,tp=2,zero=3"),
                    std::pair("gpt", "dp=2,zero=1,micro_batches=4"),
                    std::pair("gpt", "dp=2,zero=3,micro_batches=4,recompute=selective"),
                    std::pair("gpt", "pp=2,dp=2,zero=1,recompute=full"),
                    std::pair("gpt_tied", "pp=2,dp=2,zero=3"), std::pair("llama", "dp=3,zero=3"),
                    std::pair("bert", "dp=2,sp=2,zero=1"), std::pair("lstm", "dp=4,zero=3"),
                    std::pair("mlp", "dp=2,tp=2,zero=3,recompute=full")),
    [](const auto& given) {
      std::string name = std::string(given.param.first) + "_" + given.param.second;
      for (char& letter : name)
        if (!std::isalnum(static_cast<unsigned char>(letter))) letter = '_';
      return name;
    });

struct Held {
  double parameters = 0, state = 0;  // elements of rank 0
};

Held held_with(const RunConfig& config, const std::string& text) {
  const Graph graph = training_graph(config);
  const PlacedGraph placed = placements(graph, preset(config, text));
  Held held;
  for (const Variable& variable : placed.graph.variables()) {
    const DistAttr& attr = placed.sharded.of(variable.value);
    const auto elements = static_cast<double>(element_count(
        attr.local_shape(placed.graph.type(variable.value).shape, attr.mesh->coordinate_at(0))));
    (variable.trainable ? held.parameters : held.state) += elements;
  }
  return held;
}

// Rows of biases that a rank cannot share are left whole, which is little.
TEST(Zero, LeavesARankItsPartOfTheState) {
  const RunConfig config = tiny_gpt();
  const Held whole = held_with(config, "dp=4"), one = held_with(config, "dp=4,zero=1"),
             three = held_with(config, "dp=4,zero=3");
  EXPECT_NEAR(one.state, whole.state / 4, 0.01 * whole.state);
  EXPECT_EQ(one.parameters, whole.parameters);
  EXPECT_NEAR(three.state, whole.state / 4, 0.01 * whole.state);
  EXPECT_NEAR(three.parameters, whole.parameters / 4, 0.01 * whole.parameters);
}

TEST(Zero, DividesWhatTensorParallelismLeaves) {
  const RunConfig config = tiny_gpt();
  const Held tensor = held_with(config, "dp=2,tp=2"), zero = held_with(config, "dp=2,tp=2,zero=3");
  EXPECT_NEAR(zero.state, tensor.state / 2, 0.01 * tensor.state);
  EXPECT_NEAR(zero.parameters, tensor.parameters / 2, 0.01 * tensor.parameters);
}

}  // namespace
}  // namespace tessera
