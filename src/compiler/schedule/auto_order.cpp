#include "compiler/schedule/auto_order.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "compiler/schedule/clock.h"
#include "compiler/schedule/internal/list_schedule.h"
#include "compiler/schedule/internal/zero_bubble_rounds.h"
#include "compiler/schedule/named_orders.h"

namespace tessera {
namespace {

struct Candidate {
  DeviceOrders orders;
  double time = std::numeric_limits<double>::infinity();
  std::string from;
};

/// Replaces BW by B and W.
DeviceOrders split_backwards(const DeviceOrders& orders) {
  DeviceOrders result(orders.size());
  for (size_t d = 0; d < orders.size(); ++d)
    for (const Pass& pass : orders[d]) {
      if (pass.kind != PassKind::kBackward) {
        result[d].push_back(pass);
        continue;
      }
      result[d].push_back({PassKind::kInputGradient, pass.stage, pass.micro_batch});
      result[d].push_back({PassKind::kWeightGradient, pass.stage, pass.micro_batch});
    }
  return result;
}

void refuse_what_never_fits(const PipelineShape& shape) {
  if (shape.memory_limits.empty()) return;
  std::vector<double> kept(shape.memory_limits.size(), 0);
  for (const PipelineStage& stage : shape.stages) kept[stage.device] += stage.costs.kept;
  for (size_t d = 0; d < kept.size(); ++d)
    if (kept[d] > shape.memory_limits[d] + kPassSlack)
      throw UserError(
          fmt::format("no order of the pipeline fits the memory of device {}", d),
          fmt::format("one micro-batch keeps {:.6g} there until its backward, and there is {:.6g}",
                      kept[d], shape.memory_limits[d]),
          fmt::format("give it {:.6g} more, or make micro-batches smaller",
                      kept[d] - shape.memory_limits[d]),
          ExitCode::kNoPlan);
}

class Search {
 public:
  Search(const PipelineShape& shape, PipelineGoal goal)
      : shape_(shape), goal_(goal), clock_(shape) {}

  void take(const DeviceOrders& orders, const std::string& from) {
    DeviceOrders split = split_backwards(orders);
    if (!first_fault(shape_, split).empty() || !clock_.run(split)) return;
    const double time = goal_ == PipelineGoal::kStep ? clock_.duration() : clock_.longest_span();
    if (time < best_.time - kPassSlack) best_ = {std::move(split), time, from};
  }

  void take_named() {
    for (const PipelineFacts& facts : pipeline_schedules())
      if (facts.kind != PipelineKind::kAuto && invalid_reason(facts.kind, shape_).empty())
        take(named_orders(facts.kind, shape_), std::string(facts.name));
  }

  void take_listed() {
    using Prefer = ListRule::Prefer;
    using Fill = ListRule::Fill;
    for (Prefer prefer : {Prefer::kBackward, Prefer::kForward, Prefer::kInTurn})
      for (Fill fill : {Fill::kFits, Fill::kBalanced, Fill::kAlways})
        for (bool awaits : {false, true})
          for (double ahead : {0.0, 1.0, 2.0})
            if (const auto orders = list_schedule(shape_, {prefer, fill, awaits, ahead}))
              take(*orders, "list");
  }

  void take_rounds() {
    const Chain chain = find_chain(shape_);
    if (!chain.round_robin || chain.per_device != 1) return;
    for (bool overshoot : {false, true})
      for (bool restrained : {false, true})
        for (bool greedy : {false, true})
          if (const auto orders = zero_bubble_rounds(shape_, {overshoot, restrained, greedy}))
            take(*orders, "rounds");
  }

  Candidate best() { return std::move(best_); }

 private:
  const PipelineShape& shape_;
  PipelineGoal goal_;
  PassClock clock_;
  Candidate best_;
};

}  // namespace

AutoOrders auto_orders(const PipelineShape& shape, const AutoOptions& options) {
  refuse_what_never_fits(shape);
  AutoOrders result;
  result.bound = options.goal == PipelineGoal::kStep ? bound_of_step(shape) : bound_of_span(shape);
  Search search(shape, options.goal);
  search.take_named();
  search.take_rounds();
  search.take_listed();
  Candidate best = search.best();
  ensure(!best.orders.empty(), "the list scheduler finds an order where one micro-batch fits");
  result.orders =
      local_search(shape, std::move(best.orders),
                   {.goal = options.goal, .enough = result.bound.time, .work = options.work});
  PassClock clock(shape);
  ensure(clock.run(result.orders), "the orders of a local search can be run");
  result.time = options.goal == PipelineGoal::kStep ? clock.duration() : clock.longest_span();
  result.from = std::move(best.from);
  return result;
}

}  // namespace tessera
