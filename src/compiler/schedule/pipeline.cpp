#include "compiler/schedule/pipeline.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/text/text.h"
#include "compiler/schedule/auto_order.h"
#include "compiler/schedule/internal/pipeline_pieces.h"
#include "compiler/schedule/internal/stage_lists.h"

namespace tessera {
namespace {

void check_fits(PipelineKind kind, const PipelineShape& shape) {
  const std::string why = invalid_reason(kind, shape);
  if (why.empty()) return;
  std::vector<std::string> fitting;
  for (const PipelineFacts& facts : pipeline_schedules())
    if (invalid_reason(facts.kind, shape).empty()) fitting.emplace_back(facts.name);
  throw UserError(
      "schedule '" + std::string(to_text(kind)) + "' does not fit the stages of the plan",
      why + "; it takes " + std::string(facts_of(kind).wants),
      "change the meshes, or use one that fits these: " + join(fitting, ", "),
      ExitCode::kBadConfig);
}

std::string name_of_pass(const PassNeed& pass, const PipelineOptions& options) {
  const std::string kind = pass.kind == PassKind::kForward         ? "forward"
                           : pass.kind == PassKind::kInputGradient ? "backward"
                                                                   : "weight gradient";
  const bool is_named = pass.stage < std::ssize(options.stage_names);
  return "the " + kind + " of stage " +
         (is_named ? "'" + options.stage_names[pass.stage] + "'" : std::to_string(pass.stage));
}

/// "the forward of stage 'a' needs 'x' of the forward of stage 'b', which needs 'y' of the forward
/// of stage 'a'".
std::string cycle_text(const std::vector<PassNeed>& cycle, const PipelinePieces& pieces,
                       const PipelineOptions& options) {
  std::string text = name_of_pass(cycle.front(), options);
  for (size_t i = 0; i < cycle.size(); ++i) {
    const PassNeed& next = cycle[(i + 1) % cycle.size()];
    const auto link = pieces.link(cycle[i], next);
    text += i == 0 ? " needs " : ", which needs ";
    if (link && options.name_of_result)
      text += "'" + options.name_of_result(link->needed) + "' of ";
    text += name_of_pass(next, options);
  }
  return text;
}

void refuse_cyclic_needs(const PipelineShape& shape, const PipelinePieces& pieces,
                         const PipelineOptions& options) {
  const std::vector<PassNeed> cycle = find_cycle(shape);
  if (!cycle.empty()) refuse_cycle(cycle_text(cycle, pieces, options));
}

DeviceOrders orders_of(const PipelineOptions& options, PipelineShape& shape) {
  check_fits(options.kind, shape);
  if (options.kind != PipelineKind::kAuto) return named_orders(options.kind, shape);
  const double limit = options.max_in_flight > 0 ? options.max_in_flight : shape.devices;
  shape.memory_limits.assign(shape.devices, limit);
  return auto_orders(shape).orders;
}

/// Appends pieces to a list, each after its needs.
class Emitter {
 public:
  explicit Emitter(const std::vector<PipelineStep>& work)
      : work_(work), done_(work.size(), false) {}

  bool is_done(int piece) const { return done_[piece]; }

  void emit(int piece) {
    for (int needed : work_[piece].needs)
      ensure(is_done(needed), "the order of a pipeline puts work after what it needs");
    done_[piece] = true;
    order_.push_back(piece);
  }

  /// May the pieces of a pass come next, in their order?
  bool may_emit(const std::vector<int>& pieces) const {
    return std::all_of(pieces.begin(), pieces.end(), [&](int piece) {
      const auto& needs = work_[piece].needs;
      return std::all_of(needs.begin(), needs.end(), [&](int needed) {
        return is_done(needed) || std::binary_search(pieces.begin(), pieces.end(), needed);
      });
    });
  }

  std::vector<int> take() { return std::move(order_); }

