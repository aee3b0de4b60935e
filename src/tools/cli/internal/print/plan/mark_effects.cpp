#include "tools/cli/internal/print/plan/mark_effects.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/text/count_text.h"
#include "tools/cli/internal/print/text_table.h"

namespace tessera {
namespace {

/// "+2.1 MiB"; "" for no change.
std::string change_text(Bytes from, Bytes to) {
  if (from == to) return "";
  return to > from ? " (+" + to_text(to - from) + ")" : " (-" + to_text(from - to) + ")";
}

std::string sentence(const PlanNumbers& numbers, const std::vector<MarkEffect>& effects) {
  const auto causes = [&](const MarkEffect& effect) {
    return effect.refused.empty() ? numbers.all_sent.bytes - effect.sent : Bytes(0);
  };
  const auto most = std::ranges::max_element(effects, {}, causes);
  if (causes(*most) <= Bytes(0)) return "";
  return fmt::format("mark {} causes {} of the {} that a rank receives in a step\n",
                     most->index + 1, to_text(causes(*most)), to_text(numbers.all_sent.bytes));
}

}  // namespace

std::vector<MarkEffect> mark_effects(const Graph& graph, const Plan& plan) {
  std::vector<MarkEffect> effects;
  for (size_t i = 0; i < std::min(plan.marks.size(), kMaxTriedMarks); ++i) {
    const Mark& mark = plan.marks[i];
    MarkEffect effect{
        .index = i,
        .mark = fmt::format("{} '{}' {}", to_text(mark.kind), mark.pattern, mark.placement)};
    Plan without = plan;
    without.marks.erase(without.marks.begin() + static_cast<std::ptrdiff_t>(i));
    try {
      const PlanNumbers numbers = numbers_of(compile(graph, without), "");
      effect.sent = numbers.all_sent.bytes;
      effect.memory = numbers.largest_memory().all();
      effect.notes = std::ssize(numbers.notes);
    } catch (const UserError& error) {
      effect.refused = error.what_happened();
    }
    effects.push_back(std::move(effect));
  }
  return effects;
}

std::string mark_effects_text(const PlanNumbers& numbers, const std::vector<MarkEffect>& effects,
                              size_t marks) {
  if (effects.empty()) return "\nMarks: the plan has none\n";
  TextTable table({"mark", "places", "a rank receives", "memory", "notes"}, "rllll");
  table.add({"all", "", to_text(numbers.all_sent.bytes), to_text(numbers.largest_memory().all()),
             std::to_string(numbers.notes.size())});
  const Bytes memory = numbers.largest_memory().all();
  for (const MarkEffect& effect : effects) {
    const std::string number = std::to_string(effect.index + 1);
    if (!effect.refused.empty())
      table.add({number, effect.mark, "impossible: " + effect.refused, "", ""});
    else
      table.add({number, effect.mark,
                 to_text(effect.sent) + change_text(numbers.all_sent.bytes, effect.sent),
                 to_text(effect.memory) + change_text(memory, effect.memory),
                 std::to_string(effect.notes)});
  }
  std::string text = "\nMarks: the numbers of the plan without each of them\n" + table.text();
  if (const auto left = static_cast<int64_t>(marks - effects.size()); left > 0)
    text += counted(left, "further mark") + (left == 1 ? " was" : " were") + " not tried\n";
  return text + sentence(numbers, effects);
}

Document mark_effects_document(const std::vector<MarkEffect>& effects) {
  Document::List list;
  for (const MarkEffect& effect : effects) {
    Document item;
    item["mark"] = static_cast<int64_t>(effect.index + 1);
    item["places"] = effect.mark;
    if (effect.refused.empty()) {
      item["bytes_without"] = effect.sent.value();
      item["memory_without"] = effect.memory.value();
      item["notes_without"] = effect.notes;
    } else {
      item["refused"] = effect.refused;
    }
    list.push_back(std::move(item));
  }
  return list;
}

}  // namespace tessera
