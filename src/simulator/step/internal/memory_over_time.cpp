#include "simulator/step/internal/memory_over_time.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>

#include "base/error.h"
#include "simulator/step/internal/rank_variables.h"
#include "task_graph/tasks/identical_tasks.h"

namespace tessera {
namespace {

constexpr size_t kLargest = 10;

MemoryKind kind_of(const TaskGraph& graph, RegisterIndex index,
                   const IndexedVector<RegisterIndex, bool>& is_workspace) {
  const Register& reg = graph.registers[index];
  if (is_workspace[index]) return MemoryKind::kWorkspace;
  const Task& producer = graph.tasks[reg.producer];
  switch (producer.kind) {
    case Task::Kind::kFeed: return MemoryKind::kBatch;
    case Task::Kind::kExchange:
    case Task::Kind::kCopy: return MemoryKind::kExchanges;
    case Task::Kind::kCompute:
    case Task::Kind::kFetch: break;
  }
  if (producer.role == Role::kBackward) return MemoryKind::kGradients;
  const bool is_kept = producer.role == Role::kForward &&
                       std::any_of(reg.consumers.begin(), reg.consumers.end(), [&](TaskId task) {
                         return graph.tasks[task].role == Role::kBackward;
                       });
  return is_kept ? MemoryKind::kActivations : MemoryKind::kTemporaries;
}

IndexedVector<RegisterIndex, MemoryKind> kinds_of(const TaskGraph& graph) {
  IndexedVector<RegisterIndex, bool> is_workspace(graph.registers.size(), false);
  for (const Task& task : graph.tasks)
    for (const KernelStep& step : task.steps)
      if (!step.workspace.is_none()) is_workspace[step.workspace] = true;
  IndexedVector<RegisterIndex, MemoryKind> kinds;
  for (RegisterIndex reg : graph.registers.indices())
    kinds.push_back(graph.registers[reg].producer.is_none() ? MemoryKind::kTemporaries
                                                            : kind_of(graph, reg, is_workspace));
  return kinds;
}

/// The parts of one arena that slots use, in pieces that the same slots use. Slots overlap where
/// one is written over another one.
class ArenaPieces {
 public:
  /// Adds (or with `sign` -1 removes) the use of [begin, end) by `kind` to the live bytes. A piece
  /// counts as what the last slot that began is.
  void use(int64_t begin, int64_t end, MemoryKind kind, int sign, BytesByKind& bytes) {
    split(begin);
    split(end);
    auto next = pieces_.lower_bound(begin);
    for (int64_t at = begin; at < end;) {
      if (next == pieces_.end() || next->first > at) {
        ensure(sign > 0, "a slot is released once");
        const int64_t gap_end = next == pieces_.end() ? end : std::min(end, next->first);
        next = pieces_.emplace_hint(next, at, Piece{gap_end, 0, kind});
      }
      Piece& piece = next->second;
      const Bytes size(piece.end - at);
      at = piece.end;
      auto& owned = bytes[static_cast<size_t>(piece.owner)];
      if (piece.count > 0) owned = owned - size;
      piece.count += sign;
      if (sign > 0) piece.owner = kind;
      if (piece.count > 0) bytes[static_cast<size_t>(piece.owner)] += size;
      next = piece.count > 0 ? std::next(next) : pieces_.erase(next);
    }
  }

 private:
  struct Piece {
    int64_t end;
    int count;  // of the slots
    MemoryKind owner;
  };

  /// No piece goes on over `at` afterwards.
  void split(int64_t at) {
    auto next = pieces_.lower_bound(at);
    if (next == pieces_.begin()) return;
    Piece& before = std::prev(next)->second;
    if (before.end <= at) return;
    pieces_.emplace_hint(next, at, before);
    before.end = at;
  }

  std::map<int64_t, Piece> pieces_;  // in use, by begin
};

/// The bytes of a slot in its arena.
std::pair<int64_t, int64_t> place_of(const Register& reg, int slot) {
  const int64_t begin = reg.offset + slot * slot_stride(reg).value();
  return {begin, begin + reg.size.value()};
}

/// Follows one rank through the step.
class Sweep {
 public:
  Sweep(const TaskGraph& graph, const IndexedVector<RegisterIndex, MemoryKind>& kinds, Rank rank,
        std::vector<LiveRange> ranges, Seconds begin)
      : graph_(graph), kinds_(kinds), ranges_(std::move(ranges)), begin_(begin) {
    memory_.rank = rank;
    bytes_[static_cast<size_t>(MemoryKind::kVariables)] = RankVariables(graph).in_memory(rank);
  }

