#include "tools/cli/internal/print/plan/summary.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text/count_text.h"
#include "tools/cli/internal/print/text_table.h"

namespace tessera {
namespace {

constexpr size_t kLargest = 10;   // lines of each kind
constexpr size_t kAxisLines = 4;  // without that of all

struct LargestLine {
  std::string name;
  std::string role, kind;  // of exchanges
  int64_t count = 0;
  Bytes bytes{0};
};

/// The groups of repeated layers that have the most bytes.
std::vector<LargestLine> largest(const std::vector<NamedBytes>& list,
                                 const RepeatedRows& repeated) {
  std::vector<TableRow> rows;
  for (const NamedBytes& item : list)
    rows.push_back({item.name, item.role, item.detail, item.mesh});
  std::vector<LargestLine> lines;
  for (const JoinedRow& group : repeated.groups(rows)) {
    LargestLine& line = lines.emplace_back(LargestLine{group.row[0], group.row[1], group.row[2]});
    for (size_t member : group.members) {
      line.count += list[member].count;
      line.bytes += list[member].bytes;
    }
  }
  std::ranges::stable_sort(lines, std::ranges::greater{}, &LargestLine::bytes);
  if (lines.size() > kLargest) lines.resize(kLargest);
  return lines;
}

std::string memory_text(const PlanNumbers& numbers) {
  std::vector<const MeshMemory*> shown;
  for (const MeshMemory& memory : numbers.memory) shown.push_back(&memory);
  const size_t count = shown.size();
  if (count > 2) {
    const auto by_size = [](const MeshMemory* a, const MeshMemory* b) {
      return a->all() < b->all();
    };
    const auto [smallest, maximum] = std::ranges::minmax_element(shown, by_size);
    shown = {*maximum, *smallest};
  }
  TextTable table({"memory of a rank", "parameters", "optimizer state", "activations", "all"},
                  "lrrrr");
  for (const MeshMemory* memory : shown) {
    std::string name = count == 1 ? "each rank" : memory->mesh;
    if (count > 2)
      name += fmt::format(" ({} of {} meshes)", memory == shown[0] ? "most" : "least", count);
    table.add({name, to_text(memory->parameters), to_text(memory->state),
               to_text(memory->activations), to_text(memory->all())});
  }
  std::string text = table.text(0);
  if (numbers.reserve > Bytes(0))
    text += "libraries take " + to_text(numbers.reserve) + " of its device beside that\n";
  return text;
}

std::string sent_text(const PlanNumbers& numbers) {
  if (numbers.sent.empty()) return "sent in a step: nothing\n";
  TextTable table({"sent in a step", "exchanges", "tensors", "bytes per rank"}, "lrrr");
  const auto add = [&](const std::string& name, const AxisTraffic& traffic) {
    table.add({name, std::to_string(traffic.exchanges), std::to_string(traffic.tensors),
               to_text(traffic.bytes)});
  };
  const bool is_long = numbers.sent.size() > kAxisLines;
  const size_t shown = is_long ? kAxisLines - 1 : numbers.sent.size();
  for (size_t i = 0; i < shown; ++i)
    add((numbers.sent[i].axes.empty() ? "" : "over ") + axes_text(numbers.sent[i]),
        numbers.sent[i]);
  AxisTraffic others;
  for (size_t i = shown; i < numbers.sent.size(); ++i) {
    others.exchanges += numbers.sent[i].exchanges;
    others.tensors += numbers.sent[i].tensors;
    others.bytes += numbers.sent[i].bytes;
  }
  if (is_long) add("over other axes", others);
  add("all", numbers.all_sent);
  return table.text(0);
}

std::string bubble_line(const PlanNumbers& numbers) {
  if (!numbers.pipeline)
    return numbers.memory.size() > 1
               ? "bubble: with one micro-batch each stage waits for results of the others\n"
               : "bubble: none, without a pipeline\n";
  const PipelineWorth& worth = *numbers.pipeline;
  double maximum = 0;
  for (size_t d = 0; d < worth.devices.size(); ++d) maximum = std::max(maximum, worth.bubble(d));
  return fmt::format(
      "bubble: {:.1f}% of a step on average over {}, at most {:.1f}%; a step takes {:.2f} times a "
      "micro-batch on the busiest device, in any order at least {:.2f} times\n",
      100 * worth.mean_bubble(), counted(std::ssize(worth.devices), "device"), 100 * maximum,
      worth.step, worth.bound.time);
}

std::string notes_line(const std::vector<ShardingNote>& notes) {
  if (notes.empty()) return "waste: none found\n";
  const auto waste = std::ranges::find(notes, ShardingNote::Kind::kWaste, &ShardingNote::kind);
  const ShardingNote& first = waste == notes.end() ? notes.front() : *waste;
  const int64_t others = std::ssize(notes) - 1;
  return fmt::format("{}: {}{}\n", to_text(first.kind), first.text,
                     others == 0 ? "" : " (" + counted(others, "more note") + ")");
}

std::string largest_memory_text(const PlanNumbers& numbers, const RepeatedRows& repeated) {
  const std::vector<LargestLine> parameters = largest(numbers.parameters, repeated);
  const std::vector<LargestLine> activations = largest(numbers.activations, repeated);
  TextTable table({"largest parameters", "bytes", "largest of the arena, before sharing", "bytes"},
                  "lrlr");
  for (size_t i = 0; i < std::max(parameters.size(), activations.size()); ++i) {
    TableRow row;
    for (const auto* list : {&parameters, &activations}) {
      const bool has = i < list->size();
      row.push_back(has ? (*list)[i].name + count_suffix((*list)[i].count) : "");
      row.push_back(has ? to_text((*list)[i].bytes) : "");
    }
    table.add(std::move(row));
  }
  return table.text(0);
}

std::string largest_exchanges_text(const PlanNumbers& numbers, const RepeatedRows& repeated) {
  TextTable table({"largest exchanges", "role", "kind", "bytes"}, "lllr");
  for (const LargestLine& line : largest(numbers.exchanges, repeated))
    table.add({line.name + count_suffix(line.count), line.role, line.kind, to_text(line.bytes)});
  return table.empty() ? "" : "\n" + table.text(0);
}

Document largest_document(const std::vector<NamedBytes>& list, const RepeatedRows& repeated) {
  Document::List lines;
  for (const LargestLine& line : largest(list, repeated)) {
    Document::Table table{{"name", line.name}};
    if (!line.role.empty()) table.emplace_back("role", line.role);
    if (!line.role.empty()) table.emplace_back("kind", line.kind);
    table.emplace_back("count", line.count);
    table.emplace_back("bytes", line.bytes.value());
    lines.emplace_back(std::move(table));
  }
  return lines;
}

Document memory_document(const std::vector<MeshMemory>& list) {
  Document::List result;
  for (const MeshMemory& memory : list)
    result.emplace_back(Document::Table{{"mesh", memory.mesh},
                                        {"parameter_bytes", memory.parameters.value()},
                                        {"optimizer_bytes", memory.state.value()},
                                        {"activation_bytes", memory.activations.value()},
                                        {"bytes", memory.all().value()}});
  return result;
}

Document sent_document(const std::vector<AxisTraffic>& list) {
  Document::List result;
  for (const AxisTraffic& traffic : list)
    result.emplace_back(Document::Table{{"axes", traffic.axes},
                                        {"exchanges", traffic.exchanges},
                                        {"tensors", traffic.tensors},
                                        {"bytes", traffic.bytes.value()}});
  return result;
}

}  // namespace

std::string summary_text(const PlanNumbers& numbers, const RepeatedRows& repeated) {
  return numbers.title + "\n\n" + memory_text(numbers) + sent_text(numbers) + bubble_line(numbers) +
         notes_line(numbers.notes) + "\n" + largest_memory_text(numbers, repeated) +
         largest_exchanges_text(numbers, repeated);
}

Document summary_document(const PlanNumbers& numbers, const RepeatedRows& repeated) {
  Document document;
  document["memory"] = memory_document(numbers.memory);
  document["sent"] = sent_document(numbers.sent);
  document["bubble"] = bubble_document(numbers);
  document["largest"] =
      Document::Table{{"parameters", largest_document(numbers.parameters, repeated)},
                      {"activations", largest_document(numbers.activations, repeated)},
                      {"exchanges", largest_document(numbers.exchanges, repeated)}};
  document["waste"] = Document::List{};
  for (const ShardingNote& note : numbers.notes)
    if (note.kind == ShardingNote::Kind::kWaste) document["waste"].append(note.text);
  return document;
}

Document bubble_document(const PlanNumbers& numbers) {
  if (!numbers.pipeline) return {};
  const PipelineWorth& worth = *numbers.pipeline;
  Document document;
  document["mean"] = worth.mean_bubble();
  document["devices"] = Document::List{};
  for (size_t d = 0; d < worth.devices.size(); ++d) {
    Document::List stages;
    for (int stage : worth.stages[d]) stages.emplace_back(stage);
    document["devices"].append(Document::Table{{"stages", std::move(stages)},
                                               {"busy", worth.devices[d].busy},
                                               {"bubble", worth.bubble(d)}});
  }
  document["step"] = worth.step;
  document["lower_bound"] = worth.bound.time;
  return document;
}

}  // namespace tessera
