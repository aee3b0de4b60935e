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

std::vector<int> TaskActors::receivers(TaskId task, size_t part, int rank_index) const {
  std::vector<int> list;
  for (int receiver = 0; receiver < rank_count(); ++receiver)
    if (recv_regions_from(task, part, receiver, rank_index)) list.push_back(receiver);
  return list;
}

ActorDescription TaskActors::describe(int rank_index, TaskId id) const {
  if (acts_in(rank_index, id)) return describe_actor(*this, rank_index, id);
  return {actor_id(rank_index, id), task_at(id).name, {}, {}};
}

std::vector<AntiDependence> TaskActors::overwrites(int rank_index, TaskId id) const {
  if (!acts_in(rank_index, id)) return {};
  std::vector<RegisterIndex> read;
  for (RegisterIndex reg : task_at(id).overwrites)
    if (!register_at(reg).consumers.empty()) read.push_back(reg);
  return anti_dependences(*this, rank_index, read);
}

TaskActors find_actors(std::shared_ptr<const TaskGraph> graph, std::vector<Rank> ranks) {
  TaskActors actors(std::move(graph), std::move(ranks));
  for (int rank_index = 0; rank_index < actors.rank_count(); ++rank_index)
    actors.find_recv_regions(rank_index);
  return actors;
}

}  // namespace tessera
