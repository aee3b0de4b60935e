#include "compiler/plan/internal/fingerprint.h"

#include <fmt/format.h>

#include <utility>

#include "base/text/text.h"
#include "sharding/explicit/name_patterns.h"

namespace tessera {
namespace {

std::string hash_of(const Graph& graph) {
  return fmt::format("{:016x}", fingerprint(graph));
}

std::map<std::string, std::string> parameters_of(const Graph& graph) {
  std::map<std::string, std::string> parameters;
  for (const Variable& variable : graph.variables())
    if (variable.trainable)
      parameters[graph.value(variable.value).name] = to_text(graph.type(variable.value));
  return parameters;
}

/// Their types by name; names of one type share patterns.
Document parameters_by_pattern(const std::map<std::string, std::string>& types) {
  std::map<std::string, std::vector<std::string>> by_type;
  for (const auto& [name, type] : types) by_type[type].push_back(name);
  Document::Table parameters;
  for (const auto& [type, names] : by_type)
    for (std::string& pattern : to_patterns(names)) parameters.emplace_back(pattern, type);
  return parameters;
}

}  // namespace

PlanFingerprint fingerprint_of(const Graph& graph,
                               const std::optional<RewrittenFingerprint>& rewritten) {
  return {hash_of(graph), std::string(version()), parameters_of(graph), rewritten};
}

RewrittenFingerprint rewritten_fingerprint(const Graph& graph, std::vector<std::string> passes) {
  return {hash_of(graph), std::move(passes)};
}

PlanFingerprint read_fingerprint(ConfigTable table) {
  PlanFingerprint fingerprint;
  fingerprint.graph = table.text("graph", "");
  fingerprint.version = table.text("version", "");
  if (table.raw("rewritten")) {
    ConfigTable rewritten = table.table("rewritten");
    fingerprint.rewritten = {rewritten.text("graph", ""), rewritten.texts("passes", {})};
    rewritten.finish();
  }
  if (const Document* parameters = table.raw("parameters"))
    for (const auto& [names, type] : parameters->as_table())
      for (const std::string& name : names_of_pattern(names))
        fingerprint.parameters[name] = type.is_string() ? type.as_string() : to_json(type);
  table.finish();
  return fingerprint;
}

Document to_document(const PlanFingerprint& fingerprint) {
  Document stamp;
  stamp["graph"] = fingerprint.graph;
  stamp["version"] = fingerprint.version;
  if (fingerprint.rewritten) {
    stamp["rewritten"]["graph"] = fingerprint.rewritten->graph;
    stamp["rewritten"]["passes"] = Document::List{};
    for (const std::string& pass : fingerprint.rewritten->passes)
      stamp["rewritten"]["passes"].append(pass);
  }
  stamp["parameters"] = parameters_by_pattern(fingerprint.parameters);
  return stamp;
}

std::string difference(const PlanFingerprint& planned_for, const PlanFingerprint& found_in) {
  const auto& planned = planned_for.parameters;
  const auto& present = found_in.parameters;
  std::vector<std::string> lines;
  for (const auto& [name, type] : planned)
    if (const auto found = present.find(name); found == present.end() || found->second != type)
      lines.push_back("- " + name + " " + type);
  for (const auto& [name, type] : present)
    if (const auto found = planned.find(name); found == planned.end() || found->second != type)
      lines.push_back("+ " + name + " " + type);
  if (lines.empty()) return "the parameters are the same; the ops, the batch or the seed differ";
  const size_t all = lines.size();
  if (all > 8) lines.resize(8);
  return "parameters of the plan (-) and of the model (+):\n    " + join(lines, "\n    ") +
         (all > 8 ? "\n    and " + std::to_string(all - 8) + " more" : "");
}

std::string_view version() {
  return "0.1.0";
}

}  // namespace tessera
