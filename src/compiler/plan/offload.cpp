#include "compiler/plan/offload.h"

#include <algorithm>

#include "base/error.h"
#include "base/text/text.h"

namespace tessera {
namespace {

constexpr const char* kKey = "offload";

std::set<std::string> optimizer_state(const Graph& graph) {
  std::set<std::string> names;
  for (const Variable& variable : graph.variables())
    if (!variable.trainable && variable.origin.derivation == "optimizer")
      names.insert(graph.value(variable.value).name);
  return names;
}

}  // namespace

std::set<std::string> offloaded_variables(const Graph& graph, const Offload& offload) {
  std::set<std::string> chosen;
  if (offload.kind == Offload::Kind::kNone) return chosen;
  for (const std::string& name : optimizer_state(graph))
    if (offload.kind == Offload::Kind::kState ||
        std::ranges::any_of(offload.patterns,
                            [&](const std::string& pattern) { return matches(pattern, name); }))
      chosen.insert(name);
  return chosen;
}

Offload read_offload(ConfigTable& table) {
  const Document* value = table.raw(kKey, {.type = "text or list of texts",
                                           .fallback = "\"none\"",
                                           .range = "`none`, `state` or patterns"});
  if (!value || *value == Document(std::string("none"))) return {};
  if (*value == Document(std::string("state"))) return {Offload::Kind::kState, {}};
  Offload offload{Offload::Kind::kPatterns, {}};
  if (value->is_list())
    for (const Document& item : value->as_list())
      if (item.is_string()) offload.patterns.push_back(item.as_string());
  if (offload.patterns.empty() || offload.patterns.size() != value->as_list().size())
    refuse_config(
        table.file() + ": offload is " + to_json(*value),
        "it says which state of the optimizer rests in a file: none, all of it, or the variables "
        "that match a pattern",
        "write \"none\", \"state\" or a list of patterns such as [\"*.exp_avg_sq\"]");
  return offload;
}

void write_offload(const Offload& offload, Document& document) {
  if (offload.kind == Offload::Kind::kState) document[kKey] = std::string("state");
  for (const std::string& pattern : offload.patterns) document[kKey].append(pattern);
}

void check_offload(const Offload& offload, const std::string& plan, const Graph& graph) {
  if (offload.kind == Offload::Kind::kNone) return;
  const std::set<std::string> state = optimizer_state(graph);
  if (state.empty())
    refuse_config("plan '" + plan + "' offloads the state of the optimizer, and there is none",
                  "the optimizer of this run keeps nothing from step to step",
                  "remove offload from the plan, or use momentum, adam, adamw, lamb or muon");
  for (const std::string& pattern : offload.patterns)
    if (std::ranges::none_of(state,
                             [&](const std::string& name) { return matches(pattern, name); })) {
      const std::string close = nearest(pattern, state);
      refuse_config(
          "the pattern '" + pattern + "' of 'offload' in plan '" + plan +
              "' names no state of the optimizer",
          "only variables of the optimizer rest in a file, such as '" + *state.begin() + "'",
          close.empty() ? "list the names with `tessera explain --full`"
                        : "did you mean '" + close + "'?");
    }
}

}  // namespace tessera