 private:
  const std::vector<PipelineStep>& work_;
  std::vector<bool> done_;
  std::vector<int> order_;
};

/// Emits the passes of all devices, in the order in which they begin on the clock.
void emit_passes(const PipelinePieces& pieces, const PassTimeline& timeline, Emitter& emitter) {
  std::vector<size_t> next(timeline.passes.size(), 0);
  while (true) {
    const TimedPass* first = nullptr;
    size_t device = 0;
    bool left = false;
    for (size_t d = 0; d < next.size(); ++d) {
      if (next[d] == timeline.passes[d].size()) continue;
      left = true;
      const TimedPass& pass = timeline.passes[d][next[d]];
      if ((first && pass.start >= first->start) || !emitter.may_emit(pieces.at(pass.pass)))
        continue;
      first = &pass;
      device = d;
    }
    if (!left) return;
    if (!first) refuse_cycle();
    for (int piece : pieces.at(first->pass)) emitter.emit(piece);
    ++next[device];
  }
}

/// The shape with the time of a micro-batch on the busiest device as the unit.
PipelineShape in_micro_batches(PipelineShape shape) {
  std::vector<double> busy(shape.devices, 0);
  for (const PipelineStage& stage : shape.stages)
    busy[stage.device] +=
        time_of(stage.costs, PassKind::kForward) + time_of(stage.costs, PassKind::kBackward);
  const double unit = *std::max_element(busy.begin(), busy.end());
  if (unit <= 0) return shape;
  for (PipelineStage& stage : shape.stages) {
    for (double* time :
         {&stage.costs.forward, &stage.costs.input_gradient, &stage.costs.weight_gradient})
      *time /= unit;
    if (stage.transfer) *stage.transfer /= unit;
  }
  shape.transfer /= unit;
  return shape;
}

double percent(double part, double whole) {
  constexpr double kRounding = 1e-9;
  return part > kRounding * whole ? 100 * part / whole : 0;
}

}  // namespace

PipelineOrder pipeline_order(const std::vector<PipelineStep>& work,
                             const PipelineOptions& options) {
  const PipelinePieces pieces(work, options);
  PipelineOrder result;
  result.shape = pieces.shape();
  refuse_cyclic_needs(result.shape, pieces, options);
  result.orders = orders_of(options, result.shape);
  const auto timeline = simulate_passes(result.shape, result.orders);
  ensure(timeline.has_value(), "the passes of a schedule have no cycle");

  Emitter emitter(work);
  const int64_t count = std::ssize(work);
  for (int i = 0; i < count; ++i)
    if (pieces.is_prologue(i)) emitter.emit(i);
  emit_passes(pieces, *timeline, emitter);
  for (int i = 0; i < count; ++i)
    if (!emitter.is_done(i)) emitter.emit(i);
  result.order = emitter.take();

  result.passes.resize(work.size());
  for (int i = 0; i < count; ++i) result.passes[i] = pieces.pass_of(i);
  if (!facts_of(options.kind).splits_backward)
    for (auto& pass : result.passes)
      if (pass && *pass != PassKind::kForward) pass = PassKind::kBackward;
  return result;
}

double PipelineWorth::bubble(size_t device) const {
  return percent(step - devices[device].busy, step) / 100;
}

double PipelineWorth::mean_bubble() const {
  double sum = 0;
  for (size_t d = 0; d < devices.size(); ++d) sum += bubble(d);
  return sum / static_cast<double>(devices.size());
}

PipelineWorth worth_of(const PipelineOrder& made) {
  const PipelineShape shape = in_micro_batches(made.shape);
  const auto timeline = simulate_passes(shape, made.orders);
  ensure(timeline.has_value(), "an order that was made can be run");
  PipelineWorth worth{timeline->devices, {}, timeline->duration(), bound_of_step(shape)};
  worth.stages.resize(worth.devices.size());
  for (size_t k = 0; k < shape.stages.size(); ++k)
    worth.stages[shape.stages[k].device].push_back(static_cast<int>(k));
  return worth;
}

std::string worth_text(const PipelineOrder& made, const std::vector<std::string>& stage_names) {
  const PipelineWorth worth = worth_of(made);
  std::string text;
  for (size_t d = 0; d < worth.devices.size(); ++d) {
    std::vector<std::string> names;
    for (int stage : worth.stages[d]) names.push_back(stage_names[stage]);
    const DeviceUse& use = worth.devices[d];
    text += fmt::format(
        "device {} ({}): busy {:.2f}, bubble {:.1f}% of its span, {:.1f}% of the step, max in "
        "flight {:.3g}\n",
        d, join(names, "+"), use.busy, percent(use.bubble(), use.span()), 100 * worth.bubble(d),
        use.max_memory);
  }
  return text + fmt::format("step {:.2f}, no order is below {:.2f}: {}\n", worth.step,
                            worth.bound.time, worth.bound.why);
}

}  // namespace tessera
