// Learning-rate schedules: numbers of the host, computed for each step.
#include <cmath>
#include <numbers>

#include "base/error.h"
#include "ir/autodiff/internal/optimizer_config.h"

namespace tessera {
namespace {

/// The progress of the decay: 0 at the first step after the warm-up, 1 at the last step and after
/// it.
double progress(const Schedule& schedule, int64_t step) {
  const int64_t last = schedule.steps - 1;
  if (step >= last) return 1;
  return static_cast<double>(step - schedule.warmup) / static_cast<double>(last - schedule.warmup);
}

}  // namespace

std::string_view to_text(ScheduleKind kind) {
  switch (kind) {
    case ScheduleKind::kConstant: return "constant";
    case ScheduleKind::kCosine: return "cosine";
    case ScheduleKind::kLinear: return "linear";
  }
  throw InternalError("unknown schedule");
}

double learning_rate(const Schedule& schedule, int64_t step) {
  if (step < schedule.warmup) {
    const double start = schedule.peak * schedule.warmup_start;
    return start + (schedule.peak - start) * static_cast<double>(step + 1) /
                       static_cast<double>(schedule.warmup);
  }
  if (schedule.kind == ScheduleKind::kConstant) return schedule.peak;
  const double done = progress(schedule, step);
  const double left = schedule.kind == ScheduleKind::kLinear
                          ? 1 - done
                          : 0.5 * (1 + std::cos(std::numbers::pi * done));
  return schedule.peak * (schedule.final + (1 - schedule.final) * left);
}

}  // namespace tessera
