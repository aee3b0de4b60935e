#include "tools/cli/internal/commands/calibrate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/text/count_text.h"
#include "base/text/text.h"
#include "cluster/calibration/calibrate.h"
#include "cluster/cluster/cluster_file.h"
#include "cluster/cluster/profile_file.h"
#include "cluster/cluster/sources.h"
#include "tools/cli/internal/print/print.h"
#include "tools/cli/internal/print/text_table.h"
#include "tools/cli/internal/run/measured_run.h"
#include "tools/cli/internal/run/output_files.h"
#include "tools/cli/internal/run/predicted_run.h"
#include "tools/replay/calibrate_profile.h"
#include "tools/replay/replay_statistics.h"
#include "tools/replay/run_table.h"

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

bool is_table(const std::string& run) {
  return run.ends_with(".csv");
}

/// The runs of tables, without those that a row says cannot be predicted.
std::vector<ReplayedRun> runs_of_tables(const std::vector<std::string>& tables) {
  std::vector<ReplayedRun> runs;
  for (const std::string& table : tables)
    for (TableRun& row : read_run_table(table)) {
      if (!row.skipped.empty()) continue;
      const std::string name = row.name;
      try {
        runs.emplace_back(std::move(row));
      } catch (const UserError& error) {
        tell(fmt::format("calibrate: {} is left out: {}\n", name, error.what_happened()));
      }
    }
  return runs;
}

double part(Seconds predicted, Seconds measured) {
  return predicted.value() / measured.value() - 1;
}

std::string error_text(const char* what, const std::vector<double>& errors) {
  const ErrorStatistics all = statistics_of(errors);
  return fmt::format("{:42} mean {:5.1f}%, median {:5.1f}%, p90 {:5.1f}%, bias {:+5.1f}%\n", what,
                     100 * all.mean, 100 * all.median, 100 * all.p90, 100 * all.bias);
}

std::string parameters_text(const CalibratedProfile& result) {
  TextTable table({"number", "unit", "before", "after", "influence", ""}, "llrrrl");
  for (const FittedParameter& each : result.parameters) {
    const double unit = each.parameter->per_unit;
    table.add({std::string(each.parameter->name), std::string(each.parameter->unit),
               fmt::format("{:.4g}", unit * each.before), fmt::format("{:.4g}", unit * each.after),
               percent(each.influence),
               each.is_fitted ? "" : "left as it was: no run tells it, or there are too few runs"});
  }
  return "Numbers of the profile; influence: of a tenth more on the run that changes most\n" +
         table.text();
}

Document document_of(const CalibratedProfile& result) {
  Document document;
  document["runs"] = Document::List{};
  for (const ProfileRun& run : result.runs)
    document["runs"].append(Document::Table{{"name", run.name},
                                            {"measured_s", run.measured.value()},
                                            {"before_s", run.before.value()},
                                            {"after_s", run.after.value()},
                                            {"left_out_s", run.left_out.value()}});
  document["numbers"] = Document::List{};
  for (const FittedParameter& each : result.parameters)
    document["numbers"].append(Document::Table{{"name", std::string(each.parameter->name)},
                                               {"before", each.before},
                                               {"after", each.after},
                                               {"influence", each.influence},
                                               {"fitted", each.is_fitted}});
  return document;
}

}  // namespace

ExitCode CalibrateCommand::calibrate_runtime() {
  check_output(out);
  std::vector<ReplayedRun> all = runs_of_tables(runs);
  std::vector<ReplayedRun> others = runs_of_tables(checked);
  if (all.empty())
    refuse_usage("no run of the tables can be predicted",
                 "each row says why it is left out, or its plan does not compile",
                 "name a table with runs");
  RuntimeProfile start = profile_called(runtime);
  CalibratedProfile result = calibrate_profile(
      all, start, {.progress = [](const std::string& text) { tell("calibrate: " + text + "\n"); }});
  std::vector<double> before, after, left_out, checked_errors, parts;
  for (const ProfileRun& run : result.runs) {
    before.push_back(part(run.before, run.measured));
    after.push_back(part(run.after, run.measured));
    left_out.push_back(part(run.left_out, run.measured));
    parts.push_back(run.measured.value() / run.left_out.value());
  }
  for (ReplayedRun& run : others)
    checked_errors.push_back(part(run.predict(result.profile, false).step, run.row().measured));
  RuntimeProfile& profile = result.profile;
  profile.low = quantile(parts, 0.1);
  profile.high = quantile(parts, 0.9);
  profile.source = fmt::format("calibrated {} by {} of {}, beginning with {}", today(),
                               counted(std::ssize(all), "run"), join(runs, ", "), runtime);
  write_profile(out, profile);
  std::string text = error_text("before", before) + error_text("fitted", after) +
                     error_text("left out of the fit in turn", left_out);
  if (!checked_errors.empty()) text += error_text("of --check, never fitted", checked_errors);
  text += fmt::format("80% of the runs left out took {:.2f} to {:.2f} of their prediction\n\n",
                      profile.low, profile.high);
  print_result(output, document_of(result),
               text + parameters_text(result) + "\nwritten to " + out + "\n");
  return ExitCode::kDone;
}

void CalibrateCommand::describe(OptionParser& parser) {
  parser.arguments("RUN",
                   "Runs to fit: a configuration, a configuration with a plan as in "
                   "configs/gpt.toml:dp=2, the folder of a run of train --out, or tables of "
                   "measured runs (.csv), to which a profile is fitted",
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
  parser.text(
      {"--runtime", "NAME|FILE", "Of tables: the profile that is corrected; default: megatron"},
      runtime);
  add_options(parser, output);
}

ExitCode CalibrateCommand::run(Processes&) {
  if (std::ranges::all_of(runs, is_table)) return calibrate_runtime();
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
