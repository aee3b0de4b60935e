#include "compiler/plan/internal/op_choices.h"

#include <optional>
#include <span>

#include "base/error.h"
#include "base/text/text.h"
#include "base/units.h"
#include "sharding/propagation/named.h"

namespace tessera {
namespace {

// In the order of the kinds, without patterns, which are the last kind.
constexpr std::string_view kTaskWords[] = {"role", "layer", "op"};
constexpr std::string_view kRecomputeWords[] = {"none", "selective", "full", "auto"};
constexpr const char* kLimitKey = "activation_mib";

/// A key that takes words, or patterns of ops.
struct Key {
  std::string name;
  std::span<const std::string_view> words;  // in the order of the kinds
  std::string range;
  std::string why, fix;  // of the error for another value
};

const Key& tasks_key() {
  static const Key key{
      "tasks", kTaskWords, "`role`, `layer`, `op` or patterns",
      "it says where tasks end: where the role changes, where a layer ends, after each op, or "
      "where ops stop to match a pattern",
      "write \"role\", \"layer\", \"op\" or a list of patterns such as [\"*.attn.*\"]"};
  return key;
}

const Key& recompute_key() {
  static const Key key{
      "recompute", kRecomputeWords, "`none`, `selective`, `full`, `auto` or patterns",
      "it says which results of the forward are computed again in the backward: none, cheap ones, "
      "those inside of layers, the cheapest under activation_mib, or those of the ops that match a "
      "pattern",
      "write \"none\", \"selective\", \"full\", \"auto\" or a list of patterns such as "
      "[\"*.ffn.*\"]"};
  return key;
}

/// Choice has a kind, whose last value except for the words is kPatterns, and patterns.
template <class Choice>
Choice read_choice(ConfigTable& table, const Key& key) {
  Choice choice;
  const Document* value =
      table.raw(key.name, {.type = "text or list of texts",
                           .fallback = "\"" + std::string(key.words.front()) + "\"",
                           .range = key.range});
  if (!value) return choice;
  if (value->is_list()) {
    choice.kind = Choice::Kind::kPatterns;
    for (const Document& item : value->as_list())
      if (item.is_string()) choice.patterns.push_back(item.as_string());
    if (!choice.patterns.empty() && choice.patterns.size() == value->as_list().size())
      return choice;
  }
  for (size_t i = 0; i < key.words.size(); ++i) {
    if (!(*value == Document(std::string(key.words[i])))) continue;
    choice.kind = static_cast<typename Choice::Kind>(i);
    return choice;
  }
  refuse_config(table.file() + ": " + key.name + " is " + to_json(*value), key.why, key.fix);
}

template <class Choice>
void write_choice(const Choice& choice, const Key& key, Document& document) {
  if (choice == Choice{}) return;
  if (choice.kind != Choice::Kind::kPatterns) {
    document[key.name] = std::string(key.words[static_cast<size_t>(choice.kind)]);
    return;
  }
  for (const std::string& pattern : choice.patterns) document[key.name].append(pattern);
}

}  // namespace

TaskGranularity read_tasks(ConfigTable& table) {
  return read_choice<TaskGranularity>(table, tasks_key());
}

Recompute read_recompute(ConfigTable& table) {
  Recompute choice = read_choice<Recompute>(table, recompute_key());
  const bool is_auto = choice.kind == Recompute::Kind::kAuto;
  const double mib = table.number(kLimitKey, 0, 0, kMib);
  if (is_auto && mib == 0)
    refuse_config(
        table.file() + ": recompute is \"auto\" and there is no activation_mib",
        "auto chooses what costs least under a limit of the activations that a rank keeps",
        "set activation_mib, such as to 512");
  if (!is_auto && mib != 0)
    refuse_config(table.file() + " has activation_mib and recompute is not \"auto\"",
                  "activation_mib limits what \"auto\" keeps; the other values of recompute say it",
                  "write recompute = \"auto\", or remove activation_mib");
  choice.limit = Bytes(static_cast<int64_t>(mib * kMib));
  return choice;
}

void write_tasks(const TaskGranularity& tasks, Document& document) {
  write_choice(tasks, tasks_key(), document);
}

void write_recompute(const Recompute& recompute, Document& document) {
  write_choice(recompute, recompute_key(), document);
  if (recompute.kind != Recompute::Kind::kAuto) return;
  const int64_t bytes = recompute.limit.value();
  document[kLimitKey] =
      bytes % (1 << 20) == 0 ? Document(bytes >> 20) : Document(static_cast<double>(bytes) / kMib);
}

void check_patterns(std::string_view key, const std::vector<std::string>& patterns,
                    const std::string& plan, const Graph& graph) {
  // Only what the forward makes can be computed again in the backward.
  const auto may_be_meant = [&](const Op& op) {
    return key != recompute_key().name || op.role == Role::kForward;
  };
  for (const std::string& pattern : patterns) {
    if (std::ranges::any_of(ops_named(graph, pattern),
                            [&](OpId op) { return may_be_meant(graph.op(op)); }))
      continue;
    std::vector<std::string> names;
    for (const Op& op : graph.ops())
      if (may_be_meant(op)) names.push_back(op.name);
    const std::string close = nearest(pattern, names);
    refuse_config("the pattern '" + pattern + "' of '" + std::string(key) + "' in plan '" + plan +
                      "' names no " + (key == recompute_key().name ? "forward op" : "op") +
                      " of this model",
                  key == "tasks" ? "tasks end where ops stop to match it"
                                 : "the results of the ops that it names are computed again",
                  close.empty() ? "list the names with `tessera explain --full`"
                                : "did you mean '" + close + "'?");
  }
}

}  // namespace tessera
