#include "simulator/clock/internal/live_ranges.h"

#include <algorithm>
#include <tuple>
#include <unordered_map>

namespace tessera {
namespace {

/// By task: the registers of an arena that only its own kernels use.
IndexedVector<TaskId, std::vector<RegisterIndex>> own_registers(const TaskGraph& graph) {
  IndexedVector<TaskId, std::vector<RegisterIndex>> own(graph.tasks.size());
  for (TaskId id : graph.tasks.indices()) {
    const Task& task = graph.tasks[id];
    const auto add = [&](RegisterIndex reg) {
      if (reg.is_none() || graph.registers[reg].storage != Register::Storage::kArena) return;
      if (std::find(task.outputs.begin(), task.outputs.end(), reg) == task.outputs.end())
        own[id].push_back(reg);
    };
    for (const KernelStep& step : task.steps) {
      for (RegisterIndex reg : step.outputs) add(reg);
      add(step.workspace);
    }
  }
  return own;
}

/// A slot that was filled: the ranges are found by it when its readers release it.
using SlotKey = std::tuple<RegisterId, int64_t>;  // the register and its iteration
struct SlotHash {
  size_t operator()(const SlotKey& key) const {
    return std::hash<int64_t>()((std::get<1>(key) << 32) ^ std::get<0>(key));
  }
};

}  // namespace

std::vector<LiveRange> live_ranges(const SimulatedRanks& ranks, const SimulatedRun& run,
                                   int64_t begin) {
  const TaskGraph& graph = ranks.graph();
  const ClassActors& actors = ranks.actors();
  const auto own = own_registers(graph);
  std::vector<LiveRange> list;
  std::unordered_map<SlotKey, size_t, SlotHash> filled;
  for (const SimulatedAct& act : run.acts) {
    const int rank_class = actors.class_of(act.actor);
    const TaskId id = actors.task_of(act.actor);
    const Task& task = graph.tasks[id];
    LiveRange range{.rank = ranks.representative(rank_class),
                    .reg = RegisterIndex(),
                    .begin = seconds(act.start),
                    .end = seconds(act.end),
                    .filled = seconds(act.end)};
    const auto add = [&](RegisterIndex reg, int slot) {
      range.reg = reg;
      range.slot = slot;
      list.push_back(range);
    };
    for (size_t i = 0; i < task.outputs.size(); ++i) {
      const RegisterIndex reg = task.outputs[i];
      if (graph.registers[reg].storage != Register::Storage::kArena) continue;
      filled[{actors.register_id(rank_class, reg), act.act.iteration}] = list.size();
      add(reg, act.act.output_slots.at(i));
    }
    if (act.end > begin)
      for (RegisterIndex reg : own[id]) add(reg, 0);
  }
  for (const SimulatedMessage& sent : run.messages) {
    if (sent.message.kind != Message::Kind::kReleased) continue;
    const auto found = filled.find({sent.message.reg, sent.message.iteration});
    if (found == filled.end()) continue;
    LiveRange& range = list[found->second];
    range.end = std::max(range.end, seconds(sent.arrived));
  }
  std::erase_if(list, [&](const LiveRange& range) { return range.end <= seconds(begin); });
  return list;
}

}  // namespace tessera
