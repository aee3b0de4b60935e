#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "ir/models/family.h"
#include "ir/models/graphs.h"
#include "training/engine/engine.h"
#include "training/engine/testing/runs.h"
#include "training/fit/fit.h"

namespace tessera {
namespace {

const std::vector<int32_t> kPrompt = {7, 2, 9};

using GenerateModelAndPlan = std::pair<std::string, std::string>;

std::string generate_test_name(const testing::TestParamInfo<GenerateModelAndPlan>& given) {
  std::string name = given.param.first + "_" + given.param.second;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

class WithTheCache : public testing::TestWithParam<GenerateModelAndPlan> {};

TEST_P(WithTheCache, EveryTokenIsTheSame) {
  const auto& [model, plan] = GetParam();
  Engine engine(tiny_run(model), plan_of(model, plan), small_text());
  fit(engine, 10);
  // More than there is place for after the prompt.
  const int64_t count = tiny_run(model).model.context;
  for (const SamplingOptions& options :
       {SamplingOptions{.temperature = 0}, {.temperature = 0.7, .seed = 3}}) {
    SamplingOptions without = options;
    without.cache = false;
    const auto tokens = engine.text().generate(kPrompt, count, options);
    EXPECT_EQ(tokens, engine.text().generate(kPrompt, count, without));
    EXPECT_EQ(tokens, engine.text().generate(kPrompt, count, options))
        << "what an earlier text left must not be seen";
  }
}

INSTANTIATE_TEST_SUITE_P(
    Plans, WithTheCache,
    testing::Values(GenerateModelAndPlan{"gpt", "serial"}, GenerateModelAndPlan{"gpt", "dp4"},
                    GenerateModelAndPlan{"gpt", "tp4"}, GenerateModelAndPlan{"gpt", "dp2-tp2"},
                    GenerateModelAndPlan{"gpt", "pp2"}, GenerateModelAndPlan{"gpt", "pp2-dp2"},
                    GenerateModelAndPlan{"gpt_tied", "pp2"},
                    GenerateModelAndPlan{"llama", "serial"}, GenerateModelAndPlan{"llama", "tp4"},
                    GenerateModelAndPlan{"llama", "pp2-dp2"}),
    generate_test_name);

TEST(Generation, ATrainedModelWritesTheSameTextUnderEveryPlan) {
  // The model is trained serially, then used under each plan.
  Engine serial(tiny_gpt(), serial_plan(), small_text());
  fit(serial, 10);
  const TensorMap weights = serial.variables();
  const auto wanted = serial.text().generate(kPrompt, 8, {.temperature = 0, .cache = false});
  for (const char* plan : {"dp2-tp2", "tp4", "pp2"}) {
    Engine engine(tiny_gpt(), plan_of("gpt", plan), small_text());
    engine.set_variables(weights);
    EXPECT_EQ(engine.text().generate(kPrompt, 8, {.temperature = 0}), wanted) << plan;
  }
}

TEST(Generation, AModelThatIsNotCausalReadsTheWholeTextAnew) {
  EXPECT_FALSE(can_decode(tiny_run("mlp").model));
  Engine engine(tiny_run("mlp"), serial_plan(), small_text());
  EXPECT_EQ(engine.text().generate(kPrompt, 8, {.temperature = 0}),
            engine.text().generate(kPrompt, 8, {.temperature = 0, .cache = false}));
}

double flops(const Graph& graph) {
  double sum = 0;
  for (const Op& op : graph.ops())
    sum += find_operator(graph, op.kind).work(view(graph, op)).flops.value();
  return sum;
}

TEST(Generation, APlaceWithTheCacheIsAFifthOfTheWorkOfAContextOf128) {
  for (const char* model : {"gpt", "llama"}) {
    RunConfig config = tiny_run(model);
    config.model.context = 128;
    const Network network = network_of(config.model);
    EXPECT_LT(5 * flops(forward_graph(network, ForwardPurpose::kDecoding, 1, 0)),
              flops(forward_graph(network, ForwardPurpose::kPrediction, 1, 0)))
        << model;
  }
}

}  // namespace
}  // namespace tessera
