#include "simulator/step/rank_traffic.h"

#include <map>
#include <tuple>

#include "sharding/reshard/recv_regions.h"
#include "simulator/step/internal/exchange_names.h"
#include "task_graph/tasks/identical_tasks.h"

namespace tessera {

std::vector<PairTraffic> rank_traffic(const TaskGraph& graph) {
  const IndexedVector<TaskId, TaskId> identical = identical_tasks(graph);
  std::map<TaskId, int64_t> counts;  // of distinct exchanges
  for (TaskId id : graph.tasks.indices())
    if (graph.tasks[id].kind == Task::Kind::kExchange) ++counts[identical[id]];
  std::map<std::tuple<Rank, Rank, std::string>, PairTraffic> traffic;
  for (const auto& [id, count] : counts) {
    const Task& task = graph.tasks[id];
    const std::string axes = axes_of(task);
    for (Rank to : graph.meshes[task.mesh]->ranks()) {
      std::map<Rank, int64_t> bytes;
      for (size_t i = 0; i < task.parts.size(); ++i) {
        const TensorType& type = graph.registers[task.outputs[i]].type;
        for (const RecvRegion& recv_region : recv_regions(type.shape, task.parts[i].exchange, to))
          if (recv_region.sender != to)
            bytes[recv_region.sender] += byte_size({type.dtype, recv_region.box.shape()}).value();
      }
      for (const auto& [from, amount] : bytes) {
        PairTraffic& pair =
            traffic.try_emplace({from, to, axes}, PairTraffic{from, to, axes}).first->second;
        pair.bytes += Bytes(amount * count);
        pair.messages += count;
      }
    }
  }
  std::vector<PairTraffic> list;
  for (auto& [key, pair] : traffic) list.push_back(std::move(pair));
  return list;
}

}  // namespace tessera
