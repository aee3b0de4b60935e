#include "executor/exchanger.h"

#include "copy/box_combine.h"
#include "executor/local_sources.h"

namespace tessera {

void Exchanger::join_groups() {
  for (BoundTask& task : tasks_)
    if (task.exchange.backend) task.exchange.backend->join_group();
}

void Exchanger::start(BoundTask& task) {
  BoundExchange& exchange = task.exchange;
  find_local_sources(ranks_, task, task.actor.act());
  const RegisterIndex output = task.task.outputs[0];
  std::byte* target = memory_.current(output);
  if (exchange.identity) {
    const TensorType type = memory_.local_type_of(output);
    fill_with_identity(type.dtype, *exchange.identity, target, element_count(type.shape));
  }
  if (exchange.backend) {
    current_ = &exchange;
    exchange.backend->start(task.actor.act().iteration, {target, prefetches_.staging().area(-1)});
    return;
  }
  const auto& [boxes, sources] = exchange.combination;
  for (const BoxCombine& box : boxes) box.run(target, sources);
}

bool Exchanger::advance() {
  if (!current_) return true;
  current_->backend->advance(current_->combination);
  if (!current_->backend->is_over()) return false;
  current_ = nullptr;
  return true;
}

bool Exchanger::has_news() const {
  return (current_ && current_->backend->has_news()) || prefetches_.has_news();
}

}  // namespace tessera
