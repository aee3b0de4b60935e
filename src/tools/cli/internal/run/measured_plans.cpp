#include "tools/cli/internal/run/measured_plans.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/text/count_text.h"
#include "planner/search/answers/measured_choice.h"
#include "simulator/step/step_text.h"
#include "tools/cli/internal/print/print.h"
#include "tools/cli/internal/run/loaded_data.h"
#include "tools/cli/internal/run/measured_step.h"
#include "training/engine/data/batch_rule.h"

namespace tessera {
namespace {

/// Why runs on this machine say nothing of the cluster; "" when they do.
std::string why_not_here(const Cluster& cluster) {
  for (DeviceId device = 0; device < cluster.device_count(); ++device) {
    const DeviceType& type = cluster.type(device);
    if (type.kind != HardwareKind::kCpu)
      return fmt::format("its devices are {} ({})", type.name, to_text(type.kind));
    if (cluster.machine(device) != cluster.machine(0)) return "it has several machines";
  }
  return "";
}

}  // namespace

void check_can_measure(const Cluster& cluster, const std::string& cluster_name) {
  const std::string why = why_not_here(cluster);
  if (why.empty()) return;
  refuse_usage(
      "--measure-top would run plans for " + cluster_name + " on the cores of this machine", why,
      "plan for cores of one machine, as in --cluster cpu:2, or leave out --measure-top");
}

void measure_best(Planned& planned, int64_t count) {
  RunConfig config = planned.config;
  const auto data = load_data_of(config);
  choose_by_measurement(
      planned.result, planned.constraints, count, [&](const EvaluatedCandidate& candidate) {
        const Plan& plan = candidate.candidate.plan;
        const Seconds step = measure_step(resolved_for(config, plan), plan, data, kMeasuredSteps);
        tell(fmt::format("measure: {} takes {}\n", candidate.candidate.name, step_text(step)));
        return step;
      });
}

}  // namespace tessera
