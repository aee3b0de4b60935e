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
          if (broken_rules(target, setting, model, machines).empty()) list.push_back(setting);
        }
}

/// Prices are those of a tensor-parallel rank: many settings have the same.
using PriceKey = std::tuple<int, bool, Recomputed, int64_t>;
PriceKey price_key(const ParallelSetting& setting) {
  return {setting.tensor, setting.sequence_parallel, setting.recomputed, setting.micro_batch};
}

TargetMachines machines_of(const Cluster& cluster, int ranks) {
  TargetMachines machines{.ranks = ranks, .ranks_of_machine = ranks};
  for (int machine = 0; machine < cluster.machine_count(); ++machine)
    machines.ranks_of_machine =
        std::min(machines.ranks_of_machine, static_cast<int>(cluster.devices_of(machine).size()));
  return machines;
}

/// The settings with their prices, the best first.
std::vector<PricedSetting> price_all(const TargetSearch& search, const TransformerSizes& model,
                                     const std::vector<ParallelSetting>& settings) {
  std::map<PriceKey, std::optional<LayerPrices>> prices;
  std::vector<std::pair<PriceKey, ParallelSetting>> wanted;
  for (const ParallelSetting& setting : settings)
    if (prices.emplace(price_key(setting), std::nullopt).second)
      wanted.emplace_back(price_key(setting), setting);
  std::vector<std::optional<LayerPrices>> found(wanted.size());
  on_all_cores(std::ssize(wanted), [&](int64_t i) {
    try {
      found[static_cast<size_t>(i)] =
          layer_prices(search.config, search.cluster, wanted[static_cast<size_t>(i)].second);
    } catch (const UserError&) {
      // It has no price, so none of its settings is tried.
    }
  });
  for (size_t i = 0; i < wanted.size(); ++i) prices[wanted[i].first] = found[i];
  const PricedModel priced_model{model, search.cluster, parameter_counts(search.config)};
  std::vector<PricedSetting> list;
  for (const ParallelSetting& setting : settings)
    if (const std::optional<LayerPrices>& price = prices.at(price_key(setting)))
      list.push_back(priced(setting, *price, priced_model));
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

std::optional<TargetResult::Simulated> simulate(const TargetSearch& search,
                                                const ParallelSetting& setting) {
  const std::string name = preset_text(setting);
  if (search.progress) search.progress(name);
  Plan plan;
  try {
    plan = preset_plan(parse_preset(name), search.request.graph, setting.ranks());
  } catch (const UserError& error) {
    if (error.exit_code() != ExitCode::kBadConfig) throw;
    return std::nullopt;
  }
  Evaluations found =
      evaluate(search.request, {{Candidate::Source::kCompared, name, std::move(plan)}});
  if (found.evaluated.empty()) return std::nullopt;
  return TargetResult::Simulated{setting, std::move(found.evaluated.front())};
}

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
  std::set<std::string> seen;
  const auto add = [&](const ParallelSetting& setting) {
    if (!seen.insert(preset_text(setting)).second) return;
    if (auto simulated = simulate(search, setting))
      result.simulated.push_back(*std::move(simulated));
  };
  if (search.current) add(*search.current);
  const size_t is_given = result.simulated.size();
  for (const PricedSetting& priced : result.priced) {
    const auto tried = static_cast<int64_t>(result.simulated.size() - is_given);
    if (tried >= search.simulated || (tried > 0 && search.stop && search.stop())) break;
    add(priced.setting);
  }
  std::ranges::stable_sort(result.simulated, {}, [](const TargetResult::Simulated& simulated) {
    return std::pair(!simulated.evaluated.fits(), simulated.evaluated.step().value());
  });
  for (size_t i = 0; i < result.simulated.size(); ++i)
    if (search.current && result.simulated[i].setting == *search.current) result.current = i;
  if (!result.simulated.empty() && result.simulated.front().evaluated.fits()) result.best = 0;
  return result;
}

}  // namespace tessera
