#include "tools/cli/internal/commands/calibrate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/text/count_text.h"
#include "cluster/calibration/calibrate.h"
#include "cluster/cluster/cluster_file.h"
#include "cluster/cluster/sources.h"
#include "tools/cli/internal/print/text_table.h"
#include "tools/cli/internal/run/measured_run.h"
#include "tools/cli/internal/run/output_files.h"
#include "tools/cli/internal/run/predicted_run.h"

namespace tessera {
namespace {

/// Refuses runs that this machine would make for a cluster that it is not.
void check_made_here(const PredictableRun& run, const NamedCluster& cluster) {
  if (!run.data) return;
  const DeviceType& type = cluster.cluster->type(0);
  if (type.kind == HardwareKind::kCpu) return;
  refuse_usage(
      fmt::format("'{}' would be measured on the cores of this machine", run.name),
      fmt::format("the devices of {} are {} ({})", cluster.name, type.name, to_text(type.kind)),
      "name the folder of a run on these devices, which train --out has written");
}

/// Trains the runs that are not recorded in turns, so that another job does not take the whole time
/// of one of them; of each the shortest step counts.
void measure(std::vector<PredictableRun>& runs, int64_t rounds, int64_t steps) {
  for (int64_t round = 0; round < rounds; ++round)
    for (PredictableRun& run : runs) {
      if (!run.data) continue;
      const Seconds step = measure_step(run, steps);
      run.measured.step = round == 0 ? step : std::min(run.measured.step, step);
    }
}

std::string percent(double error) {
  return fmt::format("{:+.1f}%", 100 * error);
}

std::string milliseconds(Seconds time) {
  return fmt::format("{:.4g}", 1e3 * time.value());
}

std::string runs_text(const Calibration& result) {
  TextTable table({"run", "", "measured ms", "before ms", "error", "after ms", "error"}, "llrrrrr");
  for (const CalibratedRun& run : result.runs)
    table.add({run.name, run.is_fitted ? "fitted" : "left out", milliseconds(run.measured),
               milliseconds(run.before), percent(run.error_before()), milliseconds(run.after),
               percent(run.error_after())});
  return "Runs\n" + table.text();
}

std::string mean_text(const Calibration& result) {
  std::string text = "\n";
  for (const bool fitted : {true, false}) {
    if (std::ranges::none_of(result.runs, [&](const auto& run) { return run.is_fitted == fitted; }))
      continue;
    text += fmt::format("mean error of runs {:8} {:.1f}% before, {:.1f}% after\n",
                        fitted ? "fitted" : "left out", 100 * result.mean_error(fitted, false),
                        100 * result.mean_error(fitted, true));
  }
  return text;
}

std::string constants_text(const Calibration& result) {
  TextTable table({"constant", "time"}, "lr");
  for (const FittedConstant& fitted : result.constants)
    table.add({fitted.constant.name(), fmt::format("x {:.3f}", fitted.factor)});
  return "\nConstants\n" + table.text();
}

Document document_of(const Calibration& result) {
  Document document;
  document["runs"] = Document::List{};
  for (const CalibratedRun& run : result.runs)
    document["runs"].append(Document::Table{{"name", run.name},
                                            {"fitted", run.is_fitted},
                                            {"measured_ms", 1e3 * run.measured.value()},
                                            {"before_ms", 1e3 * run.before.value()},
                                            {"error_before", run.error_before()},
                                            {"after_ms", 1e3 * run.after.value()},
                                            {"error_after", run.error_after()}});
  document["constants"] = Document::List{};
  for (const FittedConstant& fitted : result.constants)
    document["constants"].append(
        Document::Table{{"name", fitted.constant.name()}, {"factor", fitted.factor}});
  document["fingerprint"] = fingerprint(result.description);
  return document;
}

}  // namespace

void CalibrateCommand::describe(OptionParser& parser) {
  parser.arguments("RUN",
                   "Runs to fit: a configuration, a configuration with a plan as in "
                   "configs/gpt.toml:dp=2, or the folder of a run of train --out",
                   runs);
  parser.texts(
      {"--check", "RUN", "A run that is left out of the fit, and compared; may be repeated"},
      checked);
  parser.text({"--cluster", "FILE|LINE",
               "The cluster to correct, as tessera measure writes it; default: 'detect'"},
              cluster);
  parser.required_text(
      {"-o,--out", "FILE", "Write the corrected cluster to this file: TOML, or JSON for .json"},
      out);
  parser.number({"--steps", "N", "Steps of a round; default: half a second, at least 12"}, steps,
                int64_t{3});
  parser.number(
      {"--rounds", "N", "Rounds over all runs, of which the shortest step counts; default: 3"},
      rounds, int64_t{1});
  parser.real({"--deviation", "PERCENT",
               "How far the constants are off, as a standard deviation; default: 30, which is for "
               "measured ones; 200 for those of 'detect'"},
              deviation, 1);
  add_options(parser, output);
}

ExitCode CalibrateCommand::run(Processes&) {
  const NamedCluster machines = named_cluster(cluster);
  std::vector<PredictableRun> all;
  for (const auto* list : {&runs, &checked})
    for (const std::string& text : *list) {
      all.push_back(predictable_run(text));
      check_made_here(all.back(), machines);
      all.back().predicted_on(*machines.cluster, machines.name);  // refuses more ranks than devices
    }
  check_output(out);
  measure(all, rounds, steps);
  std::vector<MeasuredStepOfRun> measured;
  for (const PredictableRun& run : all)
    measured.push_back(
        {run.name, run.measured.step,
         [&run, &machines](const Cluster& tried) { return run.predicted_on(tried, machines.name); },
         measured.size() < runs.size()});
  // Factors are within 4.6 deviations: a quarter to four times, and at most a hundred times.
  const double spread = deviation / 100;
  const Calibration result =
      calibrate(machines.cluster->description(), measured,
                fmt::format("calibrated {} by {}", today(), counted(std::ssize(runs), "run")),
                {.factor = spread, .largest = std::exp(4.6 * std::min(spread, 1.0))});
  write_cluster(out, result.description);
  print_result(output, document_of(result),
               runs_text(result) + mean_text(result) + constants_text(result) + "\nwritten to " +
                   out + "\n");
  return ExitCode::kDone;
}

}  // namespace tessera
