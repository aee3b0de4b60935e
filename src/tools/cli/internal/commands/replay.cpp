#include "tools/cli/internal/commands/replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "base/error.h"
#include "base/text/count_text.h"
#include "cluster/cluster/profile_file.h"
#include "tools/cli/internal/print/print.h"
#include "tools/cli/internal/print/text_table.h"
#include "tools/cli/internal/run/session.h"
#include "tools/replay/replay_statistics.h"
#include "tools/replay/replayed_run.h"
#include "tools/replay/run_table.h"

namespace tessera {
namespace {

/// A row with what was predicted for it.
struct Replayed {
  TableRun row;
  std::string failure;  // why there is no prediction
  Seconds step{0};
  Bytes memory{0};
  std::string reasons;  // of the critical path

  double error() const { return step.value() / row.measured.value() - 1; }
  bool has_memory() const { return row.memory > Bytes(0) && memory > Bytes(0); }
  double memory_error() const {
    return static_cast<double>(memory.value()) / static_cast<double>(row.memory.value()) - 1;
  }
};

Replayed replay(TableRun row, const std::string& runtime) {
  Replayed result{.row = row, .failure = row.skipped, .reasons = {}};
  if (!row.skipped.empty()) return result;
  try {
    const std::string& name = runtime.empty() ? row.runtime : runtime;
    const RuntimeProfile profile = profile_called(name.empty() ? RuntimeProfile{}.name : name);
    ReplayedRun run(std::move(row));
    const StepPrediction prediction = run.predict(profile, true);
    result.step = prediction.step;
    for (const RankMemoryNeed& need : prediction.memory)
      result.memory = std::max(result.memory, need.all());
    result.reasons = critical_text(prediction.critical);
  } catch (const UserError& error) {
    result.failure = error.what_happened();
  }
  return result;
}

std::string percent(double part) {
  return fmt::format("{:.1f}", 100 * part);
}

std::string signed_percent(double part) {
  return fmt::format("{:+.1f}", 100 * part);
}

/// The errors of each group, in the order in which they appear.
struct GroupErrors {
  std::string group;
  std::vector<double> steps, memory;
};

std::vector<GroupErrors> errors_of(const std::vector<Replayed>& runs) {
  std::vector<GroupErrors> list;
  for (const Replayed& run : runs) {
    if (!run.failure.empty()) continue;
    auto found = std::ranges::find(list, run.row.group, &GroupErrors::group);
    if (found == list.end()) found = list.insert(list.end(), {run.row.group, {}, {}});
    found->steps.push_back(run.error());
    if (run.has_memory()) found->memory.push_back(run.memory_error());
  }
  return list;
}

void add_statistics(TextTable& table, const std::string& group, const char* what,
                    std::span<const double> errors) {
  if (errors.empty()) return;
  const ErrorStatistics all = statistics_of(errors);
  table.add({group, what, std::to_string(all.count), percent(all.mean), percent(all.median),
             percent(all.p90), signed_percent(all.bias), percent(all.worst)});
}

std::string statistics_text(const std::vector<GroupErrors>& groups) {
  TextTable table({"group", "of", "runs", "mean %", "median %", "p90 %", "bias %", "worst %"},
                  "llrrrrrr");
  for (const GroupErrors& group : groups) {
    add_statistics(table, group.group, "step", group.steps);
    add_statistics(table, group.group, "memory", group.memory);
  }
  return "Errors of predictions\n" + table.text();
}

std::string rows_text(std::vector<Replayed> runs, int64_t count, bool is_worst) {
  std::erase_if(runs, [](const Replayed& run) { return !run.failure.empty(); });
  if (is_worst)
    std::ranges::stable_sort(runs, std::greater(),
                             [](const Replayed& run) { return std::abs(run.error()); });
  if (std::ssize(runs) > count) runs.resize(count);
  TextTable table({"run", "measured s", "predicted s", "error %", "GiB", "predicted", "error %"},
                  "lrrrrrr");
  std::string reasons;
  const auto gib = [](Bytes bytes) {
    return fmt::format("{:.1f}", static_cast<double>(bytes.value()) * 0x1p-30);
  };
  for (const Replayed& run : runs) {
    table.add({run.row.name, fmt::format("{:.4g}", run.row.measured.value()),
               fmt::format("{:.4g}", run.step.value()), signed_percent(run.error()),
               run.has_memory() ? gib(run.row.memory) : "", gib(run.memory),
               run.has_memory() ? signed_percent(run.memory_error()) : ""});
    reasons += "  " + run.row.name + ": " + run.reasons + "\n";
  }
  return (is_worst ? "Worst runs\n" : "Runs\n") + table.text() +
         (is_worst ? "\nWhat is on their critical paths\n" + reasons : "");
}

std::string failures_text(const std::vector<Replayed>& runs) {
  std::string text;
  for (const Replayed& run : runs)
    if (!run.failure.empty()) text += "  " + run.row.name + ": " + run.failure + "\n";
  return text.empty() ? "" : "\nNot predicted\n" + text;
}

Document document_of(const ErrorStatistics& all) {
  return Document::Table{{"runs", all.count}, {"mean", all.mean}, {"median", all.median},
                         {"p90", all.p90},    {"bias", all.bias}, {"worst", all.worst}};
}

Document document_of(const std::vector<Replayed>& runs, const std::vector<GroupErrors>& groups) {
  Document document;
  document["runs"] = Document::List{};
  for (const Replayed& run : runs) {
    Document item = Document::Table{{"name", run.row.name},
                                    {"group", run.row.group},
                                    {"preset", run.row.preset},
                                    {"cluster", run.row.cluster}};
    if (!run.failure.empty()) {
      item["not_predicted"] = run.failure;
    } else {
      item["measured_s"] = run.row.measured.value();
      item["predicted_s"] = run.step.value();
      item["error"] = run.error();
      item["predicted_bytes"] = run.memory.value();
      if (run.has_memory()) {
        item["measured_bytes"] = run.row.memory.value();
        item["memory_error"] = run.memory_error();
      }
      item["critical"] = run.reasons;
    }
    document["runs"].append(std::move(item));
  }
  document["groups"] = Document::List{};
  for (const GroupErrors& group : groups) {
    Document item =
        Document::Table{{"name", group.group}, {"step", document_of(statistics_of(group.steps))}};
    if (!group.memory.empty()) item["memory"] = document_of(statistics_of(group.memory));
    document["groups"].append(std::move(item));
  }
  return document;
}

}  // namespace

void ReplayCommand::describe(OptionParser& parser) {
  parser.arguments("TABLE", "CSV files of measured runs; docs/accuracy.md describes the columns",
                   tables);
  parser.text({"--runtime", "NAME|FILE",
               "The profile of all runs, in place of what the rows name: tessera, torch-eager, "
               "torch-compile, megatron or a file"},
              runtime);
  parser.number({"--worst", "N", "Rows that are listed, the worst ones first; default: 5"}, worst,
                int64_t{0});
  parser.flag({"--all", "", "List every row, in the order of the tables"}, lists_all);
  add_options(parser, output);
}

ExitCode ReplayCommand::run(Processes&) {
  std::vector<Replayed> runs;
  std::vector<TableRun> rows;
  for (const std::string& table : tables)
    for (TableRun& row : read_run_table(table)) rows.push_back(std::move(row));
  for (TableRun& row : rows) {
    runs.push_back(replay(std::move(row), runtime));
    tell(fmt::format("replay: {} of {}: {}\n", runs.size(), rows.size(), runs.back().row.name));
  }
  const std::vector<GroupErrors> groups = errors_of(runs);
  print_result(output, document_of(runs, groups),
               statistics_text(groups) + "\n" +
                   rows_text(runs, lists_all ? std::ssize(runs) : worst, !lists_all) +
                   failures_text(runs));
  return ExitCode::kDone;
}

}  // namespace tessera