  MemoryOverTime run() {
    struct Event {
      Seconds at;
      bool begins;
      const LiveRange* range;
    };
    std::vector<Event> events;
    for (const LiveRange& range : ranges_) {
      if (range.begin >= range.end || range.end <= begin_) continue;
      events.push_back({std::max(range.begin, begin_), true, &range});
      events.push_back({range.end, false, &range});
    }
    // At one time, what ends is removed first.
    std::stable_sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
      return a.at != b.at ? a.at < b.at : !a.begins && b.begins;
    });
    memory_.moments.push_back({Seconds(0), bytes_});
    times_.push_back(begin_);
    for (const Event& event : events) {
      add(*event.range, event.begins ? 1 : -1);
      note(event.at);
    }
    find_peak();
    find_optimizer_peak();
    return std::move(memory_);
  }

 private:
  void add(const LiveRange& range, int sign) {
    const Register& reg = graph_.registers[range.reg];
    const auto [first, last] = place_of(reg, range.slot);
    arenas_[reg.mesh].use(first, last, kinds_[range.reg], sign, bytes_);
  }

  void note(Seconds at) {
    if (times_.back() == at) {
      memory_.moments.back().bytes = bytes_;
      return;
    }
    memory_.moments.push_back({at - begin_, bytes_});
    times_.push_back(at);
  }

  void find_peak() {
    const auto all = [](const MemoryMoment& moment) { return sum(moment.bytes); };
    memory_.peak = std::ranges::max_element(memory_.moments, {}, all) - memory_.moments.begin();
    const Seconds at = times_[memory_.peak];
    Bytes maximum{0};
    for (const LiveRange& range : ranges_) {
      const Register& reg = graph_.registers[range.reg];
      const Seconds begin = std::max(range.begin, begin_);
      if (begin > at || at >= range.end) continue;
      memory_.largest.push_back({reg.name, kinds_[range.reg], reg.size});
      if (begin != at || reg.size <= maximum) continue;
      maximum = reg.size;
      memory_.filled = reg.name;
    }
    std::ranges::stable_sort(memory_.largest, std::greater(), &PeakRegister::bytes);
    if (memory_.largest.size() > kLargest) memory_.largest.resize(kLargest);
  }

  void find_optimizer_peak() {
    const auto is_kernel_of = [&](const LiveRange& range, Role role) {
      const Task& task = graph_.tasks[graph_.registers[range.reg].producer];
      return task.kind == Task::Kind::kCompute && task.role == role && range.begin >= begin_;
    };
    Seconds backward = begin_;
    for (const LiveRange& range : ranges_)
      if (is_kernel_of(range, Role::kBackward)) backward = std::max(backward, range.begin);
    std::optional<Seconds> from;
    for (const LiveRange& range : ranges_)
      if (is_kernel_of(range, Role::kOptimizer) && range.begin > backward)
        from = std::min(from.value_or(range.begin), range.begin);
    if (!from) return;
    const auto first = std::ranges::lower_bound(times_, *from) - times_.begin();
    const auto all = [](const MemoryMoment& moment) { return sum(moment.bytes); };
    memory_.optimizer_peak =
        std::max_element(memory_.moments.begin() + first, memory_.moments.end(),
                         [&](const auto& a, const auto& b) { return all(a) < all(b); }) -
        memory_.moments.begin();
  }

  const TaskGraph& graph_;
  const IndexedVector<RegisterIndex, MemoryKind>& kinds_;
  const std::vector<LiveRange> ranges_;
  const Seconds begin_;
  std::map<MeshIndex, ArenaPieces> arenas_;
  BytesByKind bytes_ = {};
  std::vector<Seconds> times_;  // of the moments, on the simulated clock
  MemoryOverTime memory_;
};

/// When the kernels of an act run, as parts of it.
class KernelShares {
 public:
  KernelShares(const TaskGraph& graph, ActDemands& acts)
      : graph_(graph),
        acts_(acts),
        identical_(identical_tasks(graph)),
        uses_(graph.registers.size()) {
    for (TaskId id : graph.tasks.indices()) find_uses(id);
  }

