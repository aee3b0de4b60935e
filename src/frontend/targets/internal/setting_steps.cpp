#include "frontend/targets/internal/setting_steps.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/threads/on_all_cores.h"
#include "frontend/targets/internal/setting_parts.h"
#include "planner/presets/presets.h"
#include "training/engine/graphs.h"

namespace tessera {
namespace {

/// Layers of small steps. One layer is none that repeats, so that it is not computed again.
constexpr int kFew = 2, kMore = 3;

/// Without evaluation.
RunConfig with_size(const RunConfig& config, int64_t layers, int64_t rows) {
  RunConfig sized = config;
  sized.model.layers = layers;
  sized.train.batch = rows;
  sized.data.held_out = 0;
  return sized;
}

ParameterCounts parameter_counts(const RunConfig& config) {
  const auto count = [&](int64_t layers) {
    return static_cast<double>(parameter_count(training_graph(with_size(config, layers, 1))));
  };
  const double one = count(1), two = count(2);
  return {two - one, 2 * one - two};
}

/// What `find` finds, once for each key.
template <typename Key, typename Value, typename Find>
std::optional<Value> found_once(std::mutex& mutex, std::map<Key, std::optional<Value>>& known,
                                const Key& key, const Find& find) {
  {
    const std::lock_guard lock(mutex);
    if (const auto found = known.find(key); found != known.end()) return found->second;
  }
  const std::optional<Value> value = find();
  const std::lock_guard lock(mutex);
  return known[key] = value;
}

}  // namespace

SettingSteps::SettingSteps(const RunConfig& config, const Cluster& cluster)
    : config_(config), cluster_(cluster), parameters_(parameter_counts(config)) {}

std::shared_ptr<const Graph> SettingSteps::graph(int64_t layers, int64_t rows) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<const Graph>& graph = graphs_[{layers, rows}];
  if (!graph)
    graph = std::make_shared<const Graph>(training_graph(with_size(config_, layers, rows)));
  return graph;
}

std::optional<EvaluatedCandidate> SettingSteps::evaluate_whole(const ParallelSetting& setting,
                                                               int64_t layers) {
  const std::shared_ptr<const Graph> graph = this->graph(layers, setting.global_batch);
  const std::string name = simulated_preset(setting, parameters_);
  try {
    Plan plan = preset_plan(parse_preset(name), *graph, setting.ranks());
    Evaluations found = tessera::evaluate({*graph, cluster_},
                                          {{Candidate::Source::kCompared, name, std::move(plan)}});
    if (found.evaluated.empty()) return std::nullopt;
    return std::move(found.evaluated.front());
  } catch (const UserError& error) {
    if (error.exit_code() != ExitCode::kBadConfig) throw;
    return std::nullopt;
  }
}

std::optional<EvaluatedCandidate> SettingSteps::evaluate(const ParallelSetting& setting) {
  const std::vector<SettingPart> parts = parts_of_setting(setting, config_.model.layers, cluster_);
  std::vector<std::optional<EvaluatedCandidate>> made(parts.size());
  on_all_cores(std::ssize(parts), [&](int64_t i) {
    const size_t last_first = parts.size() - 1 - static_cast<size_t>(i);  // which are the largest
    const SettingPart& part = parts[last_first];
    made[last_first] = evaluate_whole(part.setting, part.layers);
  });
  std::vector<EvaluatedCandidate> evaluated;
  for (std::optional<EvaluatedCandidate>& part : made) {
    if (!part) return std::nullopt;
    evaluated.push_back(*std::move(part));
  }
  const std::optional<KeptBytes> kept = kept_bytes(setting);
  EvaluatedCandidate sum =
      sum_of_parts(setting, parts, evaluated,
                   kept ? kept->layer * static_cast<double>(setting.micro_batch) : 0, cluster_);
  sum.candidate.name = simulated_preset(setting, parameters_);
  return sum;
}

std::optional<SettingSteps::SmallStep> SettingSteps::small_step(const ParallelSetting& setting,
                                                                int64_t layers,
                                                                int64_t micro_batches) {
  ParallelSetting small = setting;
  small.replicate = small.shard = small.context = small.pipeline = small.chunks = 1;
  small.zero = 0;
  small.stage_layers.clear();
  small.global_batch = setting.micro_batch * micro_batches;
  const auto step = evaluate_whole(small, layers);
  if (!step) return std::nullopt;
  return SmallStep{step->step().value(), static_cast<double>(step->fullest.memory.arena.value())};
}

std::optional<LayerPrices> SettingSteps::layer_prices(const ParallelSetting& setting) {
  const PriceKey key{setting.tensor, setting.sequence_parallel, setting.recomputed,
                     setting.micro_batch};
  return found_once(mutex_, layer_prices_, key, [&]() -> std::optional<LayerPrices> {
    const auto few = small_step(setting, kFew, 1), more = small_step(setting, kMore, 1);
    const auto few_twice = small_step(setting, kFew, 2), more_twice = small_step(setting, kMore, 2);
    if (!few || !more || !few_twice || !more_twice) return std::nullopt;
    const double of_few = few_twice->seconds - few->seconds;  // one more micro-batch
    const double of_more = more_twice->seconds - more->seconds;
    LayerPrices prices;
    prices.layer = Seconds(std::max(of_more - of_few, 0.0));
    prices.ends = Seconds(std::max(of_few - kFew * prices.layer.value(), 0.0));
    prices.update = Seconds(std::max(more->seconds - few->seconds - prices.layer.value(), 0.0));
    return prices;
  });
}

std::optional<KeptBytes> SettingSteps::kept_bytes(const ParallelSetting& setting) {
  const MemoryKey key{setting.tensor, setting.sequence_parallel, setting.recomputed};
  return found_once(mutex_, kept_bytes_, key, [&]() -> std::optional<KeptBytes> {
    // The difference of two numbers of rows, which parameters and gradients do not depend on.
    constexpr int64_t kRows = 8;
    const auto kept = [&](int64_t rows) -> std::optional<KeptBytes> {
      ParallelSetting many = setting;
      many.micro_batch = rows;
      const auto less = small_step(many, kFew, 1), more = small_step(many, kMore, 1);
      if (!less || !more) return std::nullopt;
      const double layer = more->arena - less->arena;
      return KeptBytes{layer, less->arena - kFew * layer};
    };
    const auto few = kept(kRows), more = kept(2 * kRows);
    if (!few || !more) return std::nullopt;
    return KeptBytes{std::max(more->layer - few->layer, 0.0) / kRows,
                     std::max(more->ends - few->ends, 0.0) / kRows};
  });
}

Bytes bytes_in_flight(const ParallelSetting& setting, const ParameterCounts& parameters) {
  constexpr double kGradient = 4;  // bytes an element
  const double layer = parameters.layer / setting.tensor;
  const int64_t mib = std::llround(std::ceil(2 * kGradient * layer / (1 << 20)));
  return std::max(kPrefetchWindow, Bytes(mib << 20));
}

std::string simulated_preset(const ParallelSetting& setting, const ParameterCounts& parameters) {
  const Bytes window = bytes_in_flight(setting, parameters);
  const std::string text = preset_text(setting);
  if (window == kPrefetchWindow) return text;
  return text + ",prefetch_mib=" + std::to_string(window.value() >> 20);
}

}  // namespace tessera
