// A task graph bound to the ranks of this process, with the regions of its Whiles and Ifs.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "base/units.h"
#include "runtime/executor/internal/program_ranks.h"
#include "runtime/executor/internal/rank_executor.h"
#include "runtime/memory/program_context.h"
#include "task_graph/tasks/task_graph.h"

namespace tessera {

/// The setting that all programs of a runtime share.
struct ProgramSetting {
  std::vector<Rank> ranks;      // by rank index, ascending
  std::vector<int> process_of;  // by rank index
  RuntimeOptions options;
  StopState* stop = nullptr;
  VariableStore* variables = nullptr;
  RankDevices* devices = nullptr;
  std::vector<RankArenas>* arenas = nullptr;  // by rank index
  SpinPolicy spin_policy;
  ProcessNetwork* network = nullptr;
};

///   order  the constructor; make_rank() and bind_rank() of each rank, on its own thread and with a
///          barrier after each; open(); join_groups() of each rank; then steps
class BoundProgram {
 public:
  /// `new_number`: returns the number of a program or a region, the same in all processes.
  BoundProgram(std::shared_ptr<const TaskGraph> graph, const ProgramSetting& setting,
               const std::function<int()>& new_number, bool is_region = false);
  ~BoundProgram();
  BoundProgram(const BoundProgram&) = delete;
  BoundProgram& operator=(const BoundProgram&) = delete;

  const TaskGraph& graph() const { return *ranks_.context().graph; }

  /// Allocates the memory of a rank and finds what its exchanges receive.
  void make_rank(int rank_index) { make_rank(rank_index, nullptr); }
  void bind_rank(int rank_index);
  /// Opens the program for messages of other processes.  requires  several processes
  void open();

  RankExecutor& rank(int rank_index) { return *executors_[rank_index]; }
  /// Records what a rank does from the next step on, in regions too; nullptr: nothing is recorded.
  void record_into(int rank_index, Recorder* recorder);
  /// The memory of a rank for received data.
  Bytes staging_bytes(int rank_index);

 private:
  void make_rank(int rank_index, std::byte* lent_arena);
  void make_regions(int rank_index, const KernelStep& step);
  bool finds_recv_regions_of(int receiver, int rank_index) const;
  template <typename Visit>
  void for_each_region(const Visit& visit) {
    for (const auto& [control, regions] : regions_)
      for (const auto& region : regions) visit(*region);
  }

  ProgramRanks ranks_;
  std::vector<std::unique_ptr<RankExecutor>> executors_;  // by rank index
  std::map<const Control*, std::vector<std::unique_ptr<BoundProgram>>> regions_;
};

}  // namespace tessera
