#include "simulator/clock/internal/class_programs.h"

#include <algorithm>
#include <iterator>

#include "task_graph/tasks/required_anti_dependences.h"

namespace tessera {

ClassPrograms::ClassPrograms(const TaskGraph& graph, const ClassActors& actors, int classes,
                             bool prefetches)
    : graph_(graph), prefetches_(prefetches) {
  std::map<std::vector<MeshIndex>, size_t> known;  // by the meshes of a class
  for (int rank_class = 0; rank_class < classes; ++rank_class) {
    std::vector<MeshIndex> meshes;
    for (const MeshIndex mesh : graph.meshes.indices())
      if (actors.is_in(rank_class, mesh)) meshes.push_back(mesh);
    const auto [found, is_new] = known.try_emplace(std::move(meshes), programs_.size());
    if (is_new) programs_.push_back(program_of(order_of(actors, rank_class)));
    program_of_.push_back(found->second);
  }
}

TaskStream ClassPrograms::stream_of_task(TaskId id) const {
  const Task& task = graph_.tasks[id];
  return prefetches_ && !task.issue_after.is_none() ? TaskStream::kPrefetch
                                                    : stream_of(graph_, task);
}

ClassProgram ClassPrograms::program_of(const std::vector<TaskId>& order) const {
  ClassProgram program;
  for (const TaskId task : order)
    program.streams[static_cast<size_t>(stream_of_task(task))].tasks.push_back(task);
  sort_prefetches(program.streams[static_cast<size_t>(TaskStream::kPrefetch)].tasks);
  for (ClassProgram::Stream& stream : program.streams)
    if (!stream.tasks.empty()) stream.overwrites = required_anti_dependences(graph_, stream.tasks);
  if (prefetches_) program.issue_edges = issue_edges(order);
  return program;
}

void ClassPrograms::sort_prefetches(std::vector<TaskId>& prefetches) const {
  if (prefetches.empty()) return;
  const IndexedVector<TaskId, int> position = positions();
  const auto begin = [&](TaskId id) {
    const Task& task = graph_.tasks[id];
    int ready = position[task.issue_after];
    for (const RegisterIndex input : task.inputs) {
      const Register& source = graph_.registers[input];
      if (source.mesh != task.mesh) return position[id];
      if (!source.producer.is_none()) ready = std::max(ready, position[source.producer]);
    }
    return ready;
  };
  std::ranges::stable_sort(prefetches, {}, begin);
}

IndexedVector<TaskId, int> ClassPrograms::positions() const {
  IndexedVector<TaskId, int> position(graph_.tasks.size());
  for (int i = 0; i < std::ssize(graph_.order); ++i) position[graph_.order[i]] = i;
  return position;
}

std::vector<std::pair<TaskId, TaskId>> ClassPrograms::issue_edges(
    const std::vector<TaskId>& order) const {
  const IndexedVector<TaskId, int> position = positions();
  std::vector<TaskId> host;  // the tasks of the thread, in order
  std::ranges::copy_if(order, std::back_inserter(host),
                       [&](TaskId task) { return stream_of_task(task) == TaskStream::kHost; });
  // The first task of the thread after a position.
  const auto after = [&](int place) {
    return std::upper_bound(host.begin(), host.end(), place,
                            [&](int at, TaskId task) { return at < position[task]; });
  };
  std::vector<std::pair<TaskId, TaskId>> edges;
  for (const TaskId exchange : order) {
    if (stream_of_task(exchange) != TaskStream::kPrefetch) continue;
    const auto next = after(position[exchange]);
    // The last one up to the issue point.
    const auto issued = std::min(after(position[graph_.tasks[exchange].issue_after]), next);
    if (issued != host.begin()) edges.emplace_back(*(issued - 1), exchange);
    if (next != host.end()) edges.emplace_back(exchange, *next);
  }
  std::ranges::sort(edges);
  return edges;
}

}  // namespace tessera
