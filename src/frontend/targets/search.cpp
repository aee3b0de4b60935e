#include "frontend/targets/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/text/text.h"
#include "base/threads/on_all_cores.h"
#include "frontend/targets/internal/setting_parts.h"
#include "frontend/targets/internal/setting_price.h"
#include "frontend/targets/internal/setting_steps.h"

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

TargetMachines machines_of(const Cluster& cluster, int ranks) {
  TargetMachines machines{.ranks = ranks, .ranks_of_machine = ranks};
  for (int machine = 0; machine < cluster.machine_count(); ++machine)
    machines.ranks_of_machine =
        std::min(machines.ranks_of_machine, static_cast<int>(cluster.devices_of(machine).size()));
  return machines;
}

/// The settings with their prices, the best first.
std::vector<PricedSetting> price_all(const TargetSearch& search, SettingSteps& steps,
                                     const TransformerSizes& model,
                                     const std::vector<ParallelSetting>& settings) {
  // Many have the same prices, which are found on all cores.
  std::map<std::tuple<int, bool, Recomputed, int64_t>, const ParallelSetting*> keys;
  for (const ParallelSetting& setting : settings)
    keys.try_emplace(
        {setting.tensor, setting.sequence_parallel, setting.recomputed, setting.micro_batch},
        &setting);
  std::vector<const ParallelSetting*> distinct;
  for (const auto& [key, setting] : keys) distinct.push_back(setting);
  on_all_cores(std::ssize(distinct), [&](int64_t i) {
    steps.layer_prices(*distinct[static_cast<size_t>(i)]);
    steps.kept_bytes(*distinct[static_cast<size_t>(i)]);
  });
  const PricedModel priced_model{model, search.cluster, steps.parameters()};
  std::vector<PricedSetting> list;
  for (const ParallelSetting& setting : settings) {
    const std::optional<LayerPrices> price = steps.layer_prices(setting);
    const std::optional<KeptBytes> kept = steps.kept_bytes(setting);
    if (price && kept) list.push_back(priced(setting, *price, *kept, priced_model));
  }
  std::ranges::stable_sort(list, {}, &PricedSetting::step);
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

/// Of a step to its price, beside the least ratio of those that were simulated.
constexpr double kSafety = 0.98;
/// Of a need of memory to its price, before one was simulated.
constexpr double kSmallestNeed = 0.93;
/// Of all simulations together, as work_of() measures it; kFewest are simulated in any case.
constexpr int64_t kMaxWork = 2'000;
constexpr int64_t kFewest = 2;

/// Simulates the settings in the order of their prices, until the price of the next one is above
/// the best step, as prices and steps of those before were to each other.
class Simulations {
 public:
  Simulations(const TargetSearch& search, SettingSteps& steps, TargetResult& result)
      : search_(search), steps_(steps), result_(result) {}

  void run() {
    int64_t work = 0;
    for (const PricedSetting& priced : result_.priced) {
      if ((tried_ > 0 && search_.stop && search_.stop()) || tried_ >= search_.simulated ||
          cannot_win(priced) || (tried_ >= kFewest && work > kMaxWork && best_))
        return;
      if (!may_fit(priced) || !seen_.insert(preset_text(priced.setting)).second) continue;
      work += work_of(parts_of_setting(priced.setting, result_.model.layers, search_.cluster));
      add(priced.setting, priced);
    }
    if (!best_) try_smallest();
  }

  void add_current(const ParallelSetting& setting) {
    seen_.insert(preset_text(setting));
    add(setting, std::nullopt);
    tried_ = 0;
  }

 private:
  /// Those that need least, by their prices: one may fit, or tell how much is missing.
  void try_smallest() {
    std::vector<PricedSetting> list = result_.priced;
    std::ranges::stable_sort(list, {}, &PricedSetting::memory);
    const int64_t most = tried_ + kFewest;
    for (const PricedSetting& priced : list) {
      if (tried_ >= most || (tried_ > 0 && search_.stop && search_.stop())) return;
      if (seen_.insert(preset_text(priced.setting)).second) add(priced.setting, priced);
    }
  }

  void add(const ParallelSetting& setting, const std::optional<PricedSetting>& priced) {
    ++tried_;
    std::optional<EvaluatedCandidate> evaluated = steps_.evaluate(setting);
    if (search_.progress) search_.progress(preset_text(setting));
    if (!evaluated) return;
    const double step = evaluated->step().value();
    if (priced) {
      least_ratio_ = std::min(least_ratio_, step / priced->step.value());
      const auto needed = static_cast<double>(evaluated->fullest.memory.allocated().value());
      double& ratio = memory_ratios_[kind_of(setting)];
      ratio = std::max(ratio, needed / static_cast<double>(priced->memory.value()));
    }
    if (evaluated->fits()) best_ = std::min(best_.value_or(step), step);
    result_.simulated.push_back({setting, priced, *std::move(evaluated)});
  }
  /// Settings whose memory is priced alike.
  using Kind = std::tuple<bool, bool, int, Recomputed>;
  static Kind kind_of(const ParallelSetting& setting) {
    return {setting.pipeline > 1, setting.chunks > 1, setting.zero, setting.recomputed};
  }
  bool may_fit(const PricedSetting& priced) const {
    const DeviceType& type = search_.cluster.type(0);
    const auto found = memory_ratios_.find(kind_of(priced.setting));
    const double ratio = found == memory_ratios_.end() ? kSmallestNeed : found->second;
    return ratio * static_cast<double>(priced.memory.value()) <=
           static_cast<double>((type.memory - type.reserve).value());
  }
  bool cannot_win(const PricedSetting& priced) const {
    return best_ && kSafety * least_ratio_ * priced.step.value() > *best_;
  }

  const TargetSearch& search_;
  SettingSteps& steps_;
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
  SettingSteps steps(search.config, search.cluster);
  result.priced = price_all(search, steps, *model, settings);
  Simulations simulations(search, steps, result);
  if (search.current) simulations.add_current(*search.current);
  simulations.run();
  std::ranges::stable_sort(result.simulated, {}, [](const TargetResult::Simulated& simulated) {
    return std::pair(!simulated.evaluated.fits(), simulated.evaluated.step().value());
  });
  for (size_t i = 0; i < result.simulated.size(); ++i)
    if (search.current && result.simulated[i].setting == *search.current) result.current = i;
  if (!result.simulated.empty() && result.simulated.front().evaluated.fits()) result.best = 0;
  return result;
}

}  // namespace tessera
