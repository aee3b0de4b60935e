#include "task_graph/actors/task_actors.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace tessera {
namespace {

template <typename List, typename Item>
bool contains(const List& list, const Item& item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

}  // namespace

TaskActors::TaskActors(std::shared_ptr<const TaskGraph> graph, std::vector<Rank> ranks)
    : graph_(std::move(graph)), ranks_(std::move(ranks)) {
  ensure(std::is_sorted(ranks_.begin(), ranks_.end()), "ranks are given in ascending order");
  for (Rank rank : ranks_) {
    auto& coordinates = coordinates_.emplace_back();
    for (const MeshPtr& mesh : graph_->meshes) coordinates.push_back(mesh->coordinate_of(rank));
  }
  links_.assign(ranks_.size(), IndexedVector<TaskId, std::vector<Links>>(graph_->tasks.size()));
}

int TaskActors::index_of(Rank rank) const {
  const auto found = std::lower_bound(ranks_.begin(), ranks_.end(), rank);
  ensure(found != ranks_.end() && *found == rank,
         "rank " + std::to_string(rank) + " is one of the run's");
  return static_cast<int>(found - ranks_.begin());
}

std::vector<TaskId> TaskActors::order_of(int rank_index) const {
  std::vector<TaskId> order;
  for (TaskId task : graph_->order)
    if (acts_in(rank_index, task)) order.push_back(task);
  return order;
}

void TaskActors::find_recv_regions(int rank_index) {
  const Rank rank = ranks_[rank_index];
  for (TaskId id : graph_->tasks.indices()) {
    const Task& task = task_at(id);
    for (size_t part = 0; part < task.parts.size(); ++part) {
      Links& found = links_[rank_index][id].emplace_back();
      found.recv_regions = tessera::recv_regions(register_at(task.inputs[part]).type->shape,
                                                 task.parts[part].exchange, rank);
      for (const RecvRegion& recv_region : found.recv_regions)
        if (const int sender = index_of(recv_region.sender); !contains(found.senders, sender))
          found.senders.push_back(sender);
    }
  }
}

bool TaskActors::recv_regions_from(TaskId task, size_t part, int receiver, int sender) const {
  return contains(senders(task, part, receiver), sender);
}

ActorDescription TaskActors::describe(int rank_index, TaskId id) const {
  ActorDescription description{actor_id(rank_index, id), task_at(id).name, {}, {}};
  if (!acts_in(rank_index, id)) return description;
  description.inputs = input_ports(rank_index, id);
  for (RegisterIndex reg : task_at(id).outputs)
    description.outputs.push_back(output_port(rank_index, reg));
  return description;
}

std::vector<InPort> TaskActors::input_ports(int rank_index, TaskId id) const {
  const Task& task = task_at(id);
  std::vector<InPort> ports;
  const auto add = [&](int owner, RegisterIndex reg) {
    ports.push_back({register_id(owner, reg), actor_id(owner, register_at(reg).producer), 1,
                     register_at(reg).slots});
  };
  if (task.kind == Task::Kind::kExchange)
    for (size_t part = 0; part < task.parts.size(); ++part)
      for (int sender : senders(id, part, rank_index)) add(sender, task.inputs[part]);
  else
    for (RegisterIndex reg : task.inputs) add(rank_index, reg);
  return ports;
}

OutPort TaskActors::output_port(int rank_index, RegisterIndex index) const {
  const Register& reg = register_at(index);
  OutPort port{register_id(rank_index, index), reg.slots, {}};
  for (TaskId consumer : reg.consumers) {
    if (task_at(consumer).kind != Task::Kind::kExchange) {
      port.consumers.push_back(actor_id(rank_index, consumer));
      continue;
    }
    const std::span<const RegisterIndex> sources = task_at(consumer).inputs;
    const size_t part = std::find(sources.begin(), sources.end(), index) - sources.begin();
    for (int receiver = 0; receiver < rank_count(); ++receiver)
      if (recv_regions_from(consumer, part, receiver, rank_index))
        port.consumers.push_back(actor_id(receiver, consumer));
  }
  return port;
}

std::vector<AntiDependence> TaskActors::overwrites(int rank_index, TaskId id) const {
  std::vector<AntiDependence> found;
  if (!acts_in(rank_index, id)) return found;
  for (RegisterIndex reg : task_at(id).overwrites)
    if (!register_at(reg).consumers.empty())
      found.push_back(
          {actor_id(rank_index, register_at(reg).producer), register_id(rank_index, reg)});
  return found;
}

TaskActors find_actors(std::shared_ptr<const TaskGraph> graph, std::vector<Rank> ranks) {
  TaskActors actors(std::move(graph), std::move(ranks));
  for (int rank_index = 0; rank_index < actors.rank_count(); ++rank_index)
    actors.find_recv_regions(rank_index);
  return actors;
}

}  // namespace tessera
