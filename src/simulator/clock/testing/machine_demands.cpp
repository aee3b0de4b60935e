#include "simulator/clock/testing/machine_demands.h"

#include <algorithm>
#include <map>

#include "base/hash.h"
#include "task_graph/tasks/identical_tasks.h"

namespace tessera {
namespace {

class MachinePrices {
 public:
  MachinePrices(const TaskGraph& graph, const TestMachines& machines)
      : graph_(graph), machines_(machines), ranks_(ranks(graph)) {}

  IndexedVector<ResourceId, Resource> resources() const {
    IndexedVector<ResourceId, Resource> list;
    for (int machine = 0; machine <= machine_of(ranks_.back()); ++machine) {
      list.push_back({"cores", machines_.cores * kCore, Resource::Kind::kCores});
      list.push_back({"bus", machines_.bus});
      list.push_back({"link out", machines_.link});
      list.push_back({"link in", machines_.link});
    }
    return list;
  }

  ActDemand demand(Rank rank, TaskId id) const {
    const Task& task = graph_.tasks[id];
    if (task.kind == Task::Kind::kExchange) return exchange(rank, task);
    if (task.kind == Task::Kind::kCopy) return {900, {}};
    if (task.kind != Task::Kind::kCompute) return {};
    const Coordinate at = *graph_.meshes[task.mesh]->coordinate_of(rank);
    const bool is_slow = machines_.slow_axis >= 0 && machines_.slow_axis < std::ssize(at) &&
                         at[machines_.slow_axis] == 0;
    const int64_t core_time = (1000 + id.value() % 7 * 300) * (is_slow ? 3 : 2) / 2;
    return {500, {{core_time, {{resource(rank, kCores)}}, kCore}}};
  }

 private:
  enum Kind { kCores, kBus, kOut, kIn, kKinds };
  static constexpr int64_t kCore = 1'000'000'000;

  int machine_of(Rank rank) const {
    const auto found = std::lower_bound(ranks_.begin(), ranks_.end(), rank);
    return static_cast<int>(found - ranks_.begin()) / machines_.ranks_per_machine;
  }
  ResourceId resource(Rank rank, Kind kind) const {
    return ResourceId(machine_of(rank) * kKinds + kind);
  }

  ActDemand exchange(Rank rank, const Task& task) const {
    std::map<Rank, int64_t> bytes;
    for (size_t part = 0; part < task.parts.size(); ++part) {
      const TensorType& type = graph_.registers[task.inputs[part]].type;
      for (const RecvRegion& recv_region :
           recv_regions(type.shape, task.parts[part].exchange, rank))
        bytes[recv_region.sender] += element_count(recv_region.box.shape()) * size_of(type.dtype);
    }
    ActDemand demand{700, {}};
    for (const auto& [sender, amount] : bytes) {
      if (sender == rank) continue;
      const bool is_near = machine_of(sender) == machine_of(rank);
      demand.flows.push_back({amount, is_near ? std::vector<ResourceUse>{{resource(rank, kBus)}}
                                              : std::vector<ResourceUse>{{resource(sender, kOut)},
                                                                         {resource(rank, kIn)}}});
    }
    return demand;
  }

  const TaskGraph& graph_;
  const TestMachines machines_;
  const std::vector<Rank> ranks_;
};

}  // namespace

Demands machine_demands(const TaskGraph& graph, const TestMachines& machines) {
  const auto prices = std::make_shared<const MachinePrices>(graph, machines);
  return {.resources = prices->resources(),
          .demand = [prices](Rank rank, TaskId task) { return prices->demand(rank, task); },
          .identical = identical_tasks(graph)};
}

}  // namespace tessera
