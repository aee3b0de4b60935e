#include "tools/cli/internal/print/prediction_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/text/count_text.h"
#include "base/text/text.h"
#include "simulator/step/step_text.h"
#include "tools/cli/internal/print/repeated_rows.h"
#include "tools/cli/internal/print/runtime_text.h"
#include "tools/cli/internal/print/text_table.h"
#include "tools/cli/print/plan/explanation.h"

namespace tessera {
namespace {

Document critical_document(const StepPrediction& prediction) {
  Document::List list;
  for (const CriticalPart& part : prediction.critical)
    list.push_back(Document::Table{{"what", part.what},
                                   {"layers", part.layers},
                                   {"rank", part.rank},
                                   {"ms", 1e3 * part.time.value()},
                                   {"share", part.time.value() / prediction.step.value()}});
  return list;
}

Document kinds_document(const BytesByKind& bytes) {
  Document document = Document::Table{};
  for (size_t kind = 0; kind < kMemoryKinds; ++kind)
    document[to_text(static_cast<MemoryKind>(kind))] = bytes[kind].value();
  return document;
}

Document memory_document(const MemoryOverTime& memory) {
  const MemoryMoment& peak = memory.at_peak();
  Document document;
  document["rank"] = memory.rank;
  document["peak_ms"] = 1e3 * peak.at.value();
  document["peak_bytes"] = sum(peak.bytes).value();
  document["filled"] = memory.filled;
  if (memory.optimizer_peak) {
    const MemoryMoment& moment = memory.moments.at(*memory.optimizer_peak);
    document["optimizer_peak_ms"] = 1e3 * moment.at.value();
    document["optimizer_peak_bytes"] = sum(moment.bytes).value();
  }
  document["contents"] = kinds_document(peak.bytes);
  document["largest"] = Document::List{};
  for (const PeakRegister& reg : memory.largest)
    document["largest"].append(Document::Table{{"name", reg.name},
                                               {"kind", std::string(to_text(reg.kind))},
                                               {"bytes", reg.bytes.value()}});
  document["moments"] = Document::List{};
  for (const MemoryMoment& moment : memory.moments)
    document["moments"].append(Document::List{1e3 * moment.at.value(), sum(moment.bytes).value()});
  return document;
}

std::string memory_line(const PredictedRun& run) {
  const RankMemoryNeed& memory = run.prediction.memory[run.fullest()];
  const RankBreakdown& rank = run.prediction.ranks[run.fullest()];
  const std::string parts = fmt::format(
      "{} of {}: variables {}, activations and buffers {}{}, libraries {}{}", to_text(memory.all()),
      to_text(memory.capacity), to_text(memory.variables), to_text(memory.arena),
      memory.others.value() > 0 ? ", evaluation " + to_text(memory.others) : "",
      to_text(memory.reserve),
      memory.in_file.value() > 0 ? "; in a file " + to_text(memory.in_file) : "");
  const std::string where =
      fmt::format("rank {} on {}", rank.rank, run.cluster->name(run.deployment.device(rank.rank)));
  if (run.prediction.fits()) return "memory      fits: " + where + " needs " + parts + "\n";
  return fmt::format("memory      DOES NOT FIT: {} lacks {}: it needs {}\n", where,
                     to_text(memory.all() - memory.capacity), parts);
}

constexpr size_t kListedRanks = 16;

std::string percent(Seconds part, Seconds whole) {
  return fmt::format("{:.1f} ms {:4.1f}%", 1e3 * part.value(),
                     whole.value() > 0 ? 100 * part.value() / whole.value() : 0);
}

std::string ranks_text(const PredictedRun& run) {
  const StepPrediction& prediction = run.prediction;
  std::set<std::string> axes;
  for (const RankBreakdown& rank : prediction.ranks)
    for (const auto& [name, time] : rank.exposed) axes.insert(name);
  std::vector<std::string> header{"rank", "device", "kernels"};
  for (const std::string& name : axes)
    header.push_back(name.empty() ? "exposed between meshes" : "exposed " + name);
  header.insert(header.end(), {"waits", "memory"});
  TextTable table(header, "rl" + std::string(header.size() - 2, 'r'));
  const size_t count = std::min(prediction.ranks.size(), kListedRanks);
  for (size_t i = 0; i < count; ++i) {
    const RankBreakdown& rank = prediction.ranks[i];
    std::vector<std::string> row{std::to_string(rank.rank),
                                 run.cluster->name(run.deployment.device(rank.rank)),
                                 percent(rank.compute, prediction.step)};
    for (const std::string& name : axes) {
      const auto found = rank.exposed.find(name);
      row.push_back(found == rank.exposed.end() ? "" : percent(found->second, prediction.step));
    }
    row.push_back(percent(rank.idle, prediction.step));
    row.push_back(to_text(prediction.memory[i].all()));
    table.add(std::move(row));
  }
  std::string text = "\nWhere the time of a step goes\n" + table.text();
  if (count < prediction.ranks.size())
    text +=
        fmt::format("  ... and {} more ranks, which --json has\n", prediction.ranks.size() - count);
  return text;
}

Document mapped_document(const PredictedRun& run) {
  const Mapping& mapping = run.mapped->mapping;
  Document document;
  document["cost_seconds"] = mapping.cost.cost.value();
  document["bound_seconds"] = mapping.bound.value();
  document["gap"] = mapping.gap();
  document["optimal"] = mapping.optimal;
  document["in_order_cost_seconds"] = run.mapped->in_order.cost.value();
  document["step_before_ms"] = 1e3 * run.mapped->step_before.value();
  document["step_mapped_ms"] = 1e3 * run.mapped->step_mapped.value();
  document["is_used"] = run.mapped->is_used;
  document["devices"] = Document::List{};
  for (DeviceId device : mapping.devices) document["devices"].append(run.cluster->name(device));
  return document;
}

std::string mapped_text(const PredictedRun& run) {
  if (!run.mapped) return "";
  const MappedRanks& mapped = *run.mapped;
  std::string text = fmt::format("\nMapping of the ranks\n  step {}, before {}{}\n",
                                 step_text(mapped.step_mapped), step_text(mapped.step_before),
                                 mapped.is_used ? "" : ": the ranks stay where they were");
  text += "  in order the links would cost " + to_text(mapped.in_order.cost) + " a step\n";
  for (const std::string& line : split_text(mapping_report(mapped.mapping), '\n'))
    if (!line.empty()) text += "  " + line + "\n";
  return text;
}

/// Then what the memory holds over time is not known: it is of our kernels.
bool has_other_kernels(const PredictedRun& run) {
  return run.cluster->description().runtime.fusion != Fusion::kNone;
}

/// The contents of the memory of the rank with most of it at its peak.
std::string peak_line(const PredictedRun& run) {
  if (has_other_kernels(run)) return "";
  const auto& list = run.prediction.memory_over_time;
  if (list.empty()) return "";
  const auto peak = [](const MemoryOverTime& memory) { return sum(memory.at_peak().bytes); };
  const MemoryOverTime& memory = *std::ranges::max_element(list, {}, peak);
  std::vector<std::string> parts;
  for (size_t kind = 0; kind < kMemoryKinds; ++kind)
    if (const Bytes bytes = memory.at_peak().bytes[kind]; bytes.value() > 0)
      parts.push_back(fmt::format("{} {}", to_text(static_cast<MemoryKind>(kind)), to_text(bytes)));
  return fmt::format("peak        {} in use on rank {} at {} of the step, when {} is filled: {}\n",
                     to_text(peak(memory)), memory.rank, step_text(memory.at_peak().at),
                     memory.filled, join(parts, ", "));
}

}  // namespace

ReportedPlan reported(const std::string& name, const std::string& summary, const PredictedRun& run,
                      const Compiled& compiled) {
  ReportedPlan plan{.name = name,
                    .summary = summary,
                    .tasks = &compiled.tasks,
                    .deployment = &run.deployment,
                    .prediction = &run.prediction,
                    .model_flops = run.work.flops,
                    .units = run.work.units,
                    .unit = run.work.unit,
                    .mapping = run.mapped && run.mapped->is_used ? &run.mapped->mapping : nullptr};
  std::vector<TableRow> rows;
  std::vector<Bytes> bytes;
  for (const Variable& variable : compiled.graph.variables()) {
    if (!variable.trainable) continue;
    const ValueFacts facts = facts_of(compiled.graph, compiled.sharded, variable.value);
    rows.push_back({facts.name, facts.placement, facts.local});
    bytes.push_back(facts.bytes);
  }
  for (const JoinedRow& row : RepeatedRows(compiled.graph).groups(rows)) {
    Bytes sum{0};
    for (size_t member : row.members) sum += bytes[member];
    plan.shardings.push_back(
        {row.row[0] + count_suffix(std::ssize(row.members)), row.row[1], row.row[2], sum});
  }
  return plan;
}

Document to_document(const PredictedRun& run) {
  const StepPrediction& prediction = run.prediction;
  Document document;
  document["step_seconds"] = prediction.step.value();
  document["step_ms"] = 1e3 * prediction.step.value();
  document[run.work.unit + "s_per_s"] = run.units_per_second();
  add_runtime(run.cluster->description().runtime, prediction.step, document);
  document["mfu"] = run.mfu();
  document["hfu"] = prediction.utilization();
  document["bubble"] = prediction.bubble();
  document["exposed_comm_seconds"] = prediction.exposed().value();
  document["peak_bytes"] = prediction.peak_bytes().value();
  document["fits"] = prediction.fits();
  document["critical_path"] = critical_document(prediction);
  document["memory_over_time"] = Document::List{};
  if (!has_other_kernels(run))
    for (const MemoryOverTime& memory : prediction.memory_over_time)
      document["memory_over_time"].append(memory_document(memory));
  if (run.mapped) document["mapping"] = mapped_document(run);
  document["ranks"] = Document::List{};
  for (size_t i = 0; i < prediction.ranks.size(); ++i) {
    const RankBreakdown& rank = prediction.ranks[i];
    const RankMemoryNeed& memory = prediction.memory[i];
    Document item;
    item["rank"] = rank.rank;
    item["representative_rank"] = rank.representative;
    item["like_rank"] = rank.representative;  // its former name
    item["device"] = run.cluster->name(run.deployment.device(rank.rank));
    item["compute_ms"] = 1e3 * rank.compute.value();
    item["exposed_ms"] = Document::Table{};
    for (const auto& [axes, time] : rank.exposed)
      item["exposed_ms"][axes.empty() ? "between meshes" : axes] = 1e3 * time.value();
    item["idle_ms"] = 1e3 * rank.idle.value();
    item["variable_bytes"] = memory.variables.value();
    item["arena_bytes"] = memory.arena.value();
    item["other_programs_bytes"] = memory.others.value();
    item["file_bytes"] = memory.in_file.value();
    item["reserve_bytes"] = memory.reserve.value();
    item["capacity_bytes"] = memory.capacity.value();
    document["ranks"].append(std::move(item));
  }
  return document;
}

std::string prediction_text(const PredictedRun& run) {
  const StepPrediction& prediction = run.prediction;
  const RuntimeProfile& runtime = run.cluster->description().runtime;
  return fmt::format("step        {}, {} {}s/s\n", step_text(prediction.step),
                     grouped(static_cast<int64_t>(run.units_per_second())), run.work.unit) +
         runtime_text(runtime, prediction.step) +
         fmt::format("efficiency  MFU {:.1f}%, HFU {:.1f}%, waiting {:.1f}%\n", 100 * run.mfu(),
                     100 * prediction.utilization(), 100 * prediction.bubble()) +
         memory_line(run) + peak_line(run) + "critical    " + critical_text(prediction.critical) +
         "\n" + mapped_text(run) + ranks_text(run);
}

}  // namespace tessera
