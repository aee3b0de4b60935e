#include "frontend/targets/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/text/text.h"
#include "base/threads/on_all_cores.h"
#include "frontend/targets/internal/layer_prices.h"
#include "frontend/targets/internal/setting_price.h"
#include "planner/presets/presets.h"

namespace tessera {
namespace {

std::vector<int64_t> divisors_up_to(int64_t number, int64_t largest) {
  std::vector<int64_t> list;
  for (int64_t divisor = 1; divisor <= std::min(number, largest); ++divisor)
    if (number % divisor == 0) list.push_back(divisor);
  return list;
}

constexpr int64_t kMicroBatches[] = {1, 2, 4, 8, 16};
constexpr int kChunks[] = {1, 2, 3, 4, 5, 6, 8, 10};
constexpr int64_t kMaxStages = 64;

/// How the data-parallel ranks divide state, where the target does it in several ways.
struct StateDivision {
  int replicate = 1, shard = 1, zero = 0;
};
std::vector<StateDivision> divisions(Target target, int data, const TargetMachines& machines,
                                     int ranks_of_stage_in_machine) {
  std::vector<StateDivision> list{{data, 1, 0}};
  if (data == 1) return list;
  if (target == Target::kMegatron) {
    list = {{1, data, 1}};
    return list;
  }
  for (const int zero : {2, 3}) list.push_back({1, data, zero});
  const int inside = std::min(machines.ranks_of_machine, ranks_of_stage_in_machine);
  if (inside > 1 && inside < data && data % inside == 0)
    for (const int zero : {2, 3}) list.push_back({data / inside, inside, zero});
  return list;
}

/// Adds the settings of one set of degrees.
void add_settings(Target target, const TransformerSizes& model, const TargetMachines& machines,
                  ParallelSetting setting, std::vector<ParallelSetting>& list) {
  const int data = machines.ranks / (setting.tensor * setting.pipeline);
  const int inside = std::max(1, machines.ranks_of_machine / setting.tensor);
  for (const StateDivision& division : divisions(target, data, machines, inside))
    for (const int64_t micro_batch : kMicroBatches)
      for (const int chunks : kChunks)
        for (const Recomputed recomputed :
             {Recomputed::kNothing, Recomputed::kSelective, Recomputed::kLayers}) {
          setting.replicate = division.replicate;
          setting.shard = division.shard;
          setting.zero = division.zero;
          setting.micro_batch = micro_batch;
          setting.chunks = chunks;
          setting.recomputed = recomputed;
          if (chunks > 1 && (setting.pipeline == 1 || setting.stages() > kMaxStages ||
                             model.layers % setting.stages() != 0))
            continue;
          setting.stage_layers.clear();
          if (setting.stages() <= model.layers && model.layers % setting.stages() != 0)
            setting.stage_layers = even_layers(model.layers, setting.stages());
          if (broken_rules(target, setting, model, machines).empty()) list.push_back(setting);
        }
}

/// Prices are those of a tensor-parallel rank: many settings have the same.
using PriceKey = std::tuple<int, bool, Recomputed, int64_t>;
PriceKey price_key(const ParallelSetting& setting) {
  return {setting.tensor, setting.sequence_parallel, setting.recomputed, setting.micro_batch};
}

using MemoryKey = std::tuple<int, bool, Recomputed>;
MemoryKey memory_key(const ParallelSetting& setting) {
  return {setting.tensor, setting.sequence_parallel, setting.recomputed};
}

TargetMachines machines_of(const Cluster& cluster, int ranks) {
  TargetMachines machines{.ranks = ranks, .ranks_of_machine = ranks};
  for (int machine = 0; machine < cluster.machine_count(); ++machine)
    machines.ranks_of_machine =
        std::min(machines.ranks_of_machine, static_cast<int>(cluster.devices_of(machine).size()));
  return machines;
}

/// The prices of all keys of the settings.
template <typename Key, typename Price>
std::map<Key, std::optional<Price>> prices_of(
    const std::vector<ParallelSetting>& settings,
    const std::function<Key(const ParallelSetting&)>& key,
    const std::function<Price(const ParallelSetting&)>& price) {
  std::map<Key, std::optional<Price>> prices;
  std::vector<const ParallelSetting*> wanted;
  for (const ParallelSetting& setting : settings)
    if (prices.emplace(key(setting), std::nullopt).second) wanted.push_back(&setting);
  std::vector<std::optional<Price>> found(wanted.size());
  on_all_cores(std::ssize(wanted), [&](int64_t i) {
    try {
      found[static_cast<size_t>(i)] = price(*wanted[static_cast<size_t>(i)]);
    } catch (const UserError&) {
      // It has no price, so none of its settings is tried.
    }
  });
  for (size_t i = 0; i < wanted.size(); ++i) prices[key(*wanted[i])] = found[i];
  return prices;
}

/// The settings with their prices, the best first.
std::vector<PricedSetting> price_all(const TargetSearch& search, const TransformerSizes& model,
                                     const std::vector<ParallelSetting>& settings) {
  const auto prices =
      prices_of<PriceKey, LayerPrices>(settings, price_key, [&](const ParallelSetting& setting) {
        return layer_prices(search.config, search.cluster, setting);
      });
  const auto kept =
      prices_of<MemoryKey, KeptBytes>(settings, memory_key, [&](const ParallelSetting& setting) {
        return kept_bytes(search.config, search.cluster, setting);
      });
  const PricedModel priced_model{model, search.cluster, parameter_counts(search.config)};
  std::vector<PricedSetting> list;
  for (const ParallelSetting& setting : settings) {
    const std::optional<LayerPrices>& price = prices.at(price_key(setting));
    const std::optional<KeptBytes>& bytes = kept.at(memory_key(setting));
    if (price && bytes) list.push_back(priced(setting, *price, *bytes, priced_model));
  }
  const DeviceType& type = search.cluster.type(0);
  const Bytes capacity = type.memory - type.reserve;
  std::ranges::stable_sort(list, {}, [&](const PricedSetting& setting) {
    return std::pair(setting.memory > capacity, setting.step.value());
  });
  return list;
}

[[noreturn]] void refuse_current(const std::vector<BrokenRule>& broken, Target target) {
  std::vector<std::string> reasons;
  for (const BrokenRule& rule : broken)
    reasons.push_back(fmt::format("{} ({}; {})", rule.reason, rule.rule, rule.source));
  throw UserError(fmt::format("{} does not run the current setting", version_of(target)),
                  join(reasons, "; "), "correct these flags, or leave out --current",
                  ExitCode::kBadConfig);
}

/// Candidates of a round, on all cores; the result does not depend on their number.
constexpr size_t kRound = 2;
/// Of a step to its price, beside the least ratio of those that were simulated.
constexpr double kSafety = 0.98;
/// Layers times devices of all simulations together.
constexpr int64_t kMaxWork = 30'000;

/// The settings that compile, simulated as a whole, in their order.
std::vector<TargetResult::Simulated> simulate(const TargetSearch& search,
                                              std::span<const PricedSetting> settings) {
  std::vector<Candidate> candidates;
  std::vector<TargetResult::Simulated> list;
  for (const PricedSetting& priced : settings) {
    const std::string name = preset_text(priced.setting);
    try {
      candidates.push_back(
          {Candidate::Source::kCompared, name,
           preset_plan(parse_preset(name), search.request.graph, priced.setting.ranks())});
      list.push_back({priced.setting, priced, {}});
    } catch (const UserError& error) {
      if (error.exit_code() != ExitCode::kBadConfig) throw;
    }
  }
  Evaluations found =
      evaluate(search.request, std::move(candidates), {.progress = search.progress});
  std::vector<TargetResult::Simulated> simulated;
  for (EvaluatedCandidate& evaluated : found.evaluated) {
    const auto of_name = std::ranges::find_if(list, [&](const TargetResult::Simulated& other) {
      return preset_text(other.setting) == evaluated.candidate.name;
    });
    simulated.push_back({of_name->setting, of_name->priced, std::move(evaluated)});
  }
  return simulated;
}

/// Simulates the settings in the order of their prices, round by round, until the price of the next
/// one is above the best step, as prices and steps of those before were to each other.
class Simulations {
 public:
  Simulations(const TargetSearch& search, TargetResult& result)
      : search_(search), result_(result) {}

