// The constant data that the ranks of a loaded program share: the task graph, its actors, and the
// process of each rank.
#pragma once

#include <memory>
#include <vector>

#include "base/units.h"
#include "runtime/comm/mailbox.h"
#include "runtime/comm/network.h"
#include "runtime/comm/stop_state.h"
#include "runtime/memory/internal/rank_arenas.h"
#include "runtime/memory/internal/rank_device.h"
#include "runtime/memory/run_types.h"
#include "runtime/memory/variable_store.h"
#include "task_graph/actors/task_actors.h"
#include "task_graph/tasks/task_graph.h"

namespace tessera {

struct ProgramContext {
  std::shared_ptr<const TaskGraph> graph;
  std::vector<Rank> ranks;  // by rank index, ascending
  RuntimeOptions options;
  StopState* stop = nullptr;
  VariableStore* variables = nullptr;
  RankDevices* devices = nullptr;
  std::vector<RankArenas>* arenas = nullptr;  // by rank index
  SpinPolicy spin_policy;
  std::unique_ptr<TaskActors> actors = nullptr;  // of all ranks
  ProcessNetwork* network = nullptr;             // nullptr: this process runs all ranks
  std::vector<int> process_of = {};              // by rank index
  int number = 0;  // identifies the program in all processes; unique among programs and regions
  bool is_region = false;  // of a While or an If: the step that runs it lends its memory

  bool is_here(int rank_index) const {
    return !network || process_of[rank_index] == network->process();
  }
  int index_of(Rank rank) const { return actors->index_of(rank); }
  Register reg(RegisterIndex index) const { return graph->registers[index]; }
  Task task(TaskId id) const { return graph->tasks[id]; }
  Task task_of(ActorId actor) const { return task(actors->task_of(actor)); }
  Register register_of(RegisterId id) const { return reg(actors->register_of(id)); }
};

}  // namespace tessera
