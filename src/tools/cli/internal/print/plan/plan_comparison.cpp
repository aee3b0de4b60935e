#include "tools/cli/internal/print/plan/plan_comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>

#include "base/text/count_text.h"
#include "tools/cli/internal/print/plan/summary.h"
#include "tools/cli/internal/print/text_table.h"

namespace tessera {
namespace {

constexpr const char* kNone = "none";

/// A number of both plans.
struct NumberPair {
  int64_t plan = 0;
  int64_t other = 0;

  int64_t difference() const { return other - plan; }
};

/// The lists of both plans by kind and name, in the order in which these appear.
class Differences {
 public:
  void add(const std::string& kind, const std::string& name, const std::string& text, Bytes bytes,
           bool is_other) {
    const auto [at, is_new] = place_.try_emplace(kind + "\1" + name, list_.size());
    if (is_new) list_.push_back({kind, name, kNone, kNone});
    PlanDifference& made = list_[at->second];
    std::string& side = is_other ? made.other_text : made.text;
    if (side == kNone)
      side = text;
    else if (side != text)
      side += " + " + text;
    (is_other ? made.other_bytes : made.bytes) += bytes;
  }

  /// Those that differ, with repeated layers as one, the greatest difference first.
  std::vector<PlanDifference> take(const RepeatedRows& repeated) {
    std::erase_if(list_, [](const PlanDifference& one) {
      return one.text == one.other_text && one.bytes == one.other_bytes;
    });
    std::vector<TableRow> rows;
    for (const PlanDifference& one : list_)
      rows.push_back({one.kind, one.name, one.text, one.other_text});
    std::vector<PlanDifference> result;
    for (const JoinedRow& group : repeated.groups(rows)) {
      const TableRow& row = group.row;
      PlanDifference& made = result.emplace_back(
          PlanDifference{row[0], row[1] + count_suffix(std::ssize(group.members)), row[2], row[3]});
      for (size_t member : group.members) {
        made.bytes += list_[member].bytes;
        made.other_bytes += list_[member].other_bytes;
      }
    }
    std::ranges::stable_sort(result, std::ranges::greater{}, [](const PlanDifference& one) {
      return std::abs(one.difference().value());
    });
    return result;
  }

