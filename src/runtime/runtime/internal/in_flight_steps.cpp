#include "runtime/runtime/internal/in_flight_steps.h"

#include <algorithm>

#include "base/error.h"

namespace tessera {

InFlightSteps::InFlightSteps(ThreadPool& threads, const std::vector<int>& here, StopState& stop,
                             ProcessNetwork* network, Seconds deadline)
    : threads_(threads), here_(here), stop_(stop), network_(network), deadline_(deadline) {
  const int ranks = here.empty() ? 0 : 1 + *std::max_element(here.begin(), here.end());
  for (Step& step : steps_) {
    step.times.resize(ranks);
    step.job = [this, own = &step](int thread) {
      own->plan.program->rank(here_[thread]).run(own->call);
      if (own->busy.fetch_sub(1, std::memory_order_acq_rel) == 1) own->done = Clock::now();
    };
  }
}

void InFlightSteps::begin(const StepPlan& plan, const StepCall& call) {
  ensure(count() < kMax, "at most two steps are in flight");
  if (begun_ > settled_ && step(begun_ - 1).plan.program != plan.program) wait_until_idle();
  Step& next = step(begun_++);
  next.plan = plan;
  next.call = call;
  next.call.times = next.times;
  next.busy.store(threads_.size(), std::memory_order_relaxed);
  next.begun = Clock::now();
  threads_.begin(next.job);
}

void InFlightSteps::share(const Step& step) {
  if (!step.plan.shared) return;
  try {
    step.plan.shared->exchange(step.call.results, deadline_);
  } catch (...) {
    // Ranks that execute a later step must not wait for processes that have failed.
    network_->fail({-1, "", "", std::current_exception()});
    drop_all();
    throw;
  }
}

void InFlightSteps::settle_oldest() {
  Step& oldest = step(settled_);
  threads_.end();
  ++settled_;
  throw_when_stopped();
  share(oldest);
  if (settled_ == begun_) oldest.done = Clock::now();
}

void InFlightSteps::throw_when_stopped() {
  if (!stop_.stopped()) return;
  drop_all();
  stop_.rethrow();
}

/// Drops all steps. After a failure no step has results.
void InFlightSteps::drop_all() {
  for (; settled_ < begun_; ++settled_) threads_.end();
  ended_ = begun_;
}

Seconds InFlightSteps::end() {
  throw_when_stopped();
  ensure(count() > 0, "a step is begun before it is ended");
  if (ended_ == settled_) settle_oldest();
  const Step& oldest = step(ended_++);
  const auto from = std::max(oldest.begun, last_done_);
  last_done_ = oldest.done;
  return Seconds(std::chrono::duration<double>(oldest.done - from).count());
}

RankTime InFlightSteps::mean_time() const {
  ensure(ended_ > 0, "a step has ended");
  const Step& ended = steps_[(ended_ - 1) % kMax];
  double kernels = 0, exposed = 0;
  for (int rank : here_) {
    kernels += ended.times[rank].kernels.value();
    exposed += ended.times[rank].exposed.value();
  }
  const double count = std::max<double>(1, static_cast<double>(here_.size()));
  return {Seconds(kernels / count), Seconds(exposed / count)};
}

void InFlightSteps::wait_until_idle() {
  throw_when_stopped();
  while (settled_ < begun_) settle_oldest();
}

}  // namespace tessera
