#include "tools/cli/internal/print/plan/stages_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/text/count_text.h"
#include "base/text/number_list.h"
#include "base/text/text.h"
#include "compiler/plan/preset.h"
#include "simulator/step/step_text.h"
#include "tools/cli/internal/print/plan/plan_numbers.h"
#include "tools/cli/internal/print/text_table.h"

namespace tessera {
namespace {

std::string step_or_nothing(const std::optional<Seconds>& time) {
  return time ? step_text(*time) : "";
}

std::string share_text(double share) {
  return fmt::format("{:.1f}%", 100 * share);
}

/// "2 v100-16g of n0"; "16 v100-16g of n0 .. n1".
std::string devices_text(const Deployment& deployment, const std::vector<Rank>& ranks) {
  const Cluster& cluster = *deployment.cluster;
  struct Group {
    std::string type, first, last;
    int64_t count = 0;
  };
  std::vector<Group> groups;
  for (const Rank rank : ranks) {
    const std::string& type = deployment.type(rank).name;
    const std::string machine = cluster.machine_name(cluster.machine(deployment.device(rank)));
    if (groups.empty() || groups.back().type != type) groups.push_back({type, machine, machine});
    groups.back().last = machine;
    ++groups.back().count;
  }
  std::vector<std::string> texts;
  for (const Group& group : groups)
    texts.push_back(fmt::format("{} {} of {}{}", group.count, group.type, group.first,
                                group.last == group.first ? "" : " .. " + group.last));
  return join(texts, ", ");
}

std::string modules_text(const StageRow& row) {
  std::vector<std::string> runs;
  for (const ModuleRun& run : row.modules)
    runs.push_back(run.first == run.last ? run.first : run.first + " .. " + run.last);
  return join(runs, ", ");
}

/// Why the search puts the boundaries where they are.
std::string origin_text(const Planned& planned) {
  const PlanConstraints& constraints = planned.constraints;
  if (!constraints.boundaries.empty()) return "The boundaries are fixed";
  if (fixes_decision(constraints, kStagesKey)) return "The stages are fixed to equal work";
  return planned.best()->candidate.source == Candidate::Source::kPreset
             ? "The stages have equal work"
             : "";
}

std::string others_text(const std::vector<StageRow>& rows, const StageRow& binding) {
  double smallest = 1, largest = 0;
  for (const StageRow& row : rows) {
    if (&row == &binding) continue;
    smallest = std::min(smallest, row.compute);
    largest = std::max(largest, row.compute);
  }
  if (smallest > largest) return "";
  const std::string range = share_text(smallest) == share_text(largest)
                                ? share_text(largest)
                                : share_text(smallest) + " to " + share_text(largest);
  return ", those of the others for " + range;
}

std::string binding_text(const Planned& planned, const std::vector<StageRow>& rows) {
  const StageRow& binding = binding_row(rows);
  const std::string share = share_text(binding.compute);
  const std::string others = others_text(rows, binding);
  if (planned.best()->candidate.plan.micro_batches == 1)
    return fmt::format(
        "With one micro-batch the stages wait for each other, so none of them binds; the ranks of "
        "{} compute longest, for {} of the step{}.",
        binding.name, share, others);
  return fmt::format("{} binds: its ranks compute for {} of the step{}.", binding.name, share,
                     others);
}

std::string move_text(const Planned& planned, const MovedBoundary& move) {
  const auto name = [&](size_t stage) {
    return planned.best()->candidate.plan.meshes.at(stage).name;
  };
  const double known = planned.best()->step().value();
  const std::string boundary =
      fmt::format("the boundary of {} and {} after {} instead of {}", name(move.stage - 1),
                  name(move.stage), move.moved, move.after);
  return move.step ? fmt::format("With {} the step takes {} ({:+.1f}%).", boundary,
                                 step_or_nothing(move.step), 100 * (move.step->value() / known - 1))
                   : fmt::format("With {} the plan does not fit.", boundary);
}

Deployment deployment_of(const Planned& planned) {
  return identity_mapping(*planned.cluster, planned.best()->candidate.plan.hardware());
}

Document row_document(const StageRow& row, const Deployment& deployment) {
  Document document;
  document["name"] = row.name;
  document["modules"] = Document::List{};
  for (const ModuleRun& run : row.modules)
    document["modules"].append(Document::Table{{"first", run.first}, {"last", run.last}});
  document["ranks"] = Document::List{};
  document["devices"] = Document::List{};
  for (const Rank rank : row.ranks) {
    document["ranks"].append(rank);
    document["devices"].append(deployment.cluster->name(deployment.device(rank)));
  }
  document["forward_seconds"] = seconds_or_null(row.forward);
  document["backward_seconds"] = seconds_or_null(row.backward);
  document["compute"] = row.compute;
  document["exposed"] = row.exposed;
  document["idle"] = row.idle;
  document["peak_bytes"] = row.memory.all().value();
  document["capacity_bytes"] = row.memory.capacity.value();
  return document;
}

}  // namespace

DescribedStages described_stages(const Planned& planned, const Compiled& compiled, bool moves) {
  const EvaluatedCandidate& best = *planned.best();
  DescribedStages stages{stage_rows(compiled, best.candidate.plan, best.prediction)};
  if (moves && !stages.rows.empty())
    stages.moves = moved_boundaries(planned.request(), best, compiled, binding_row(stages.rows));
  return stages;
}

std::string stages_text(const Planned& planned, const DescribedStages& stages) {
  if (stages.rows.empty()) return "";
  const Deployment deployment = deployment_of(planned);
  TextTable table({"stage", "modules", "ranks", "devices", "forward", "backward", "kernels",
                   "exchanges", "waits", "memory"},
                  "llllrrrrrr");
  for (const StageRow& row : stages.rows)
    table.add({row.name, modules_text(row), number_list(row.ranks),
               devices_text(deployment, row.ranks), step_or_nothing(row.forward),
               step_or_nothing(row.backward), share_text(row.compute), share_text(row.exposed),
               share_text(row.idle),
               to_text(row.memory.all()) + " of " + to_text(row.memory.capacity)});
  std::string text = "\nStages: times of a micro-batch, parts of the step\n" + table.text();
  std::vector<std::string> sentences;
  if (const std::string origin = origin_text(planned); !origin.empty())
    sentences.push_back(origin + ".");
  sentences.push_back(binding_text(planned, stages.rows));
  for (const MovedBoundary& move : stages.moves) sentences.push_back(move_text(planned, move));
  return text + join(sentences, "\n") + "\n";
}

Document stages_document(const Planned& planned, const DescribedStages& stages) {
  if (stages.rows.empty()) return {};
  const Deployment deployment = deployment_of(planned);
  Document document;
  document["table"] = Document::List{};
  for (const StageRow& row : stages.rows) document["table"].append(row_document(row, deployment));
  document["binding"] = binding_row(stages.rows).name;
  document["moved"] = Document::List{};
  for (const MovedBoundary& move : stages.moves) {
    Document item;
    item["stage"] = planned.best()->candidate.plan.meshes.at(move.stage).name;
    item["after"] = move.after;
    item["behind"] = move.after;  // its former name
    item["moved"] = move.moved;
    item["step_seconds"] = seconds_or_null(move.step);
    document["moved"].append(std::move(item));
  }
  return document;
}

}  // namespace tessera
