#include "tools/cli/internal/print/plan/explain_name.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <unordered_map>

#include "base/text/text.h"
#include "tools/cli/internal/print/text_table.h"

namespace tessera {
namespace {

constexpr std::ptrdiff_t kNearestNames = 3;

/// An op with its results, or an input or a variable.
struct Match {
  std::string name;
  OpId op;        // invalid for inputs and variables
  ValueId value;  // of inputs and variables
};

[[noreturn]] void refuse_unknown(const Graph& serial, const std::string& name) {
  if (serial.find_value(name) || serial.find_op(name))
    throw UserError("'" + name + "' is not computed",
                    "no result of the program needs it, so a pass over the serial graph dropped it",
                    "see what passes change with --passes", ExitCode::kUsage);
  std::vector<std::pair<int, std::string>> ranked;
  for (const Value& value : serial.values())
    ranked.emplace_back(edit_distance(name, value.name), value.name);
  const std::ptrdiff_t kept = std::min(kNearestNames, std::ssize(ranked));
  std::partial_sort(ranked.begin(), ranked.begin() + kept, ranked.end());
  std::vector<std::string> names;
  for (std::ptrdiff_t i = 0; i < kept; ++i) names.push_back("'" + ranked[i].second + "'");
  throw UserError("'" + name + "' names no value and no op of this model",
                  "the nearest names are " + join(names, ", "),
                  "use one of these, or a pattern such as 'blocks.*.attn.*'", ExitCode::kUsage);
}

/// By name of a value that matches and that a pass has replaced, the value that holds the same.
std::vector<std::pair<std::string, std::string>> find_replaced(const Compiled& compiled,
                                                               const std::string& pattern) {
  std::vector<std::pair<std::string, std::string>> list;
  for (const auto& [name, by] : compiled.replaced)
    if (matches(pattern, name)) list.emplace_back(name, by);
  return list;
}

std::vector<Match> find_matches(const Graph& graph, const std::string& pattern) {
  std::vector<Match> list;
  for (int i = 0; i < static_cast<int>(graph.values().size()); ++i)
    if (graph.value({i}).producer.index < 0 && matches(pattern, graph.value({i}).name))
      list.push_back({graph.value({i}).name, {}, {i}});
  for (int i = 0; i < static_cast<int>(graph.ops().size()); ++i) {
    const Op& op = graph.op({i});
    const bool fits = matches(pattern, op.name) ||
                      std::any_of(op.outputs.begin(), op.outputs.end(), [&](ValueId value) {
                        return matches(pattern, graph.value(value).name);
                      });
    if (fits) list.push_back({op.name, {i}, {}});
  }
  return list;
}

std::vector<std::string> values_made(const Graph& graph, const Match& match) {
  if (match.op.index < 0) return {match.name};
  std::vector<std::string> names;
  for (ValueId value : graph.op(match.op).outputs) names.push_back(graph.value(value).name);
  return names;
}

/// The exchanges of a step, of which several names may ask.
class Communications {
 public:
  explicit Communications(const Compiled& compiled)
      : graph_(compiled.graph), all_(communications_of(compiled.tasks)) {
    for (const Task& task : compiled.tasks.tasks)
      for (const KernelStep& step : task.steps)
        if (step.purpose == KernelPurpose::kOp)
          reads_[step.op.text()].insert(step.inputs.begin(), step.inputs.end());
  }

  /// Those of what `match` makes, and those that bring the inputs of an op to where it reads them.
  std::vector<CommunicationFacts> at(const Match& match) const {
    const std::vector<std::string> made = values_made(graph_, match);
    const auto reads = match.op.index < 0 ? reads_.end() : reads_.find(match.name);
    std::vector<CommunicationFacts> list;
    std::ranges::copy_if(all_, std::back_inserter(list), [&](const CommunicationFacts& facts) {
      return std::ranges::count(made, facts.value) > 0 ||
             (reads != reads_.end() && reads->second.contains(facts.received));
    });
    return list;
  }