 private:
  std::vector<PlanDifference> list_;
  std::map<std::string, size_t> place_;
};

void add_tensors(const PlanNumbers& numbers, bool is_other, Differences& differences) {
  for (const NamedBytes& item : numbers.parameters)
    differences.add("parameter", item.name, item.detail, item.bytes, is_other);
  for (const NamedBytes& item : numbers.activations) {
    // The name of a copy has its placement after a space.
    const std::string value = item.name.substr(0, item.name.find(' '));
    differences.add("arena", value, "", item.bytes, is_other);
  }
}

void add_exchanges(const PlanNumbers& numbers, bool is_other, Differences& differences) {
  for (const NamedBytes& item : numbers.exchanges)
    differences.add(item.role, item.name, item.detail + count_suffix(item.count), item.bytes,
                    is_other);
}

struct ComparedMemory {
  const char* name;
  const char* key;
  Bytes (*bytes)(const MeshMemory& memory);
};
constexpr ComparedMemory kComparedMemory[] = {
    {"parameters", "parameter_bytes", [](const MeshMemory& memory) { return memory.parameters; }},
    {"optimizer state", "optimizer_bytes", [](const MeshMemory& memory) { return memory.state; }},
    {"activations", "activation_bytes",
     [](const MeshMemory& memory) { return memory.activations; }},
    {"all", "bytes", [](const MeshMemory& memory) { return memory.all(); }},
};

NumberPair memory_pair(const ComparedMemory& kind, const PlanNumbers& plan,
                       const PlanNumbers& other) {
  return {kind.bytes(plan.largest_memory()).value(), kind.bytes(other.largest_memory()).value()};
}

/// What both plans send over the same axes.
struct TrafficPair {
  AxisTraffic plan;
  AxisTraffic other;
};

std::vector<TrafficPair> traffic_pairs(const PlanNumbers& plan, const PlanNumbers& other) {
  std::vector<TrafficPair> list;
  for (const AxisTraffic& traffic : plan.sent) list.push_back({traffic, {traffic.axes}});
  for (const AxisTraffic& traffic : other.sent) {
    const auto known = std::ranges::find_if(
        list, [&](const TrafficPair& pair) { return pair.plan.axes == traffic.axes; });
    if (known == list.end())
      list.push_back({{traffic.axes}, traffic});
    else
      known->other = traffic;
  }
  return list;
}

std::string signed_text(int64_t difference, const std::string& size) {
  return difference == 0 ? "same" : (difference > 0 ? "+" : "-") + size;
}

std::string byte_difference(int64_t difference) {
  return signed_text(difference, to_text(Bytes(std::abs(difference))));
}

std::string count_difference(int64_t difference) {
  return signed_text(difference, std::to_string(std::abs(difference)));
}

std::string memory_text(const PlanNumbers& plan, const PlanNumbers& other) {
  TextTable table({"memory of a rank", "A", "B", "B - A"}, "lrrr");
  for (const ComparedMemory& kind : kComparedMemory) {
    const NumberPair pair = memory_pair(kind, plan, other);
    table.add({kind.name, to_text(Bytes(pair.plan)), to_text(Bytes(pair.other)),
               byte_difference(pair.difference())});
  }
  return table.text(0);
}

std::string sent_text(const PlanNumbers& plan, const PlanNumbers& other) {
  TextTable table({"sent in a step", "exchanges A", "B", "B - A", "bytes per rank A", "B", "B - A"},
                  "lrrrrrr");
  const auto add = [&](const std::string& name, const TrafficPair& pair) {
    const AxisTraffic &a = pair.plan, &b = pair.other;
    table.add({name, std::to_string(a.exchanges), std::to_string(b.exchanges),
               count_difference(b.exchanges - a.exchanges), to_text(a.bytes), to_text(b.bytes),
               byte_difference((b.bytes - a.bytes).value())});
  };
  for (const TrafficPair& pair : traffic_pairs(plan, other))
    add((pair.plan.axes.empty() ? "" : "over ") + axes_text(pair.plan), pair);
  add("all", {plan.all_sent, other.all_sent});
  return table.text(0);
}

/// In percent; nullopt where stages wait for each other in the only micro-batch.
std::optional<double> mean_bubble(const PlanNumbers& numbers) {
  if (numbers.pipeline) return 100 * numbers.pipeline->mean_bubble();
  return numbers.memory.size() > 1 ? std::nullopt : std::optional(0.0);
}

std::string bubble_text(const PlanNumbers& plan, const PlanNumbers& other) {
  const std::optional<double> a = mean_bubble(plan), b = mean_bubble(other);
  const auto text = [](std::optional<double> bubble) {
    return bubble ? fmt::format("{:.1f}%", *bubble)
                  : std::string("each stage waits for the others, with one micro-batch");
  };
  const std::string change = !a || !b   ? ""
                             : *a == *b ? ", same"
                                        : fmt::format(", B - A {:+.1f} points", *b - *a);
  return "bubble of a step, on average: A " + text(a) + ", B " + text(b) + change + "\n";
}

std::string list_text(const std::string& what, const std::vector<PlanDifference>& list,
                      size_t lines) {
  if (list.empty()) return "\nNo " + what + " differs.\n";
  TextTable table({what + "s that differ most", "kind", "A", "B", "bytes A", "B", "B - A"},
                  "llllrrr");
  const size_t shown = lines == 0 ? list.size() : std::min(lines, list.size());
  for (size_t i = 0; i < shown; ++i) {
    const PlanDifference& one = list[i];
    table.add({one.name, one.kind, one.text, one.other_text, to_text(one.bytes),
               to_text(one.other_bytes), byte_difference(one.difference().value())});
  }
  const int64_t left_out = std::ssize(list) - static_cast<int64_t>(shown);
  return "\n" + table.text(0) +
         (left_out > 0 ? counted(left_out, "more line") + ": --full prints all\n" : "");
}

Document pair_document(const NumberPair& pair) {
  return Document::Table{
      {"plan", pair.plan}, {"other", pair.other}, {"difference", pair.difference()}};
}

Document list_document(const std::vector<PlanDifference>& list) {
  Document::List result;
  for (const PlanDifference& one : list)
    result.emplace_back(
        Document::Table{{"kind", one.kind},
                        {"name", one.name},
                        {"plan", one.text},
                        {"other", one.other_text},
                        {"bytes", pair_document({one.bytes.value(), one.other_bytes.value()})}});
  return result;
}

/// Are all the numbers of both plans the same?
bool is_same(const PlanNumbers& plan, const PlanNumbers& other, const PlanComparison& comparison) {
  const auto is_same_memory = [&](const ComparedMemory& kind) {
    return memory_pair(kind, plan, other).difference() == 0;
  };
  const auto is_same_traffic = [](const TrafficPair& pair) {
    return pair.plan.exchanges == pair.other.exchanges && pair.plan.bytes == pair.other.bytes;
  };
  return comparison.tensors.empty() && comparison.exchanges.empty() &&
         std::ranges::all_of(kComparedMemory, is_same_memory) &&
         std::ranges::all_of(traffic_pairs(plan, other), is_same_traffic) &&
         bubble_document(plan) == bubble_document(other);
}

}  // namespace

PlanComparison comparison_of(const PlanNumbers& plan, const PlanNumbers& other,
                             const RepeatedRows& repeated) {
  Differences tensors, exchanges;
  for (const bool is_other : {false, true}) {
    const PlanNumbers& numbers = is_other ? other : plan;
    add_tensors(numbers, is_other, tensors);
    add_exchanges(numbers, is_other, exchanges);
  }
  return {tensors.take(repeated), exchanges.take(repeated)};
}

std::string comparison_text(const PlanNumbers& plan, const PlanNumbers& other,
                            const PlanComparison& comparison, size_t lines) {
  const std::string verdict =
      is_same(plan, other, comparison)
          ? "\nThe plans have no difference in memory, exchanges and bubble.\n"
          : list_text("tensor", comparison.tensors, lines) +
                list_text("exchange", comparison.exchanges, lines);
  return "A: " + plan.title + "\nB: " + other.title + "\n\n" + memory_text(plan, other) +
         sent_text(plan, other) + bubble_text(plan, other) + verdict;
}

Document comparison_document(const PlanNumbers& plan, const PlanNumbers& other,
                             const PlanComparison& comparison) {
  Document document;
  document["with"] = other.title;
  document["is_same"] = is_same(plan, other, comparison);
  for (const ComparedMemory& kind : kComparedMemory)
    document["memory"][kind.key] = pair_document(memory_pair(kind, plan, other));
  document["sent"] = Document::List{};
  for (const TrafficPair& pair : traffic_pairs(plan, other)) {
    const AxisTraffic &a = pair.plan, &b = pair.other;
    document["sent"].append(
        Document::Table{{"axes", a.axes},
                        {"exchanges", pair_document({a.exchanges, b.exchanges})},
                        {"tensors", pair_document({a.tensors, b.tensors})},
                        {"bytes", pair_document({a.bytes.value(), b.bytes.value()})}});
  }
  document["bubble"] =
      Document::Table{{"plan", bubble_document(plan)}, {"other", bubble_document(other)}};
  document["tensors"] = list_document(comparison.tensors);
  document["exchanges"] = list_document(comparison.exchanges);
  return document;
}

}  // namespace tessera
