#include "simulator/step/internal/runtime_memory.h"

#include <algorithm>
#include <set>
#include <vector>

#include "simulator/step/internal/memory_over_time.h"

namespace tessera {
namespace {

/// The registers of a graph in memory.
class Written {
 public:
  Written(const TaskGraph& graph, ActDemands& acts) : acts_(acts) {
    for (const TaskId id : graph.tasks.indices()) {
      const Task& task = graph.tasks[id];
      if (task.kind != Task::Kind::kCompute) {
        registers_.insert(task.outputs.begin(), task.outputs.end());
        continue;
      }
      for (const FusedKernel& kernel : acts.kernels_of(id)) add(task, kernel);
    }
  }

  bool contains(RegisterIndex reg) const { return registers_.contains(reg); }
  /// What a register that is not in memory is computed from again: the nearest ones that are.
  const std::vector<RegisterIndex>* sources(RegisterIndex reg) const {
    const auto found = sources_.find(reg);
    return found == sources_.end() ? nullptr : &found->second;
  }

 private:
  void add(const Task& task, const FusedKernel& kernel) {
    registers_.insert(kernel.writes.begin(), kernel.writes.end());
    for (const size_t index : kernel.steps) {
      const KernelStep& step = task.steps[index];
      std::vector<RegisterIndex> nearest;
      for (const RegisterIndex input : step.inputs)
        for (const RegisterIndex read : acts_.kernels_read(input)) {
          const auto made = sources_.find(read);
          if (contains(read) || made == sources_.end())
            nearest.push_back(read);
          else
            nearest.insert(nearest.end(), made->second.begin(), made->second.end());
        }
      std::ranges::sort(nearest);
      nearest.erase(std::unique(nearest.begin(), nearest.end()), nearest.end());
      for (const RegisterIndex output : step.outputs)
        if (!contains(output)) sources_[output] = nearest;
    }
  }

  ActDemands& acts_;
  std::set<RegisterIndex> registers_;
  std::map<RegisterIndex, std::vector<RegisterIndex>> sources_;
};

class RankMemory {
 public:
  void add(const LiveRange& range) {
    LiveRange& known = ranges_.try_emplace(range.reg, range).first->second;
    known.begin = std::min(known.begin, range.begin);
    known.end = std::max(known.end, range.end);
  }

  /// Sources live as long as what is computed from them again.
  void extend(const Written& written) {
    for (const auto& [reg, range] : std::map<RegisterIndex, LiveRange>(ranges_))
      if (const auto* sources = written.sources(reg)) extend(*sources, range.end, written, 0);
  }

  Bytes peak(const TaskGraph& graph, const Written& written, ActDemands& acts,
             Seconds begin) const {
    std::vector<std::pair<Seconds, int64_t>> changes;
    for (const auto& [reg, range] : ranges_) {
      if (!written.contains(reg) || range.end <= begin) continue;
      const int64_t size = graph.registers[reg].size.value() + acts.bytes_of_scores(reg).value();
      changes.emplace_back(range.begin, size);
      changes.emplace_back(range.end, -size);
    }
    std::ranges::sort(changes);  // what ends at a time is removed first
    int64_t live = 0, most = 0;
    for (const auto& [at, change] : changes) most = std::max(most, live += change);
    return Bytes(most);
  }

 private:
  void extend(const std::vector<RegisterIndex>& sources, Seconds end, const Written& written,
              int depth) {
    constexpr int kLongestChain = 16;  // in a row, none of which writes
    for (const RegisterIndex source : sources) {
      const auto found = ranges_.find(source);
      if (found != ranges_.end()) found->second.end = std::max(found->second.end, end);
      if (const auto* further = written.sources(source); further && depth < kLongestChain)
        extend(*further, end, written, depth + 1);
    }
  }

  std::map<RegisterIndex, LiveRange> ranges_;
};

}  // namespace

std::map<Rank, Bytes> live_peaks(const TaskGraph& graph, const Simulation& simulation,
                                 ActDemands& acts) {
  const Written written(graph, acts);
  std::map<Rank, RankMemory> ranks;
  for (const LiveRange& range : ranges_by_kernels(graph, simulation, acts))
    ranks[range.rank].add(range);
  std::map<Rank, Bytes> peaks;
  for (auto& [rank, memory] : ranks) {
    memory.extend(written);
    peaks[rank] = memory.peak(graph, written, acts, simulation.end - simulation.step);
  }
  return peaks;
}

}  // namespace tessera
