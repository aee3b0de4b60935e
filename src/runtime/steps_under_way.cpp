#include "runtime/steps_under_way.h"

#include <algorithm>

#include "base/error.h"

namespace tessera {

StepsUnderWay::StepsUnderWay(Crew& crew, const std::vector<int>& here, StopState& stop,
                             Network* network, Seconds deadline)
    : crew_(crew), here_(here), stop_(stop), network_(network), deadline_(deadline) {
  for (Step& step : steps_)
    step.job = [this, own = &step](int thread) {
      own->plan.program->ranks[here_[thread]]->run(own->call);
      if (own->busy.fetch_sub(1, std::memory_order_acq_rel) == 1) own->done = Clock::now();
    };
}

void StepsUnderWay::begin(const StepPlan& plan, const StepCall& call) {
  ensure(count() < kMost, "a step is begun when there is room for one more under way");
  if (begun_ > settled_ && step(begun_ - 1).plan.program != plan.program) rest();
  Step& next = step(begun_++);
  next.plan = plan;
  next.call = call;
  next.busy.store(crew_.size(), std::memory_order_relaxed);
  next.begun = Clock::now();
  crew_.begin(next.job);
}

void StepsUnderWay::share(const Step& step) {
  if (!step.plan.shared) return;
  try {
    step.plan.shared->exchange(step.call.results, deadline_);
  } catch (...) {
    // Ranks that are at a later step must not wait for members that do not come.
    network_->fail({-1, "", "", std::current_exception()});
    drop_all();
    throw;
  }
}

void StepsUnderWay::settle_oldest() {
  Step& oldest = step(settled_);
  crew_.end();
  ++settled_;
  throw_when_stopped();
  share(oldest);
  if (settled_ == begun_) oldest.done = Clock::now();
}

void StepsUnderWay::throw_when_stopped() {
  if (!stop_.stopped()) return;
  drop_all();
  stop_.rethrow();
}

/// After a failure: none of them gives anything any more.
void StepsUnderWay::drop_all() {
  for (; settled_ < begun_; ++settled_) crew_.end();
  ended_ = begun_;
}

Seconds StepsUnderWay::end() {
  throw_when_stopped();
  ensure(count() > 0, "a step is begun before it is ended");
  if (ended_ == settled_) settle_oldest();
  const Step& oldest = step(ended_++);
  const auto from = std::max(oldest.begun, last_done_);
  last_done_ = oldest.done;
  return Seconds(std::chrono::duration<double>(oldest.done - from).count());
}

void StepsUnderWay::rest() {
  throw_when_stopped();
  while (settled_ < begun_) settle_oldest();
}

}  // namespace tessera
