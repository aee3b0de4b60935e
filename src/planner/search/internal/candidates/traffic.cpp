#include "planner/search/internal/candidates/traffic.h"

#include <algorithm>
#include <vector>

#include "base/text/text.h"
#include "sharding/reshard/exchange.h"
#include "sharding/reshard/transfer_cache.h"
#include "task_graph/tasks/identical_tasks.h"

namespace tessera {
namespace {

struct Received {
  int64_t bytes = 0, messages = 0;
};

/// What each rank receives in one exchange task; the parts from one sender are one message.
std::map<Rank, Received> received_in(const TaskGraph& graph, const Task& task,
                                     TransferCache& transfers) {
  std::map<Rank, Received> list;
  for (Rank rank : graph.meshes[task.mesh]->ranks()) {
    std::map<Rank, int64_t> by_sender;
    for (size_t i = 0; i < task.parts.size(); ++i) {
      const TensorType& type = graph.registers[task.outputs[i]].type;
      for (const RecvElements& received : transfers.at(type.shape, task.parts[i].exchange, rank))
        if (received.sender != rank)
          by_sender[received.sender] += received.count * size_of(type.dtype);
    }
    Received& sum = list[rank];
    for (const auto& [sender, bytes] : by_sender) sum.bytes += bytes;
    sum.messages = std::ssize(by_sender);
  }
  return list;
}

bool sends(const std::map<Rank, Received>& received) {
  return std::ranges::any_of(received, [](const auto& rank) { return rank.second.messages > 0; });
}

std::string axes_of(const Task& task) {
  std::vector<std::string> names;
  for (const ExchangePart& part : task.parts)
    for (std::string& name : changed_axes(part.exchange))
      if (std::ranges::find(names, name) == names.end()) names.push_back(std::move(name));
  std::ranges::sort(names);
  return join(names, ",");
}

bool is_in_arena(const TaskGraph& graph, RegisterIndex index) {
  return graph.registers[index].storage == Register::Storage::kArena;
}

/// The bytes in the arena that an exchange of variables alone fills; none of another exchange.
Bytes results_of_variables(const TaskGraph& graph, const Task& exchange) {
  Bytes sum{0};
  for (const RegisterIndex input : exchange.inputs)
    if (is_in_arena(graph, input)) return sum;
  for (const RegisterIndex output : exchange.outputs)
    if (is_in_arena(graph, output)) sum += graph.registers[output].size;
  return sum;
}

}  // namespace

Traffic traffic_of(const TaskGraph& graph) {
  const IndexedVector<TaskId, TaskId> identical = identical_tasks(graph);
  TransferCache transfers;
  std::map<TaskId, std::map<Rank, Received>> known;
  std::map<Rank, Received> by_rank;
  Traffic traffic;
  for (TaskId id : graph.order) {
    const Task& task = graph.tasks[id];
    if (task.kind != Task::Kind::kExchange) continue;
    auto found = known.find(identical[id]);
    if (found == known.end())
      found = known.emplace(identical[id], received_in(graph, task, transfers)).first;
    traffic.exchanges += sends(found->second) ? 1 : 0;
    traffic.largest_of_variables =
        std::max(traffic.largest_of_variables, results_of_variables(graph, task));
    Bytes& over = traffic.bytes_over[axes_of(task)];
    for (const auto& [rank, received] : found->second) {
      over += Bytes(received.bytes);
      by_rank[rank].bytes += received.bytes;
      by_rank[rank].messages += received.messages;
    }
  }
  for (const auto& [rank, received] : by_rank) {
    traffic.bytes += Bytes(received.bytes);
    traffic.messages += received.messages;
    traffic.max_bytes = std::max(traffic.max_bytes, Bytes(received.bytes));
    traffic.max_messages = std::max(traffic.max_messages, received.messages);
  }
  return traffic;
}

}  // namespace tessera
