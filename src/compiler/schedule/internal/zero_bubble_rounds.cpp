#include "compiler/schedule/internal/zero_bubble_rounds.h"

#include <algorithm>
#include <limits>

#include "base/error.h"

namespace tessera {
namespace {

constexpr double kUnlimited = std::numeric_limits<double>::infinity();

/// The state of a stage during the rounds. Stages are numbered along the chain.
struct State {
  int number = 0;  // of the stage in the shape
  StageCosts costs;
  double limit = kUnlimited;
  int forwards = 0, backwards = 0, weights = 0;  // passes done
  double free = 0, kept = 0, lost = 0;           // lost: idle since its first pass
  std::vector<double> forward_ends, backward_ends;
  std::vector<Pass> order;
};

class Rounds {
 public:
  Rounds(const PipelineShape& shape, const ZeroBubbleRule& rule) : shape_(shape), rule_(rule) {
    for (int number : find_chain(shape).stages) {
      const PipelineStage& stage = shape.stages[number];
      State state;
      state.number = number;
      state.costs = stage.costs;
      if (!shape.memory_limits.empty())
        state.limit = shape.memory_limits[stage.device] + kPassSlack;
      states_.push_back(std::move(state));
    }
  }

  std::optional<DeviceOrders> run() {
    warm_up();
    for (int round = 1; round < shape_.micro_batches && fits_; ++round) {
      do_forwards(choose_forwards());
      for (int s = last(); s >= 0; --s) do_backward(s);
    }
    if (!fits_) return std::nullopt;
    for (State& state : states_)
      while (state.weights < shape_.micro_batches) put_weight(state);
    DeviceOrders orders(shape_.devices);
    for (State& state : states_)
      orders[shape_.stages[state.number].device] = std::move(state.order);
    return orders;
  }

 private:
  State& at(int s) { return states_[s]; }
  int last() const { return static_cast<int>(states_.size()) - 1; }

  /// The earliest begin of the next forward (or backward) of a stage, without regard to the passes
  /// of the stage itself.
  double forward_comes(int s) {
    return s == 0 ? 0 : at(s - 1).forward_ends[at(s).forwards] + shape_.transfer_of(s);
  }
  double backward_comes(int s) {
    return s == last() ? 0 : at(s + 1).backward_ends[at(s).backwards] + shape_.transfer_of(s + 1);
  }

  void put(State& state, PassKind kind, int micro_batch, double comes) {
    const double begin = std::max(state.free, comes);
    if (!state.order.empty()) state.lost += begin - state.free;
    state.free = begin + time_of(state.costs, kind);
    state.kept += memory_of(state.costs, kind);
    state.order.push_back({kind, state.number, micro_batch});
  }

  void put_forward(int s) {
    State& state = at(s);
    put(state, PassKind::kForward, state.forwards, forward_comes(s));
    fits_ = fits_ && state.kept <= state.limit;
    ++state.forwards;
    state.forward_ends.push_back(state.free);
  }

  void put_backward(int s) {
    State& state = at(s);
    put(state, PassKind::kInputGradient, state.backwards, backward_comes(s));
    ++state.backwards;
    state.backward_ends.push_back(state.free);
  }

  void put_weight(State& state) { put(state, PassKind::kWeightGradient, state.weights++, 0); }

  void warm_up() {
    for (int s = 0; s <= last(); ++s) put_forward(s);
    const std::vector<int> more = forwards_ahead();
    for (int s = 0; s <= last(); ++s)
      for (int i = 0; i < more[s]; ++i) put_forward(s);
    for (int s = last(); s >= 0; --s) put_backward(s);
  }

  /// The number of forwards after the first one of each stage before its first backward.
  std::vector<int> forwards_ahead() {
    std::vector<int> more(states_.size(), 0);
    double backward = at(last()).free +
                      at(last()).costs.input_gradient;  // end of the first one of the stage after
    for (int s = last() - 1; s >= 0; --s) {
      const State& state = at(s);
      const double comes = backward + shape_.transfer_of(s + 1);
      double kept = state.kept + state.costs.kept, end = state.free;
      int& count = more[s];
      const auto in_time = [&] {
        return rule_.overshoot ? end < comes : end + state.costs.forward <= comes;
      };
      for (; state.forwards + count < shape_.micro_batches && kept <= state.limit && in_time();
           ++count) {
        kept += state.costs.kept;
        end += state.costs.forward;
      }
      backward = std::max(end, comes) + state.costs.input_gradient;
    }
    for (size_t s = 1; s < more.size(); ++s)
      more[s] = std::min(more[s], std::max(0, more[s - 1] - 1));
    return more;
  }

  /// The stages that do a forward in this round. When one leaves it out, the stages before it do
  /// too.
  std::vector<bool> choose_forwards() {
    std::vector<bool> chosen(states_.size());
    for (int s = 0; s <= last(); ++s)
      chosen[s] = at(s).forwards < shape_.micro_batches && !leaves_out(s);
    for (int s = last() - 1; s >= 0; --s)
      if (!chosen[s + 1] && at(s + 1).forwards < shape_.micro_batches) chosen[s] = false;
    return chosen;
  }

  /// Would the next stage continue with its backward before it could take one more forward from
  /// here?
  bool leaves_out(int s) {
    if (!rule_.restrained || s == last() || at(s).forwards < at(s + 1).forwards + 2) return false;
    const State& state = at(s);
    const State& next = at(s + 1);
    const double next_goes_on =
        next.free + next.costs.forward + next.costs.input_gradient + shape_.transfer_of(s + 1);
    if (state.free >= next_goes_on) return true;
    double kept = state.kept + state.costs.kept, end = state.free + state.costs.forward;
    for (int w = state.weights; kept > state.limit && w < state.backwards; ++w) {
      end += state.costs.weight_gradient;
      kept += memory_of(state.costs, PassKind::kWeightGradient);
    }
    return end > next_goes_on && next_goes_on - state.free <= max_lost() - state.lost;
  }

  double max_lost() const {
    double largest = 0;
    for (const State& state : states_) largest = std::max(largest, state.lost);
    return largest;
  }

  void do_forwards(const std::vector<bool>& chosen) {
    for (int s = 0; s <= last() && fits_; ++s) {
      State& state = at(s);
      if (!chosen[s]) continue;
      while (state.kept + state.costs.kept > state.limit && state.weights < state.backwards)
        put_weight(state);
      if (s > 0) fill_gap(state, forward_comes(s));
      put_forward(s);
    }
  }

  void do_backward(int s) {
    State& state = at(s);
    if (s < last()) fill_gap(state, backward_comes(s));
    put_backward(s);
  }

  /// Puts W before a pass that comes at `until`.
  void fill_gap(State& state, double until) {
    const auto is_left = [&] { return state.weights < state.backwards; };
    while (is_left() && state.free + state.costs.weight_gradient <= until + kPassSlack)
      put_weight(state);
    if (!is_left() || state.free >= until - kPassSlack) return;
    if (rule_.greedy || until - state.free > max_lost() - state.lost) put_weight(state);
  }

  const PipelineShape& shape_;
  const ZeroBubbleRule rule_;
  std::vector<State> states_;
  bool fits_ = true;
};

}  // namespace

std::optional<DeviceOrders> zero_bubble_rounds(const PipelineShape& shape,
                                               const ZeroBubbleRule& rule) {
  const Chain chain = find_chain(shape);
  ensure(!chain.stages.empty() && chain.round_robin && chain.per_device == 1,
         "the heuristic takes a chain of one stage a device");
  return Rounds(shape, rule).run();
}

}  // namespace tessera
