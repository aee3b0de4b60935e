#include "frontend/targets/internal/layer_prices.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "base/error.h"
#include "planner/presets/presets.h"
#include "planner/search/find_plan.h"
#include "training/engine/graphs.h"

namespace tessera {
namespace {

RunConfig small_config(const RunConfig& config, int64_t layers, int64_t rows) {
  RunConfig small = config;
  small.model.layers = layers;
  small.train.batch = rows;
  small.data.held_out = 0;
  return small;
}

/// A step of few layers and micro-batches.
struct SmallStep {
  double seconds = 0, arena = 0;
};

SmallStep small_step(const RunConfig& config, const Cluster& cluster,
                     const ParallelSetting& setting, int64_t layers, int64_t micro_batches) {
  ParallelSetting small = setting;
  small.replicate = small.shard = small.context = small.pipeline = small.chunks = 1;
  small.zero = 0;
  small.stage_layers.clear();
  small.global_batch = setting.micro_batch * micro_batches;
  const Graph graph = training_graph(small_config(config, layers, small.global_batch));
  Plan plan = preset_plan(parse_preset(preset_text(small)), graph, setting.tensor);
  const Evaluations found =
      evaluate({graph, cluster}, {{Candidate::Source::kCompared, "layers", std::move(plan)}});
  if (found.evaluated.empty())
    throw UserError("the setting " + preset_text(small) + " cannot be run",
                    found.unusable.empty() ? "it was not tried" : found.unusable.front().reason,
                    "take other degrees", ExitCode::kBadConfig);
  const EvaluatedCandidate& step = found.evaluated.front();
  return {step.step().value(), static_cast<double>(step.fullest.memory.arena.value())};
}

}  // namespace

ParameterCounts parameter_counts(const RunConfig& config) {
  const auto count = [&](int64_t layers) {
    return static_cast<double>(parameter_count(training_graph(small_config(config, layers, 1))));
  };
  const double one = count(1), two = count(2);
  return {two - one, 2 * one - two};
}

LayerPrices layer_prices(const RunConfig& config, const Cluster& cluster,
                         const ParallelSetting& setting) {
  const auto step = [&](int64_t layers, int64_t micro_batches) {
    return small_step(config, cluster, setting, layers, micro_batches);
  };
  const SmallStep one = step(1, 1), two = step(2, 1);
  const double one_more = step(1, 2).seconds - one.seconds;
  const double two_more = step(2, 2).seconds - two.seconds;
  LayerPrices prices;
  prices.layer = Seconds(std::max(two_more - one_more, 0.0));
  prices.ends = Seconds(std::max(2 * one_more - two_more, 0.0));
  prices.update = Seconds(std::max(two.seconds - one.seconds - prices.layer.value(), 0.0));
  return prices;
}

KeptBytes kept_bytes(const RunConfig& config, const Cluster& cluster,
                     const ParallelSetting& setting) {
  constexpr int64_t kRows = 8;
  ParallelSetting many = setting;
  many.micro_batch = kRows;
  const double one = small_step(config, cluster, many, 1, 1).arena;
  const double two = small_step(config, cluster, many, 2, 1).arena;
  return {std::max(two - one, 0.0) / kRows, std::max(2 * one - two, 0.0) / kRows};
}

}  // namespace tessera
