#include "runtime/executor/internal/exchanges/prefetch_queue.h"

#include <algorithm>

#include "runtime/executor/internal/exchanges/local_sources.h"

namespace tessera {

void PrefetchQueue::plan() {
  const std::vector<TaskId>& order = program_.graph->order;
  IndexedVector<TaskId, int> position(program_.graph->tasks.size());
  for (size_t i = 0; i < order.size(); ++i) position[order[i]] = static_cast<int>(i);
  for (TaskId id : order) {
    const BoundTask& task = tasks_[id];
    const BoundExchange& exchange = task.exchange;
    if (!task.task.issue_after.is_none() && exchange.backend && exchange.backend->may_prefetch() &&
        exchange.identities.empty())
      all_.push_back({id, position[task.task.issue_after] + 1});
  }
  std::stable_sort(all_.begin(), all_.end(), [](const Prefetch& a, const Prefetch& b) {
    return a.issue_position < b.issue_position;
  });
  of_task_.assign(program_.graph->tasks.size(), -1);
  for (size_t i = 0; i < all_.size(); ++i) of_task_[all_[i].task] = static_cast<int>(i);
  open_.reserve(all_.size());

  Bytes largest{0};
  for (const BoundTask& task : tasks_)
    if (task.exchange.backend) largest = std::max(largest, task.exchange.backend->staging_bytes());
  const auto staged = std::count_if(all_.begin(), all_.end(), [&](const Prefetch& prefetch) {
    return tasks_[prefetch.task].exchange.backend->staging_bytes() > Bytes(0);
  });
  staging_ = StagingMemory(largest, std::min<int64_t>(kMaxPrefetchesInFlight, staged));
}

void PrefetchQueue::begin_step() {
  for (Prefetch& prefetch : all_) prefetch.state = Prefetch::State::kWaiting;
  next_ = 0;
  position_ = 0;
}

bool PrefetchQueue::advance() {
  while (next_ < all_.size() && all_[next_].issue_position <= position_) open_.push_back(next_++);
  if (open_.empty()) return false;
  bool has_moved = false;
  const size_t in_flight = std::min(open_.size(), size_t{kMaxPrefetchesInFlight});
  for (size_t i = 0; i < in_flight; ++i)
    has_moved = advance(all_[open_[i]], TaskStream::kPrefetch) || has_moved;
  std::erase_if(open_, [this](size_t i) { return all_[i].state == Prefetch::State::kDone; });
  return has_moved;
}

/// `stream` is the one on which the exchange is recorded if it ends; kHost at its turn.
bool PrefetchQueue::advance(Prefetch& prefetch, TaskStream stream) {
  using State = Prefetch::State;
  BoundTask& task = tasks_[prefetch.task];
  if (prefetch.state == State::kWaiting) return request(prefetch, task, stream);
  if (prefetch.state == State::kDone) return false;
  if (prefetch.state == State::kRequested) {
    if (!task.actor.ready()) return false;
    prefetch.begin = messages_.now();
    prefetch.state = State::kActing;
    find_local_sources(messages_.ranks(), task, task.actor.begin());
  }
  ExchangeBackend& backend = *task.exchange.backend;
  const bool has_moved = backend.advance(task.exchange.combination);
  if (!backend.is_over()) return has_moved;
  finish(prefetch, task, stream);
  return true;
}

/// returns  false when its output or the staging memory is not free yet
bool PrefetchQueue::request(Prefetch& prefetch, BoundTask& task, TaskStream stream) {
  if (!task.actor.has_free_slots() || !tasks_.may_overwrite(task)) return false;
  ExchangeBackend& backend = *task.exchange.backend;
  prefetch.area = -1;
  if (backend.staging_bytes() > Bytes(0)) prefetch.area = staging_.acquire();
  // At its turn an exchange may use the area that is reserved for it.
  const bool needs_area = backend.staging_bytes() > Bytes(0) && prefetch.area < 0;
  if (needs_area && stream == TaskStream::kPrefetch) return false;
  std::vector<std::byte*>& targets = task.exchange.combination.targets;
  for (size_t part = 0; part < targets.size(); ++part)
    targets[part] = memory_.slot(task.task.outputs[part], task.actor.next_slot(part));
  backend.start(task.actor.iterations(), {targets, staging_.area(prefetch.area)});
  prefetch.state = Prefetch::State::kRequested;
  return true;
}

void PrefetchQueue::finish(Prefetch& prefetch, BoundTask& task, TaskStream stream) {
  if (prefetch.area >= 0) staging_.release(prefetch.area);
  prefetch.state = Prefetch::State::kDone;
  for (size_t part = 0; part < task.task.outputs.size(); ++part) {
    const RegisterIndex output = task.task.outputs[part];
    observer_.show(output, memory_.slot(output, task.actor.act().output_slots[part]));
  }
  // The spans of a track do not overlap, although prefetches may be in flight together.
  const bool is_early = stream == TaskStream::kPrefetch;
  messages_.finish_act(task, is_early ? std::max(prefetch.begin, last_end_) : prefetch.begin,
                       stream);
  last_end_ = messages_.now();
}

bool PrefetchQueue::has_news() const {
  return std::any_of(open_.begin(), open_.end(), [this](size_t i) {
    return all_[i].state == Prefetch::State::kActing &&
           tasks_[all_[i].task].exchange.backend->has_news();
  });
}

}  // namespace tessera
