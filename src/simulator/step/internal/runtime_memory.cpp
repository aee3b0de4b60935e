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

/// The bytes of registers in memory, found when they are asked for; 0 of others.
class WrittenSizes {
 public:
  WrittenSizes(const TaskGraph& graph, const Written& written, ActDemands& acts)
      : graph_(graph), written_(written), acts_(acts), sizes_(graph.registers.size(), -1) {}

  int64_t of(RegisterIndex reg) {
    int64_t& size = sizes_[reg];
    if (size < 0)
      size = written_.contains(reg)
                 ? graph_.registers[reg].size.value() + acts_.bytes_of_scores(reg).value()
                 : 0;
    return size;
  }

 private:
  const TaskGraph& graph_;
  const Written& written_;
  ActDemands& acts_;
  IndexedVector<RegisterIndex, int64_t> sizes_;
};

class RankMemory {
 public:
  explicit RankMemory(const TaskGraph& graph) : ranges_(graph.registers.size()) {}

  void add(const LiveRange& range) {
    LiveRange& known = ranges_[range.reg];
    if (known.reg.is_none()) {
      known = range;
      return;
    }
    known.begin = std::min(known.begin, range.begin);
    known.end = std::max(known.end, range.end);
  }

  /// Sources live as long as what is computed from them again.
  void extend(const Written& written) {
    const IndexedVector<RegisterIndex, LiveRange> before = ranges_;
    for (const RegisterIndex reg : before.indices())
      if (!before[reg].reg.is_none())
        if (const auto* sources = written.sources(reg))
          extend(*sources, before[reg].end, written, 0);
  }

  Bytes peak(WrittenSizes& sizes, Seconds begin) const {
    std::vector<std::pair<Seconds, int64_t>> changes;
    for (const LiveRange& range : ranges_) {
      if (range.reg.is_none() || range.end <= begin) continue;
      const int64_t size = sizes.of(range.reg);
      if (size == 0) continue;
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
      LiveRange& known = ranges_[source];
      if (!known.reg.is_none()) known.end = std::max(known.end, end);
      if (const auto* further = written.sources(source); further && depth < kLongestChain)
        extend(*further, end, written, depth + 1);
    }
  }

  IndexedVector<RegisterIndex, LiveRange> ranges_;  // none: it does not live
};

}  // namespace

std::map<Rank, Bytes> live_peaks(const TaskGraph& graph, const Simulation& simulation,
                                 ActDemands& acts) {
  const Written written(graph, acts);
  WrittenSizes sizes(graph, written, acts);
  std::map<Rank, RankMemory> ranks;
  for (const LiveRange& range : ranges_by_kernels(graph, simulation, acts))
    ranks.try_emplace(range.rank, graph).first->second.add(range);
  std::map<Rank, Bytes> peaks;
  for (auto& [rank, memory] : ranks) {
    memory.extend(written);
    peaks[rank] = memory.peak(sizes, simulation.end - simulation.step);
  }
  return peaks;
}

}  // namespace tessera
