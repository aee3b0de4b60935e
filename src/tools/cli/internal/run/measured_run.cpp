#include "tools/cli/internal/run/measured_run.h"

#include <algorithm>

#include "base/error.h"
#include "base/files/file.h"
#include "base/text/text.h"
#include "simulator/step/step_prediction.h"
#include "tools/cli/internal/run/measured_step.h"
#include "tools/cli/internal/run/predicted_run.h"
#include "training/engine/graphs.h"

namespace tessera {
namespace {

constexpr size_t kWarmUp = 2;

std::filesystem::path metrics_of(const std::filesystem::path& folder) {
  return folder / "metrics.jsonl";
}

[[noreturn]] void refuse_metrics(const std::filesystem::path& file, const std::string& why) {
  throw UserError(file.string() + " has no measured step", why,
                  "name the folder that train --out has written, with a step at least",
                  ExitCode::kBadConfig);
}

/// The configuration and the plan of the folder of a run.
Session recorded_session(const std::filesystem::path& folder) {
  const std::string file = (folder / "config.json").string();
  return {read_settings(parse_json(read_own_file(file), file), file),
          read_plan(folder / "plan.json")};
}

/// The configuration and the plan of a text.
ConfigOptions options_of(const std::string& text) {
  ConfigOptions options;
  const size_t colon = text.find(':');
  options.file = text.substr(0, colon);
  if (colon != std::string::npos) options.plan.plan = text.substr(colon + 1);
  if (options.plan.is_automatic())
    refuse_usage("the plan of '" + text + "' is found by prices",
                 "a run that corrects the prices has a plan that does not depend on them",
                 "name a plan file or a preset, as in " + options.file + ":dp=2");
  return options;
}

}  // namespace

Seconds usual_step(std::vector<Seconds> times) {
  if (times.size() > kWarmUp) times.erase(times.begin(), times.begin() + kWarmUp);
  if (times.empty()) return Seconds(0);
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

bool is_run_folder(const std::filesystem::path& path) {
  std::error_code unknown;
  return std::filesystem::is_regular_file(path / "config.json", unknown) &&
         std::filesystem::is_regular_file(metrics_of(path), unknown);
}

MeasuredRun recorded_run(const std::filesystem::path& folder) {
  const std::filesystem::path file = metrics_of(folder);
  MeasuredRun run;
  std::vector<Seconds> times;
  for (const std::string& text : split_text(read_own_file(file), '\n')) {
    if (trim(text).empty()) continue;
    const Document line = parse_json(text, file.string());
    const Document* time = line.is_table() ? line.find("step_time_ms") : nullptr;
    if (!time) continue;
    if (!time->is_number() || time->as_double() <= 0)
      refuse_metrics(file, "its step_time_ms is " + to_json(*time));
    times.emplace_back(1e-3 * time->as_double());
    if (const Document* peak = line.find("peak_bytes"); peak && peak->is_int())
      run.peak = std::max(run.peak, Bytes(peak->as_int()));
  }
  run.step = usual_step(times);
  if (times.empty()) refuse_metrics(file, "no line of it has a step_time_ms");
  return run;
}

Seconds PredictableRun::predicted_on(const Cluster& cluster,
                                     const std::string& cluster_name) const {
  // The deployment is used while the cluster is there.
  const NamedCluster named{std::shared_ptr<const Cluster>(std::shared_ptr<void>(), &cluster),
                           cluster_name};
  PredictOptions options;
  options.prefetch_exchanges = runs_exchanges_ahead(cluster);
  return predict_step(tasks, deployment_of(session.plan, named), options).step;
}

PredictableRun predictable_run(const std::string& text) {
  PredictableRun run{.name = text, .session = {}, .data = nullptr};
  if (is_run_folder(text)) {
    run.session = recorded_session(text);
    run.measured = recorded_run(text);
    set_sizes(run.session.config.model, run.session.config.data);
  } else {
    run.session = open_session(options_of(text));
    run.data = load_data_of(run.session.config);
  }
  const Graph graph = training_graph(run.session.config);
  check_fits(run.session.plan, graph);
  run.tasks = std::make_shared<const TaskGraph>(compile(graph, run.session.plan, {}).tasks);
  return run;
}

Seconds measure_step(const PredictableRun& run, int64_t steps) {
  return measure_step(run.session.config, run.session.plan, run.data, steps);
}

}  // namespace tessera
