#include "ir/autodiff/internal/trained_parameter.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/text/text.h"

namespace tessera {
namespace {

void check_numbers(const ParameterGroup& group) {
  const double decay = group.weight_decay.value_or(0);
  if (group.rate >= 0 && std::isfinite(group.rate) && decay >= 0 && std::isfinite(decay)) return;
  throw UserError("the parameter group '" + group.pattern + "' has a rate of " +
                      std::to_string(group.rate) + " and a weight decay of " +
                      std::to_string(decay),
                  "both are numbers of at least 0", "give 0 or more", ExitCode::kBadConfig);
}

/// Gives each parameter its group and its weight decay.
void assign_groups(std::vector<TrainedParameter>& parameters,
                   std::span<const ParameterGroup> groups, const OptimizerConfig& config) {
  for (TrainedParameter& parameter : parameters) {
    const auto group = std::ranges::find_if(groups, [&](const ParameterGroup& candidate) {
      return matches(candidate.pattern, parameter.name);
    });
    if (group != groups.end()) parameter.group = static_cast<size_t>(group - groups.begin());
    parameter.weight_decay = parameter.is_decayed ? config.weight_decay : 0;
    if (group != groups.end())
      parameter.weight_decay = group->weight_decay.value_or(parameter.weight_decay);
  }
}

/// Refuses a group that no parameter belongs to.
void check_groups(std::span<const ParameterGroup> groups,
                  const std::vector<TrainedParameter>& parameters) {
  for (size_t i = 0; i < groups.size(); ++i) {
    check_numbers(groups[i]);
    const auto is_in = [i](const TrainedParameter& parameter) { return parameter.group == i; };
    if (std::ranges::any_of(parameters, is_in)) continue;
    const auto matching = std::ranges::find_if(parameters, [&](const TrainedParameter& parameter) {
      return matches(groups[i].pattern, parameter.name);
    });
    throw UserError(
        "the parameter group '" + groups[i].pattern + "' has no parameter",
        matching == parameters.end()
            ? "no trainable variable has a name that matches; there is '" +
                  parameters.front().name + "'"
            : "an earlier group has all that match, such as '" + matching->name + "'",
        "correct the pattern, remove the group, or put it before the groups that match more",
        ExitCode::kBadConfig);
  }
}

/// The optimizer that updates each parameter.
void assign_kinds(std::vector<TrainedParameter>& parameters, const OptimizerConfig& config) {
  const auto is_excepted = [&](const TrainedParameter& parameter) {
    return !parameter.input_dims ||
           std::ranges::any_of(config.adam, [&](const std::string& pattern) {
             return matches(pattern, parameter.name);
           });
  };
  for (TrainedParameter& parameter : parameters) {
    const bool is_muon = config.kind == OptimizerKind::kMuon;
    parameter.kind = is_muon && is_excepted(parameter) ? OptimizerKind::kAdamW : config.kind;
  }
}

}  // namespace

std::vector<TrainedParameter> with_settings(const Graph& graph,
                                            std::span<const ParameterGradient> gradients,
                                            const OptimizerConfig& config,
                                            std::span<const ParameterGroup> groups) {
  std::vector<TrainedParameter> parameters;
  for (const ParameterGradient& given : gradients)
    parameters.push_back({given.parameter, given.gradient, graph.value(given.parameter).name,
                          given.is_decayed, given.input_dims});
  assign_groups(parameters, groups, config);
  assign_kinds(parameters, config);
  check_groups(groups, parameters);
  return parameters;
}

void check_patterns(const Graph& graph, const std::vector<std::string>& patterns,
                    const std::string& key) {
  std::vector<std::string> names;
  for (const Variable& variable : graph.variables())
    if (variable.trainable) names.push_back(graph.value(variable.value).name);
  for (const std::string& pattern : patterns) {
    if (std::ranges::any_of(names, [&](const auto& name) { return matches(pattern, name); }))
      continue;
    const std::string close = nearest(pattern, names);
    throw UserError(
        "the pattern '" + pattern + "' of " + key + " matches no parameter",
        "it names parameters of the model" +
            (names.empty() ? "" : ", such as '" + names.front() + "'"),
        close.empty() ? "correct the pattern, or remove it" : "did you mean '" + close + "'?",
        ExitCode::kBadConfig);
  }
}

}  // namespace tessera