  void run(int64_t most) {
    std::vector<PricedSetting> round;
    for (size_t i = 0; i < result_.priced.size(); ++i) {
      const PricedSetting& priced = result_.priced[i];
      if (tried_ > 0 && search_.stop && search_.stop()) break;
      if ((tried_ >= most && best_) || tried_ >= search_.simulated || cannot_win(priced)) break;
      if (!may_fit(priced)) continue;
      if (!seen_.insert(preset_text(priced.setting)).second) continue;
      round.push_back(priced);
      ++tried_;
      if (round.size() == kRound) add(round);
    }
    if (!round.empty()) add(round);
  }

  void add_current(const ParallelSetting& setting) {
    seen_.insert(preset_text(setting));
    std::vector<PricedSetting> round{{setting}};
    add(round);
    if (!result_.simulated.empty()) result_.simulated.front().priced = std::nullopt;
  }

 private:
  void add(std::vector<PricedSetting>& round) {
    for (TargetResult::Simulated& simulated : simulate(search_, round)) {
      const double step = simulated.evaluated.step().value();
      if (simulated.priced->step > Seconds(0))
        least_ratio_ = std::min(least_ratio_, step / simulated.priced->step.value());
      const auto needed = static_cast<double>(simulated.evaluated.fullest.memory.arena.value() +
                                              simulated.evaluated.fullest.memory.variables.value());
      double& ratio = memory_ratios_.try_emplace(kind_of(simulated.setting), 1).first->second;
      if (simulated.priced->memory > Bytes(0))
        ratio = std::max(ratio, needed / static_cast<double>(simulated.priced->memory.value()));
      if (simulated.evaluated.fits()) best_ = std::min(best_.value_or(step), step);
      result_.simulated.push_back(std::move(simulated));
    }
    round.clear();
  }
  /// Settings whose memory is priced alike.
  using Kind = std::tuple<bool, bool, int, Recomputed>;
  static Kind kind_of(const ParallelSetting& setting) {
    return {setting.pipeline > 1, setting.chunks > 1, setting.zero, setting.recomputed};
  }
  bool may_fit(const PricedSetting& priced) const {
    const DeviceType& type = search_.cluster.type(0);
    const auto found = memory_ratios_.find(kind_of(priced.setting));
    const double ratio = found == memory_ratios_.end() ? 1 : found->second;
    return ratio * static_cast<double>(priced.memory.value()) <=
           static_cast<double>((type.memory - type.reserve).value());
  }
  bool cannot_win(const PricedSetting& priced) const {
    return best_ && kSafety * least_ratio_ * priced.step.value() > *best_;
  }

