// The cost of a trace: alternates steps of a small GPT with and without one.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "training/engine/engine.h"
#include "training/fit/fit.h"

namespace tessera {
namespace {

double median(std::vector<double> times) {
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2),
                   times.end());
  return times[times.size() / 2];
}

/// The time of a few steps.
double time_of(Engine& engine, int steps) {
  double sum = 0;
  for (const StepResult& step : fit(engine, steps)) sum += step.time.value();
  return sum;
}

void compare(const std::string& config_file, const std::string& plan_file, int turns) {
  RunConfig config = read_config(config_file, {});
  const auto data =
      std::make_shared<const RunData>(load_data(config.data, {.context = config.model.context}));
  set_sizes(config.model, *data);
  Engine engine(config, plan_file == "serial" ? serial_plan() : read_plan(plan_file), data);
  constexpr int kSteps = 10;
  time_of(engine, kSteps);
  std::vector<double> off, ratios;
  size_t spans = 0;
  for (int turn = 0; turn < turns; ++turn) {
    off.push_back(time_of(engine, kSteps));
    engine.runtime().start_trace();
    ratios.push_back(time_of(engine, kSteps) / off.back());
    spans = engine.runtime().stop_trace().tracks[0].spans.size();
  }
  fmt::print(
      "{:28} {:7.3f} ms a step, {:4} spans a rank and step: with a trace {:.4f} times as long\n",
      plan_file, 1e3 * median(off) / kSteps, spans / kSteps, median(ratios));
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  const int turns = argc > 1 ? std::atoi(argv[1]) : 30;
  for (const std::string plan :
       {"serial", "configs/plans/gpt.pp2.json", "configs/plans/gpt.dp2-tp2.json"})
    tessera::compare("configs/gpt.toml", plan, turns);
}
