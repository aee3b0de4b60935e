#include "tools/cli/internal/commands/measure.h"

#include <fmt/format.h>

#include "base/files/file.h"
#include "base/text/count_text.h"
#include "cluster/cluster/cluster_file.h"
#include "cluster/cluster/detect.h"
#include "tools/cli/internal/print/cluster_text.h"
#include "tools/cli/internal/print/text_table.h"
#include "tools/cli/internal/run/output_files.h"
#include "tools/cli/internal/run/session.h"
#include "tools/cli/internal/run/this_machine.h"
#include "tools/measure/machine.h"
#include "tools/measure/processes.h"

namespace tessera {
namespace {

double microseconds(Seconds time) {
  return 1e6 * time.value();
}

std::string times_text(const ProcessTimes& times) {
  std::string text;
  TextTable pairs({"processes", "hosts", "bytes", "us"}, "llrr");
  for (const PairTimes& pair : times.pairs)
    for (const MeasuredTime& measured : pair.times)
      pairs.add({fmt::format("{} and {}", pair.a, pair.b),
                 times.hosts[pair.a] == times.hosts[pair.b] ? "one" : "two",
                 std::to_string(measured.bytes.value()),
                 fmt::format("{:.4g}", microseconds(measured.time))});
  if (!pairs.empty()) text += "\nExchanges of pairs of processes\n" + pairs.text();
  TextTable gathers({"bytes", "measured us", "predicted us"}, "rrr");
  for (const GatherTime& gather : times.gathers)
    gathers.add({std::to_string(gather.whole.value()),
                 fmt::format("{:.4g}", microseconds(gather.measured)),
                 fmt::format("{:.4g}", microseconds(gather.predicted))});
  if (!gathers.empty()) text += "\nGathers among all processes\n" + gathers.text();
  return text;
}

void add_times(const ProcessTimes& times, Document& document) {
  if (times.hosts.empty()) return;
  document["pairs"] = Document::List{};
  for (const PairTimes& pair : times.pairs)
    for (const MeasuredTime& measured : pair.times)
      document["pairs"].append(Document::Table{{"a", pair.a},
                                               {"b", pair.b},
                                               {"bytes", measured.bytes.value()},
                                               {"us", microseconds(measured.time)}});
  document["gathers"] = Document::List{};
  for (const GatherTime& gather : times.gathers)
    document["gathers"].append(Document::Table{{"bytes", gather.whole.value()},
                                               {"measured_us", microseconds(gather.measured)},
                                               {"predicted_us", microseconds(gather.predicted)}});
}

/// The file for --keep, whose folder exists then.
std::optional<std::filesystem::path> file_to_keep() {
  const auto file = kept_machine_file();
  if (!file)
    throw UserError("measure --keep has no folder", "neither XDG_CACHE_HOME nor HOME is set",
                    "set one of them, or write a file with --out and give it to --cluster",
                    ExitCode::kBadConfig);
  std::error_code error;
  std::filesystem::create_directories(file->parent_path(), error);
  check_can_write(*file);
  return file;
}

}  // namespace

void MeasureCommand::describe(OptionParser& parser) {
  parser.text({"-o,--out", "FILE", "Write the cluster to this file: TOML, or JSON for .json"}, out);
  parser.flag({"--detect", "",
               "Measure nothing: only what the operating system says, with the rates of a common "
               "machine"},
              detects_only);
  parser.flag({"--keep", "",
               "Keep the rates in the user's cache folder: plans for the ranks of a run are found "
               "by them when no cluster is given"},
              keep);
  add_options(parser, liveness);
  add_options(parser, output);
}

ExitCode MeasureCommand::run(Processes& processes) {
  if (out && processes.is_leader()) check_output(*out);
  if (detects_only && processes.are_several())
    refuse_usage("measure --detect has " + counted(processes.count(), "process"),
                 "the operating system says nothing of links between processes",
                 "start one process, or leave out --detect");
  const auto kept = keep ? file_to_keep() : std::nullopt;
  ProcessTimes times;
  ClusterDescription description;
  if (processes.are_several()) {
    MeasuredProcesses measured =
        measure_processes(processes.connect(liveness.deadline()), processes.count());
    description = std::move(measured.description);
    times = std::move(measured.times);
  } else {
    description = detects_only ? detect_machine() : measure_machine();
  }
  const Cluster cluster(std::move(description));
  std::string written;
  for (const auto& file : {out ? std::optional<std::filesystem::path>(*out) : std::nullopt, kept})
    if (file && processes.is_leader()) {
      write_cluster(*file, cluster.description());
      written += "\nwritten to " + file->string() + "\n";
    }
  Document document = cluster_document(cluster);
  add_times(times, document);
  print_result(output, document, cluster_text(cluster) + times_text(times) + written);
  return ExitCode::kDone;
}

}  // namespace tessera
