// Exchanges ahead of their turn (Task::after). The rank asks for what they pull as soon as the
// bytes that they fill are free, and its senders answer when they have it: the network brings it
// while kernels run. Between kernels the rank puts together what has come. At its turn in the order
// list an exchange is over, or the rank waits for it.
#include "executor/rank_ahead.h"

#include <algorithm>

#include "base/error.h"
#include "executor/rank_program.h"

namespace tessera {

void AheadExchanges::begin_step() {
  for (AheadExchange& exchange : all) exchange.state = AheadExchange::State::kNotAsked;
  next = 0;
}

/// requires  plans are made
void RankProgram::make_ahead() {
  if (!program_.network) return;
  const std::vector<TaskId>& order = program_.graph->order;
  IndexedVector<TaskId, int> place(program_.graph->tasks.size());
  int next_place = 0;
  for (TaskId id : order) place[id] = next_place++;
  for (TaskId id : order)
    if (const Task& task = program_.task(id);
        !task.after.is_none() && plan(id).pulling.far && !plan(id).pulling.identity)
      ahead_.all.push_back({id, place[task.after] + 1});
  std::stable_sort(ahead_.all.begin(), ahead_.all.end(),
                   [](const auto& a, const auto& b) { return a.from < b.from; });
  ahead_.of_task.assign(program_.graph->tasks.size(), -1);
  for (size_t i = 0; i < ahead_.all.size(); ++i)
    ahead_.of_task[ahead_.all[i].task] = static_cast<int>(i);
  ahead_.open.reserve(ahead_.all.size());
}

/// One area for the exchange whose turn it is, and one for each that may be under way ahead of its
/// turn.
void RankProgram::make_staging() {
  Bytes one{0};
  for (const Plan& plan : plans_)
    if (plan.pulling.far) one = std::max(one, plan.pulling.far->staging_bytes());
  const auto staged =
      std::count_if(ahead_.all.begin(), ahead_.all.end(), [&](const AheadExchange& exchange) {
        return plan(exchange.task).pulling.far->staging_bytes() > Bytes(0);
      });
  ahead_.area_is_taken.assign(std::min<int64_t>(kMostAskedAhead, staged), false);
  staging_stride_ = (one.value() + kTensorAlignment - 1) / kTensorAlignment * kTensorAlignment;
  staging_ = AlignedBuffer(
      Bytes(staging_stride_ * (1 + static_cast<int64_t>(ahead_.area_is_taken.size()))));
}

/// Does what may be done ahead when so many places of the order list are over.  returns  whether
/// there was anything
bool RankProgram::go_ahead(int places_over, const StepCall& call) {
  while (ahead_.next < ahead_.all.size() && ahead_.all[ahead_.next].from <= places_over)
    ahead_.open.push_back(ahead_.next++);
  if (ahead_.open.empty()) return false;
  bool has_moved = false;
  const size_t looked_at = std::min(ahead_.open.size(), static_cast<size_t>(kMostAskedAhead));
  for (size_t i = 0; i < looked_at; ++i)
    has_moved = advance(ahead_.all[ahead_.open[i]], call, TaskStream::kAhead) || has_moved;
  std::erase_if(ahead_.open,
                [this](size_t at) { return ahead_.all[at].state == AheadExchange::State::kDone; });
  return has_moved;
}

/// stream  where it ends if it does: kHost at its turn
bool RankProgram::advance(AheadExchange& exchange, const StepCall& call, TaskStream stream) {
  using State = AheadExchange::State;
  Plan& plan = this->plan(exchange.task);
  if (exchange.state == State::kNotAsked) return ask_ahead(exchange, plan, stream);
  if (exchange.state == State::kAsked) {
    if (!plan.actor.ready()) return false;
    exchange.begin = now();
    exchange.state = State::kActing;
    find_sources(program_.task(exchange.task), plan, plan.actor.begin());
  }
  if (exchange.state == State::kDone) return false;
  const bool has_moved = plan.pulling.far->go_on(plan.pulling.boxes, plan.pulling.sources);
  if (!plan.pulling.far->is_over()) return has_moved;
  end_ahead(exchange, plan, call, stream);
  return true;
}

/// returns  false when what it fills is not free yet
bool RankProgram::ask_ahead(AheadExchange& exchange, Plan& plan, TaskStream stream) {
  if (!plan.actor.has_free_slots() || !are_handed_back(plan)) return false;
  FarPulls& far = *plan.pulling.far;
  const auto free = std::find(ahead_.area_is_taken.begin(), ahead_.area_is_taken.end(), false);
  const bool is_staged = far.staging_bytes() > Bytes(0),
             has_area = is_staged && free != ahead_.area_is_taken.end();
  if (is_staged && !has_area && stream == TaskStream::kAhead)
    return false;  // at its turn there is always one
  exchange.area = has_area ? static_cast<int>(free - ahead_.area_is_taken.begin()) : -1;
  if (has_area) *free = true;
  const RegisterIndex output = program_.task(exchange.task).outputs[0];
  far.ask_for(plan.actor.iterations(), *program_.network,
              slot_data(output, plan.actor.next_slot(0)),
              staging_.data() + staging_stride_ * (exchange.area + 1));
  exchange.state = AheadExchange::State::kAsked;
  return true;
}

void RankProgram::end_ahead(AheadExchange& exchange, Plan& plan, const StepCall& call,
                            TaskStream stream) {
  const Task& task = program_.task(exchange.task);
  if (exchange.area >= 0) ahead_.area_is_taken[exchange.area] = false;
  exchange.state = AheadExchange::State::kDone;
  const std::byte* filled = slot_data(task.outputs[0], plan.actor.act().output_slots[0]);
  observe(call, task.outputs[0], filled);
  // On their track one comes after the other, though they may be under way together.
  const auto begin = std::max(exchange.begin, ahead_.last_end);
  end_act(task, plan, stream == TaskStream::kAhead ? begin : exchange.begin, stream);
  ahead_.last_end = now();
}

/// Its turn: the rank goes on with it until it is over.  returns  false when the run stops
bool RankProgram::finish_ahead(AheadExchange& exchange, const StepCall& call) {
  const Plan& plan = this->plan(exchange.task);
  const int place = place_.load(std::memory_order_relaxed);
  const auto begin = now();
  const auto end = deadline();
  bool has_waited = false;
  while (exchange.state != AheadExchange::State::kDone) {
    receive_messages();
    const bool has_moved = advance(exchange, call, TaskStream::kHost);
    if (go_ahead(place, call) || has_moved) continue;
    has_waited = true;
    const bool in_time = wait_for_message(end);
    if (program_.stop->stopped()) return false;
    if (!in_time)
      throw InternalError("waited " + to_text(program_.options.deadline) + ": " +
                          wait_text_of(exchange, plan));
  }
  if (has_waited) record_wait(program_.task(exchange.task), plan, begin);
  return true;
}

/// Has something come for one of those that are under way?
bool RankProgram::has_news_ahead() const {
  return std::any_of(ahead_.open.begin(), ahead_.open.end(), [this](size_t at) {
    const AheadExchange& exchange = ahead_.all[at];
    return exchange.state == AheadExchange::State::kActing &&
           plan(exchange.task).pulling.far->has_news();
  });
}

std::string RankProgram::wait_text_of(const AheadExchange& exchange, const Plan& plan) const {
  return exchange.state == AheadExchange::State::kActing
             ? "'" + program_.task(exchange.task).name + "' for bytes of ranks of other processes"
             : wait_text(plan);
}

}  // namespace tessera
