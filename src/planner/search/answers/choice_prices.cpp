#include "planner/search/answers/choice_prices.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/error.h"
#include "base/text/text.h"
#include "base/threads/on_all_cores.h"
#include "planner/placement/placement_search.h"
#include "planner/placement/search_policy.h"
#include "planner/placement/shared_decisions.h"
#include "planner/placement/strategies.h"
#include "planner/search/internal/sources/fixed_degrees.h"
#include "planner/search/internal/sources/searched_devices.h"
#include "sharding/propagation/kernel_price.h"
#include "simulator/step/deployment.h"

namespace tessera {
namespace {

/// An op, or a value that no op makes.
struct Target {
  std::optional<OpId> op = {};
  ValueId value = {};
};

std::optional<Target> find_target(const Graph& graph, const std::string& name) {
  if (const std::optional<OpId> op = graph.find_op(name)) return Target{op};
  const std::optional<ValueId> value = graph.find_value(name);
  if (!value) return std::nullopt;
  const OpId producer = graph.value(*value).producer;
  return producer.index >= 0 ? Target{producer} : Target{{}, *value};
}

std::string text_of(const OpView& op, const ShardingRule& rule, const OpSharding& sharding) {
  std::vector<std::string> inputs, outputs;
  for (int i = 0; i < std::ssize(op.inputs); ++i)
    inputs.push_back(to_text(input_attr(op, rule, sharding, i)));
  for (int i = 0; i < std::ssize(op.outputs); ++i)
    outputs.push_back(to_text(output_attr(op, rule, sharding, i)));
  return "(" + join(inputs, ", ") + ") -> " + join(outputs, ", ");
}

std::string text_in(const Graph& graph, const ShardedGraph& sharded, const Target& target) {
  if (!target.op) return to_text(sharded.at(target.value));
  return text_of(view(graph, graph.op(*target.op)), sharded.rules[target.op->index],
                 sharded.at(*target.op));
}

/// The members that share the decision of `first`.
std::vector<int> members_of(const std::vector<int>& shared_decisions, int first) {
  std::vector<int> members;
  for (int i = 0; i < std::ssize(shared_decisions); ++i)
    if (shared_decisions[i] == shared_decisions[first]) members.push_back(i);
  return members;
}

/// A placement of the target that may be fixed.
struct Choice {
  PricedChoice priced;
  OpSharding sharding = {};           // of an op
  DistAttr canonical_placement = {};  // of a value
};

class ChoicePricing {
 public:
  ChoicePricing(const PlanRequest& request, const PlanConstraints& constraints, const Plan& plan)
      : decided_(placed(request, plan)), mesh_(plan.meshes.front().mesh) {
    Plan open;
    open.meshes = one_mesh(mesh_);
    open.disabled_passes = plan.disabled_passes;
    open.marks = constraints.marks;  // no pass removes what they name
    open_ = placed(request, open);
    options_.problem.constraints = constraints_on(open_.graph, mesh_, constraints);
    options_.problem.devices = devices_of(request, *mesh_);
    options_.memory_limit = memory_of(request, *mesh_);
    options_.work = kSearchPolicy.work_of_choice;
    cost_ = cost_of(identity_mapping(request.cluster, mesh_->size()), std::vector{mesh_});
  }

  std::optional<ChoicePrices> prices(const std::string& name) {
    const std::optional<Target> target = find_target(open_.graph, name);
    const std::optional<Target> decided = find_target(decided_.graph, name);
    if (!target || !decided) return std::nullopt;
    target_ = *target;
    const SharedDecisions shared_decisions =
        shared_decisions_of(open_.graph, options_.problem.constraints);
    members_ = target_.op ? members_of(shared_decisions.of_op, target_.op->index)
                          : members_of(shared_decisions.of_value, target_.value.index);
    ChoicePrices prices;
    prices.name = name;
    prices.identical = std::ssize(members_);
    std::vector<Choice> choices = choices_of();
    add_chosen(*decided, choices);
    keep_cheapest(choices, prices);
    add_bounds(prices);
    on_all_cores(std::ssize(choices), [&](int64_t i) {
      PlacementSearchOptions options = options_;
      fix(options.problem.constraints, choices[i]);
      if (const auto result = solved(options)) choices[i].priced.time = result->time;
    });
    prices.chosen = choices.front().priced;
    for (size_t i = 1; i < choices.size(); ++i) prices.others.push_back(choices[i].priced);
    std::ranges::stable_sort(prices.others, {}, [](const PricedChoice& choice) {
      return choice.time ? choice.time->value() : std::numeric_limits<double>::infinity();
    });
    return prices;
  }

 private:
  static PlacedGraph placed(const PlanRequest& request, const Plan& plan) {
    CompileOptions options;
    options.rewrites = request.rewrites;
    return placements(request.graph, plan, options);
  }

  /// nullopt when nothing keeps the memory or the constraints.
  std::optional<PlacementResult> solved(const PlacementSearchOptions& options) const {
    try {
      return search_placements(open_.graph, mesh_, cost_, options);
    } catch (const UserError& error) {
      if (error.exit_code() != ExitCode::kBadConfig) throw;
      return std::nullopt;
    }
  }