 private:
  const Graph& graph_;
  std::vector<CommunicationFacts> all_;
  std::unordered_map<std::string, std::set<RegisterIndex>> reads_;  // by op, of all micro-batches
};

std::string users_text(const Graph& graph, ValueId value) {
  std::vector<std::string> users;
  for (OpId user : graph.value(value).users)
    if (users.empty() || users.back() != graph.op(user).name) users.push_back(graph.op(user).name);
  return users.empty() ? "nothing" : join(users, ", ");
}

std::string source_text(const Graph& graph, const Match& match, const ShardedGraph& sharded) {
  const ValueFacts facts = facts_of(graph, sharded, match.value);
  const Variable* variable = graph.variable_of(match.value);
  std::string text = fmt::format("{} {}: {}", variable ? "variable" : "input", match.name,
                                 to_text(graph.type(match.value)));
  if (variable) text += " = " + to_text(variable->initializer);
  const std::string rank = fmt::format("at rank {}", facts.rank);
  text += fmt::format("\n  placement  {}\n  {:<9}  {}, {}\n  why        {}\n  read by    {}\n",
                      facts.placement, rank, facts.local, to_text(facts.bytes_at_rank),
                      reason_text(facts), users_text(graph, match.value));
  return text;
}

std::string op_text(const OpFacts& facts) {
  const auto rank_of = [](const OperandFacts& operand) { return operand.value.rank; };
  const bool is_one_rank = !facts.operands.empty() &&
                           std::ranges::all_of(facts.operands, [&](const OperandFacts& operand) {
                             return rank_of(operand) == rank_of(facts.operands.front());
                           });
  const std::string header =
      is_one_rank ? fmt::format("at rank {}", rank_of(facts.operands.front())) : "part of a rank";
  TextTable table({"operand", "value", "placement", header, "the op uses it as", "reshard", "why"},
                  "lllllll");
  for (const OperandFacts& operand : facts.operands)
    table.add({operand.role, operand.value.name, operand.value.placement,
               is_one_rank ? operand.value.local
                           : fmt::format("{} at rank {}", operand.value.local, rank_of(operand)),
               operand.wanted, operand.reshard.empty() ? "-" : operand.reshard,
               reason_text(operand.value)});
  return facts.text + (facts.text.ends_with("\n") ? "" : "\n") +
         (facts.stage.empty() ? "" : "  on " + facts.stage + "\n") + table.text();
}

std::string exchanges_text(const std::vector<CommunicationFacts>& list) {
  if (list.empty()) return "  no communication\n";
  std::string text;
  for (const CommunicationFacts& facts : list)
    text += fmt::format("  {} of '{}', because {}\n    from {} to {}: a rank receives {}\n",
                        kind_text(facts), facts.value, facts.reason, facts.from, facts.to,
                        to_text(facts.bytes));
  return text;
}

Document op_document(const OpFacts& facts) {
  Document document;
  document["op"] = std::string(trim(facts.text));
  document["operands"] = Document::List{};
  for (const OperandFacts& operand : facts.operands) {
    Document item = to_document(operand.value);
    item["role"] = operand.role;
    item["used_as"] = operand.wanted;
    item["used_local"] = operand.wanted_local;
    item["reshard"] = operand.reshard;
    document["operands"].append(std::move(item));
  }
  return document;
}

}  // namespace

void check_is_named(const Graph& serial, const std::string& name) {
  if (find_matches(serial, name).empty()) refuse_unknown(serial, name);
}

std::string explain_name_text(const Graph& serial, const Compiled& compiled,
                              const std::string& name) {
  const Graph& graph = compiled.graph;
  const Communications communications(compiled);
  const std::vector<Match> found = find_matches(graph, name);
  const auto replaced = find_replaced(compiled, name);
  if (found.empty() && replaced.empty()) refuse_unknown(serial, name);
  std::string text;
  for (const Match& match : found) {
    text += text.empty() ? "" : "\n";
    text += match.op.index < 0 ? source_text(graph, match, compiled.sharded)
                               : op_text(facts_of(graph, compiled.sharded, match.op));
    text += exchanges_text(communications.at(match));
  }
  for (const auto& [old, by] : replaced)
    text += fmt::format("{}{} is {}: a pass over the serial graph replaced it\n",
                        text.empty() ? "" : "\n", old, by);
  return text;
}

Document explain_name_document(const Graph& serial, const Compiled& compiled,
                               const std::string& name) {
  const Graph& graph = compiled.graph;
  const Communications communications(compiled);
  const std::vector<Match> found = find_matches(graph, name);
  const auto replaced = find_replaced(compiled, name);
  if (found.empty() && replaced.empty()) refuse_unknown(serial, name);
  Document document;
  document["matches"] = Document::List{};
  for (const Match& match : found) {
    Document item = match.op.index < 0 ? to_document(facts_of(graph, compiled.sharded, match.value))
                                       : op_document(facts_of(graph, compiled.sharded, match.op));
    item["name"] = match.name;
    item["communications"] = Document::List{};
    for (const CommunicationFacts& facts : communications.at(match))
      item["communications"].append(to_document(facts));
    document["matches"].append(std::move(item));
  }
  for (const auto& [old, by] : replaced) document["replaced"][old] = by;
  return document;
}

Document to_document(const ValueFacts& facts) {
  Document document;
  document["name"] = facts.name;
  document["placement"] = facts.placement;
  document["local"] = facts.local;
  document["bytes"] = facts.bytes.value();
  document["reason"] = facts.reason;
  return document;
}

Document to_document(const CommunicationFacts& facts) {
  Document document;
  document["exchange"] = facts.exchange;
  document["role"] = std::string(to_text(facts.role));
  document["kind"] = facts.kind;
  document["value"] = facts.value;
  document["axes"] = facts.axes;
  document["from"] = facts.from;
  document["to"] = facts.to;
  document["bytes"] = facts.bytes.value();
  document["least_bytes"] = facts.smallest.value();
  document["reason"] = facts.reason;
  return document;
}

}  // namespace tessera