  const TargetSearch& search_;
  TargetResult& result_;
  std::set<std::string> seen_ = {};
  int64_t tried_ = 0;
  std::map<Kind, double> memory_ratios_ = {};  // of the need to its price, the greatest
  double least_ratio_ = 1;                     // of a step to its price
  std::optional<double> best_ = {};
};

}  // namespace

std::vector<ParallelSetting> settings_of_target(Target target, const TransformerSizes& model,
                                                int64_t batch, const TargetMachines& machines) {
  std::vector<ParallelSetting> list;
  for (const int64_t tensor : divisors_up_to(machines.ranks, machines.ranks_of_machine))
    for (const int64_t pipeline :
         divisors_up_to(machines.ranks / tensor, std::min(model.layers, kMaxStages))) {
      ParallelSetting setting;
      setting.tensor = static_cast<int>(tensor);
      setting.pipeline = static_cast<int>(pipeline);
      setting.sequence_parallel = tensor > 1;
      setting.global_batch = batch;
      add_settings(target, model, machines, setting, list);
    }
  return list;
}

TargetResult search_target(const TargetSearch& search) {
  const std::optional<TransformerSizes> model = transformer_sizes(search.config.model);
  if (!model)
    throw UserError("a model of kind " + search.config.model.kind + " has no target",
                    "the programs of --target run transformers",
                    "plan it without --target, for our own runtime", ExitCode::kBadConfig);
  TargetResult result;
  result.model = *model;
  result.machines = machines_of(search.cluster, search.ranks);
  const int64_t batch = search.config.train.batch;
  if (search.current) {
    const auto broken = broken_rules(search.target, *search.current, *model, result.machines);
    if (!broken.empty()) refuse_current(broken, search.target);
  }
  const std::vector<ParallelSetting> settings =
      settings_of_target(search.target, *model, batch, result.machines);
  if (settings.empty() && !search.current)
    throw UserError(fmt::format("{} has no setting for this model on {} devices",
                                version_of(search.target), result.machines.ranks),
                    fmt::format("no degrees make all ranks, divide {} heads, {} layers and {} rows",
                                model->heads, model->layers, batch),
                    "take a batch or a number of devices with more divisors", ExitCode::kNoPlan);
  result.settings = std::ssize(settings);
  result.priced = price_all(search, *model, settings);
  Simulations simulations(search, result);
  if (search.current) simulations.add_current(*search.current);
  const int64_t work = model->layers * result.machines.ranks;
  simulations.run(std::min(search.simulated, std::max<int64_t>(kMaxWork / work, 4)));
  std::ranges::stable_sort(result.simulated, {}, [](const TargetResult::Simulated& simulated) {
    return std::pair(!simulated.evaluated.fits(), simulated.evaluated.step().value());
  });
  for (size_t i = 0; i < result.simulated.size(); ++i)
    if (search.current && result.simulated[i].setting == *search.current) result.current = i;
  if (!result.simulated.empty() && result.simulated.front().evaluated.fits()) result.best = 0;
  return result;
}

}  // namespace tessera
