#include "runtime/executor/internal/exchanges/exchanger.h"

#include "runtime/comm/box_combine.h"
#include "runtime/executor/internal/exchanges/local_sources.h"

namespace tessera {

void Exchanger::join_groups() {
  for (BoundTask& task : tasks_)
    if (task.exchange.backend) task.exchange.backend->join_group();
}

void Exchanger::start(BoundTask& task) {
  BoundExchange& exchange = task.exchange;
  find_local_sources(ranks_, task, task.actor.act());
  std::vector<std::byte*>& targets = exchange.combination.targets;
  for (size_t part = 0; part < targets.size(); ++part)
    targets[part] = memory_.current(task.task.outputs[part]);
  for (const auto& [part, reduce] : exchange.identities) {
    const TensorType type = memory_.local_type_of(task.task.outputs[part]);
    fill_with_identity(type.dtype, reduce, targets[part], element_count(type.shape));
  }
  if (exchange.backend) {
    current_ = &exchange;
    exchange.backend->start(task.actor.act().iteration, {targets, prefetches_.staging().area(-1)});
    return;
  }
  for (size_t box = 0; box < exchange.combination.boxes.size(); ++box)
    exchange.combination.run(box);
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
