#include "compiler/schedule/internal/lower_bound.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "compiler/schedule/clock.h"

namespace tessera {
namespace {

constexpr PassKind kSplitKinds[] = {PassKind::kForward, PassKind::kInputGradient,
                                    PassKind::kWeightGradient};

/// One micro-batch alone: the earliest begin of each pass, and the passes that must follow it.
class Paths {
 public:
  explicit Paths(const PipelineShape& shape) : shape_(shape), clock_(shape) {
    for (auto& list : early_) list.assign(shape.stages.size(), kOpen);
    for (auto& list : tail_) list.assign(shape.stages.size(), 0);
    for (PassKind kind : kSplitKinds)
      for (int k = 0; k < stages(); ++k) find_early(kind, k);
    find_tails();
  }

  int stages() const { return shape_.stage_count(); }
  double time(PassKind kind, int stage) const { return time_of(shape_.stages[stage].costs, kind); }
  /// The earliest start of the pass when no device is busy.
  double early(PassKind kind, int stage) const { return early_[index_of(kind)][stage]; }
  /// The time from its end to the end of the last pass that needs it, directly or not.
  double tail(PassKind kind, int stage) const { return tail_[index_of(kind)][stage]; }

  /// The time from the start of F of a stage to the end of another of its passes.
  double latency(PassKind kind, int stage) const {
    std::vector<std::vector<double>> from(3, std::vector<double>(shape_.stages.size(), -1));
    from[0][stage] = time(PassKind::kForward, stage);
    for (const auto& [k, at] : order_) {
      double& end = from[index_of(k)][at];
      for (const PassClock::Need& need : clock_.needs_of({k, at, 0})) {
        const double needed = from[index_of(need.kind)][need.stage];
        if (needed >= 0) end = std::max(end, needed + need.delay + time(k, at));
      }
    }
    return std::max(0.0, from[index_of(kind)][stage]);
  }

 private:
  static constexpr double kOpen = -1, kInProgress = -2;

  double find_early(PassKind kind, int stage) {
    double& early = early_[index_of(kind)][stage];
    ensure(early != kInProgress, "passes of one micro-batch do not need each other in a cycle");
    if (early >= 0) return early;
    early = kInProgress;
    double found = 0;
    for (const PassClock::Need& need : clock_.needs_of({kind, stage, 0}))
      found = std::max(
          found, find_early(need.kind, need.stage) + time(need.kind, need.stage) + need.delay);
    order_.emplace_back(kind, stage);
    return early_[index_of(kind)][stage] = found;
  }

  void find_tails() {
    for (size_t i = order_.size(); i-- > 0;) {
      const auto& [kind, stage] = order_[i];
      for (const PassClock::Need& need : clock_.needs_of({kind, stage, 0})) {
        double& tail = tail_[index_of(need.kind)][need.stage];
        tail = std::max(tail, need.delay + time(kind, stage) + this->tail(kind, stage));
      }
    }
  }

  const PipelineShape& shape_;
  PassClock clock_;
  std::vector<double> early_[3], tail_[3];
  std::vector<std::pair<PassKind, int>> order_;  // each after its needs
};

void raise(PipelineBound& bound, double time, std::string why) {
  if (time > bound.time) bound = {time, std::move(why)};
}

void bound_by_path(const Paths& paths, PipelineBound& bound) {
  for (PassKind kind : kSplitKinds)
    for (int k = 0; k < paths.stages(); ++k)
      raise(bound, paths.early(kind, k) + paths.time(kind, k) + paths.tail(kind, k),
            "one micro-batch goes through all stages");
}

/// The passes before the first, all of these passes, and those after the last.
void bound_by_work(const PipelineShape& shape, const Paths& paths, bool of_step, bool with_w,
                   PipelineBound& bound) {
  for (int device = 0; device < shape.devices; ++device) {
    double first = std::numeric_limits<double>::infinity(), last = first, busy = 0;
    for (int k = 0; k < paths.stages(); ++k) {
      if (shape.stages[k].device != device) continue;
      for (PassKind kind : kSplitKinds) {
        if (kind == PassKind::kWeightGradient && !with_w) continue;
        first = std::min(first, paths.early(kind, k));
        last = std::min(last, paths.tail(kind, k));
        busy += paths.time(kind, k) * shape.micro_batches;
      }
    }
    if (busy == 0) continue;
    const double around = of_step ? first + last : 0;
    raise(
        bound, around + busy,
        fmt::format("device {} {} for {:.4g}{}", device, with_w ? "is busy" : "does F and B", busy,
                    around > 0 ? fmt::format(", and {:.4g} come before and after", around) : ""));
  }
}

/// The F of micro-batch i + N waits for the end of the pass `until` of micro-batch i.
void bound_by_memory(const PipelineShape& shape, const Paths& paths, bool of_step, PassKind until,
                     PipelineBound& bound) {
  if (shape.memory_limits.empty()) return;
  for (int k = 0; k < paths.stages(); ++k) {
    const PipelineStage& stage = shape.stages[k];
    const double kept = until == PassKind::kWeightGradient
                            ? stage.costs.kept - stage.costs.freed_early
                            : stage.costs.kept;
    if (kept <= 0) continue;
    const auto fit =
        static_cast<int64_t>(std::floor(shape.memory_limits[stage.device] / kept + 1e-9));
    if (fit < 1) continue;
    const double latency = paths.latency(until, k);
    const double rounds = static_cast<double>((shape.micro_batches - 1) / fit);
    const double around = of_step ? paths.early(PassKind::kForward, k) + paths.tail(until, k) : 0;
    raise(bound, around + (rounds + 1) * latency,
          fmt::format("stage {} keeps at most {} micro-batches, each for {:.4g}", k, fit, latency));
  }
}

/// The memory that the stages of a device keep together, each for its time, fits the memory of the
/// device over its span.
void bound_by_area(const PipelineShape& shape, const Paths& paths, PipelineBound& bound) {
  if (shape.memory_limits.empty()) return;
  std::vector<double> area(shape.devices, 0);
  for (int k = 0; k < paths.stages(); ++k) {
    const PipelineStage& stage = shape.stages[k];
    const StageCosts& costs = stage.costs;
    area[stage.device] +=
        shape.micro_batches *
        (costs.freed_early * paths.latency(PassKind::kInputGradient, k) +
         (costs.kept - costs.freed_early) * paths.latency(PassKind::kWeightGradient, k));
  }
  for (size_t d = 0; d < area.size(); ++d)
    if (const double limit = shape.memory_limits[d]; limit > 0)
      raise(bound, area[d] / limit,
            fmt::format("device {} has memory for {:.4g} and keeps {:.4g} in time", d, limit,
                        area[d]));
}

PipelineBound bound_of(const PipelineShape& shape, bool of_step) {
  const Paths paths(shape);
  PipelineBound bound;
  if (of_step) bound_by_path(paths, bound);
  bound_by_work(shape, paths, of_step, true, bound);
  bound_by_work(shape, paths, of_step, false, bound);
  bound_by_memory(shape, paths, of_step, PassKind::kInputGradient, bound);
  bound_by_memory(shape, paths, of_step, PassKind::kWeightGradient, bound);
  bound_by_area(shape, paths, bound);
  return bound;
}

}  // namespace

PipelineBound bound_of_step(const PipelineShape& shape) {
  return bound_of(shape, true);
}

PipelineBound bound_of_span(const PipelineShape& shape) {
  return bound_of(shape, false);
}

}  // namespace tessera