  std::vector<Choice> choices_of() const {
    const Graph& graph = open_.graph;
    std::vector<Choice> choices;
    if (!target_.op) {
      for (DistAttr& canonical_placement : plain_placements(graph.type(target_.value), mesh_)) {
        PricedChoice priced{to_text(canonical_placement)};
        choices.push_back({std::move(priced), {}, std::move(canonical_placement)});
      }
      return choices;
    }
    const OpRules& rules = open_.sharded.rules;
    const std::vector<bool> may_be = may_be_partial(graph, rules);
    std::vector<bool> partial;
    for (ValueId input : graph.op(*target_.op).inputs) partial.push_back(may_be[input.index]);
    for (OpSharding& sharding : strategies_of(rules[target_.op->index], mesh_, partial))
      choices.push_back(choice_of(std::move(sharding)));
    return choices;
  }

  Choice choice_of(OpSharding sharding) const {
    const OpView op = view(open_.graph, open_.graph.op(*target_.op));
    const ShardingRule& rule = open_.sharded.rules[target_.op->index];
    const auto ranks = priced_ranks(*mesh_, cost_.device, options_.problem.devices);
    PricedChoice priced{text_of(op, rule, sharding),
                        kernel_demand(op, rule, sharding, ranks).price.estimate};
    return {std::move(priced), std::move(sharding)};
  }

  /// Puts the placement of the plan first, and removes it from the others.
  void add_chosen(const Target& decided, std::vector<Choice>& choices) const {
    Choice chosen;
    if (target_.op) {
      OpSharding sharding = decided_.sharded.at(*decided.op);
      sharding.mesh = mesh_;
      chosen = choice_of(std::move(sharding));
    } else {
      chosen.canonical_placement = decided_.sharded.at(decided.value);
      chosen.canonical_placement.mesh = mesh_;
      chosen.priced.text = to_text(chosen.canonical_placement);
    }
    std::erase_if(choices,
                  [&](const Choice& choice) { return choice.priced.text == chosen.priced.text; });
    choices.insert(choices.begin(), std::move(chosen));
  }

  /// Those with the cheapest kernels, after the chosen one.
  static void keep_cheapest(std::vector<Choice>& choices, ChoicePrices& prices) {
    std::stable_sort(choices.begin() + 1, choices.end(), [](const Choice& a, const Choice& b) {
      return a.priced.kernel < b.priced.kernel;
    });
    prices.not_priced =
        std::max<int64_t>(0, std::ssize(choices) - 1 - kSearchPolicy.priced_choices);
    choices.resize(choices.size() - prices.not_priced);
  }

  void add_bounds(ChoicePrices& prices) const {
    const SearchConstraints& fixed = options_.problem.constraints;
    PlacementSearchOptions unfixed = options_;
    release(unfixed.problem.constraints);
    prices.is_fixed = fixed.ops.size() != unfixed.problem.constraints.ops.size() ||
                      fixed.canonical_placements.size() !=
                          unfixed.problem.constraints.canonical_placements.size();
    if (const auto result = solved(options_)) prices.best = result->time;
    if (prices.is_fixed)
      if (const auto result = solved(unfixed)) prices.unfixed = result->time;
    PlacementSearchOptions large = options_;
    large.memory_limit.reset();
    if (const auto result = solved(large)) {
      prices.with_any_memory = result->time;
      prices.with_any_memory_text = text_in(open_.graph, result->sharded, target_);
    }
  }

  /// Removes what is fixed of the target and of those that are like it.
  void release(SearchConstraints& constraints) const {
    for (int member : members_) {
      if (!target_.op) {
        constraints.canonical_placements.erase(member);
        continue;
      }
      constraints.ops.erase(member);
      for (ValueId output : open_.graph.op(OpId{member}).outputs)
        constraints.canonical_placements.erase(output.index);
    }
  }

  void fix(SearchConstraints& constraints, const Choice& choice) const {
    release(constraints);
    for (int member : members_) {
      if (target_.op)
        constraints.ops[member] = choice.sharding;
      else
        constraints.canonical_placements[member] = {choice.canonical_placement};
    }
  }

  const PlacedGraph decided_;  // of the plan
  const MeshPtr mesh_;
  PlacedGraph open_;  // what is searched
  PlacementSearchOptions options_;
  CostModel cost_;
  Target target_;
  std::vector<int> members_;  // ops or values that are placed alike
};

}  // namespace

std::optional<ChoicePrices> choice_prices(const PlanRequest& request,
                                          const PlanConstraints& constraints, const Plan& plan,
                                          const std::string& name) {
  if (plan.meshes.size() != 1 || plan.micro_batches > 1) return std::nullopt;
  return ChoicePricing(request, constraints, plan).prices(name);
}

std::string choice_text(const PlacedGraph& placed, const std::string& name) {
  const std::optional<Target> target = find_target(placed.graph, name);
  return target ? text_in(placed.graph, placed.sharded, *target) : "";
}

}  // namespace tessera