  /// The range inside of its act: from the kernel that fills it, and to the last kernel that reads
  /// it when no other task does.
  LiveRange narrowed(LiveRange range) {
    const Uses& uses = uses_[range.reg];
    if (uses.first < 0) return range;
    const std::vector<double>& begins = begins_of(range.rank, uses.producer);
    const Seconds begin = range.begin, length = range.filled - range.begin;
    const auto at = [&](int step) { return begin + Seconds(begins[step] * length.value()); };
    range.begin = at(uses.first);
    if (!uses.is_output) range.end = at(uses.last + 1);
    return range;
  }

 private:
  /// The steps of its producer that fill and read a register.
  struct Uses {
    int first = -1, last = -1;  // the first one that fills it, and the last one; -1: none
    bool is_output = false;     // do other tasks read it?
    TaskId producer;
  };

  void find_uses(TaskId id) {
    const Task& task = graph_.tasks[id];
    const auto fill = [&](RegisterIndex reg, int step) {
      if (reg.is_none() || graph_.registers[reg].producer != id) return;
      if (uses_[reg].first < 0) uses_[reg].first = step;
      uses_[reg].last = step;
      uses_[reg].producer = id;
    };
    for (int i = 0; i < std::ssize(task.steps); ++i) {
      const KernelStep& step = task.steps[i];
      for (RegisterIndex reg : step.outputs) fill(reg, i);
      fill(step.workspace, i);
      for (RegisterIndex reg : step.inputs)
        if (uses_[reg].producer == id) uses_[reg].last = i;
    }
    for (RegisterIndex reg : task.outputs)
      if (uses_[reg].producer == id) uses_[reg].is_output = true;
  }

  /// By step, its begin; then the end of the last one, 1.
  const std::vector<double>& begins_of(Rank rank, TaskId task) {
    std::vector<double>& begins = known_[rank][identical_[task]];
    if (!begins.empty()) return begins;
    begins.push_back(0);
    for (const StepPrice& price : acts_.steps(rank, task))
      begins.push_back(begins.back() + price.time.value());
    const double all = begins.back();
    for (double& begin : begins) begin = all > 0 ? begin / all : 0;
    begins.back() = 1;
    return begins;
  }

  const TaskGraph& graph_;
  ActDemands& acts_;
  const IndexedVector<TaskId, TaskId> identical_;
  IndexedVector<RegisterIndex, Uses> uses_;
  std::map<Rank, std::map<TaskId, std::vector<double>>> known_;
};

}  // namespace

std::string_view to_text(MemoryKind kind) {
  switch (kind) {
    case MemoryKind::kVariables: return "variables";
    case MemoryKind::kBatch: return "batch";
    case MemoryKind::kActivations: return "activations kept for the backward";
    case MemoryKind::kGradients: return "gradients";
    case MemoryKind::kExchanges: return "buffers of exchanges";
    case MemoryKind::kTemporaries: return "temporary results";
    case MemoryKind::kWorkspace: return "workspace of kernels";
  }
  throw InternalError("unknown kind of memory");
}

Bytes sum(const BytesByKind& bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), Bytes(0));
}

std::vector<LiveRange> ranges_by_kernels(const TaskGraph& graph, const Simulation& simulation,
                                         ActDemands& acts) {
  KernelShares shares(graph, acts);
  std::vector<LiveRange> ranges;
  for (const LiveRange& range : simulation.live) ranges.push_back(shares.narrowed(range));
  return ranges;
}

std::vector<MemoryOverTime> memory_over_time(const TaskGraph& graph, const Simulation& simulation,
                                             ActDemands& acts) {
  const IndexedVector<RegisterIndex, MemoryKind> kinds = kinds_of(graph);
  std::map<Rank, std::vector<LiveRange>> by_rank;
  for (const RankTimes& times : simulation.ranks) by_rank[times.representative];
  for (const LiveRange& range : ranges_by_kernels(graph, simulation, acts))
    by_rank.at(range.rank).push_back(range);
  std::vector<MemoryOverTime> list;
  for (auto& [rank, ranges] : by_rank)
    list.push_back(
        Sweep(graph, kinds, rank, std::move(ranges), simulation.end - simulation.step).run());
  return list;
}

}  // namespace tessera
