#include "simulator/clock/internal/class_actors.h"

#include <algorithm>

#include "base/error.h"

namespace tessera {
namespace {

/// The classes of the ranks, each once, in the order of the first.
std::vector<int> classes_of(std::span<const int> rank_indices, const RankClasses& classes) {
  std::vector<int> found;
  for (int rank : rank_indices)
    if (const int of = classes.class_of[rank];
        std::find(found.begin(), found.end(), of) == found.end())
      found.push_back(of);
  return found;
}

}  // namespace

ClassActors::ClassActors(const TaskGraph& graph, const std::vector<Rank>& ranks,
                         const ExchangeLinks& links, const RankClasses& classes)
    : graph_(graph), links_(links), classes_(classes) {
  IndexedVector<MeshIndex, std::vector<TaskId>> tasks(graph.meshes.size());
  for (TaskId task : graph.tasks.indices()) {
    std::vector<TaskId>& list = tasks[graph.tasks[task].mesh];
    place_in_mesh_.push_back(static_cast<int>(list.size()));
    list.push_back(task);
  }
  for (int rank_class = 0; rank_class < classes.count(); ++rank_class) {
    auto& first = first_actor_.emplace_back(graph.meshes.size(), -1);
    for (MeshIndex mesh : graph.meshes.indices()) {
      if (!graph.meshes[mesh]->coordinate_of(ranks[classes.representatives[rank_class]])) continue;
      first[mesh] = count();
      tasks_.insert(tasks_.end(), tasks[mesh].begin(), tasks[mesh].end());
    }
    class_of_.resize(tasks_.size(), rank_class);
  }
}

std::vector<int> ClassActors::senders(TaskId task, size_t part, int rank_class) const {
  const int rank = classes_.representatives[rank_class];
  return classes_of(links_.senders(task, part, rank), classes_);
}

std::vector<int> ClassActors::receivers(TaskId task, size_t part, int rank_class) const {
  const int rank = classes_.representatives[rank_class];
  return classes_of(links_.receivers(task, part, rank), classes_);
}

bool ClassActors::is_between_ranks(const Message& message) const {
  const int rank_class = class_of(message.from);
  if (rank_class != class_of(message.to)) return true;
  const ActorId consumer = message.kind == Message::Kind::kReady ? message.to : message.from;
  const TaskId task = task_of(consumer);
  if (graph_.tasks[task].kind != Task::Kind::kExchange || message.reg >= register_count())
    return false;
  const int rank = classes_.representatives[rank_class];
  const std::span<const RegisterIndex> sources = graph_.tasks[task].inputs;
  const size_t part = std::ranges::find(sources, register_of(message.reg)) - sources.begin();
  const auto senders = links_.senders(task, part, rank);
  return std::any_of(senders.begin(), senders.end(), [&](int sender) {
    return sender != rank && classes_.class_of[sender] == rank_class;
  });
}

}  // namespace tessera
