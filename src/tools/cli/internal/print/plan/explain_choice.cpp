#include "tools/cli/internal/print/plan/explain_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/text/count_text.h"
#include "base/text/text.h"
#include "simulator/step/step_text.h"
#include "tools/cli/internal/print/plan/plan_numbers.h"
#include "tools/cli/internal/print/text_table.h"

namespace tessera {
namespace {

/// Other placements that are printed.
constexpr size_t kPrintedOthers = 5;

std::string step_or(const std::optional<Seconds>& time, const char* otherwise) {
  return time ? step_text(*time) : otherwise;
}

/// The first match: an op of the forward, an input or a variable, then any op.
std::string first_match(const Graph& graph, const std::string& pattern) {
  const auto matches_op = [&](const Op& op) {
    return matches(pattern, op.name) || std::ranges::any_of(op.outputs, [&](ValueId value) {
             return matches(pattern, graph.value(value).name);
           });
  };
  for (const Op& op : graph.ops())
    if (op.role == Role::kForward && matches_op(op)) return op.name;
  for (const Value& value : graph.values())
    if (value.producer.index < 0 && matches(pattern, value.name)) return value.name;
  for (const Op& op : graph.ops())
    if (matches_op(op)) return op.name;
  throw UserError(
      "'" + pattern + "' names no value and no op of the program of the plan",
      "a pass over the serial graph may have replaced it",
      "use a name of `tessera explain CONFIG --passes`, or a pattern such as 'blocks.*.attn.q'",
      ExitCode::kUsage);
}

std::string price_rows(const ChoicePrices& prices) {
  TextTable table({"placement", "its kernel", "step of the problem", ""}, "lrrl");
  const auto add = [&](const PricedChoice& choice, const std::string& what) {
    table.add({choice.text, step_text(choice.kernel), step_or(choice.time, "does not fit"), what});
  };
  add(prices.chosen, "the plan");
  const size_t printed = std::min(kPrintedOthers, prices.others.size());
  for (size_t i = 0; i < printed; ++i) {
    const PricedChoice& other = prices.others[i];
    add(other, other.time && prices.chosen.time
                   ? step_difference_text(*other.time - *prices.chosen.time)
                   : "");
  }
  const int64_t more =
      std::ssize(prices.others) - static_cast<int64_t>(printed) + prices.not_priced;
  return table.text() + (more > 0 ? "  " + counted(more, "other placement") + " more\n" : "");
}

std::string binding_text(const ChoicePrices& prices) {
  std::string text;
  if (prices.is_fixed)
    text += "bound by a mark or a fixed degree: without it " +
            step_or(prices.unfixed, "nothing fits") + " instead of " + step_text(prices.best) +
            "\n";
  if (prices.memory_binds())
    text += "bound by the memory: with any memory " + step_text(prices.with_any_memory) +
            " instead of " + step_text(prices.best) + ", and " +
            (prices.with_any_memory_text == prices.chosen.text
                 ? "this placement"
                 : "the placement " + prices.with_any_memory_text) +
            "\n";
  return text.empty() ? "bound by nothing but time: no mark, no degree and no memory\n" : text;
}

std::string changes_text(const ExplainedChoice& choice) {
  TextTable table({"change", "step of this plan", "best step", "plan", "placement"}, "lrrll");
  for (const Sensitivity& each : choice.changes) {
    table.add({each.change, step_or(each.kept, "does not fit"), step_or(each.best, "nothing fits"),
               !each.best          ? ""
               : each.plan.empty() ? "the same"
                                   : each.plan,
               each.placement == choice.placement ? "the same" : each.placement});
  }
  return table.text();
}

Document choice_document(const PricedChoice& choice) {
  Document document;
  document["placement"] = choice.text;
  document["kernel_seconds"] = choice.kernel.value();
  document["problem_seconds"] = seconds_or_null(choice.time);
  return document;
}

}  // namespace

ExplainedChoice explained_choice(const Planned& planned, const Plan& plan,
                                 const std::string& pattern) {
  const PlacedGraph placed = placements(*planned.graph, plan);
  const std::string name = first_match(placed.graph, pattern);
  return {name, choice_text(placed, name),
          choice_prices(planned.request(), planned.constraints, plan, name),
          sensitivities(planned, plan, name)};
}

std::string choice_text(const ExplainedChoice& choice) {
  std::string text = "\nThe price of the placement of " + choice.name;
  if (choice.prices) {
    if (choice.prices->identical > 1)
      text += fmt::format(", with {} identical", choice.prices->identical - 1);
    text += "\n" + price_rows(*choice.prices) + binding_text(*choice.prices) +
            "The step of the problem has kernels and exchanges one after the other, with the best "
            "placements of everything else.\n";
  } else {
    text += "\n  it has none: plans with stages or micro-batches are not searched\n";
  }
  return text + "\nWhen the devices or the batch change\n" + changes_text(choice);
}

Document choice_document(const ExplainedChoice& choice) {
  Document document;
  document["name"] = choice.name;
  document["placement"] = choice.placement;
  if (choice.prices) {
    const ChoicePrices& prices = *choice.prices;
    document["identical"] = prices.identical;
    document["like"] = prices.identical;  // its former name
    document["chosen"] = choice_document(prices.chosen);
    document["others"] = Document::List{};
    for (const PricedChoice& other : prices.others)
      document["others"].append(choice_document(other));
    document["not_priced"] = prices.not_priced;
    document["is_fixed"] = prices.is_fixed;
    document["best_seconds"] = prices.best.value();
    document["unfixed_seconds"] = seconds_or_null(prices.unfixed);
    document["memory_binds"] = prices.memory_binds();
    document["any_memory_seconds"] = prices.with_any_memory.value();
    document["any_memory_placement"] = prices.with_any_memory_text;
  }
  document["changes"] = sensitivity_document(choice.changes);
  return document;
}

std::string sensitivity_text(const std::vector<Sensitivity>& changes) {
  TextTable table({"change", "step of this plan", "best step", "memory", "plan"}, "lrrrl");
  for (const Sensitivity& each : changes)
    table.add({each.change, step_or(each.kept, "does not run"), step_or(each.best, "no plan"),
               each.memory ? to_text(*each.memory) : "",
               each.best && each.plan.empty() ? "the same" : each.plan});
  return "\nWhen the devices or the precision change\n" + table.text();
}

Document sensitivity_document(const std::vector<Sensitivity>& changes) {
  Document list{Document::List()};
  for (const Sensitivity& each : changes) {
    Document item;
    item["change"] = each.change;
    item["kept_seconds"] = seconds_or_null(each.kept);
    item["best_seconds"] = seconds_or_null(each.best);
    item["best_peak_bytes"] = each.memory ? Document(each.memory->value()) : Document();
    item["plan"] = each.plan;
    item["placement"] = each.placement;
    list.append(std::move(item));
  }
  return list;
}

}  // namespace tessera
