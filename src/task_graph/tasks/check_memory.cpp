#include <algorithm>
#include <limits>
#include <map>

#include "base/error.h"
#include "task_graph/tasks/check.h"

namespace tessera::task_checks {
namespace {

/// An instant of the order list: a kernel step of a compute task, or a whole task of another kind.
using Instant = int;
constexpr Instant kNever = std::numeric_limits<Instant>::max();

/// One filling of a register: when, and by which kernel (none of a feed or an exchange).
struct Write {
  Instant instant = 0;
  RegisterIndex reg;
  const KernelForm* kernel = nullptr;
};

/// What happens to each register, by instants and by places in the order list.
struct Timeline {
  std::vector<Write> writes;  // in order
  IndexedVector<RegisterIndex, Instant> first,
      last;                                    // filled, and read for the last time on its own rank
  IndexedVector<RegisterIndex, int> released;  // by register: place of the first task that waits
                                               // until all its readers handed it back
};

class TimelineMaker {
 public:
  TimelineMaker(const TaskGraph& graph, const TaskPositions& position)
      : graph_(graph), position_(position) {
    const int count = graph.registers.size();
    timeline_.first.assign(count, kNever);
    timeline_.last.assign(count, -1);
    timeline_.released.assign(count, std::numeric_limits<int>::max());
    for (TaskId task : graph.tasks.indices())
      if (const TaskId after = graph.tasks[task].issue_after; !after.is_none())
        early_[after].push_back(task);
  }

  Timeline make() {
    for (TaskId id : graph_.order) {
      const Task task = task_at(graph_, id);
      for (RegisterIndex reg : task.overwrites) {
        if (position_[register_at(graph_, reg).producer] >= position_[id])
          continue;  // of the step before
        int& released = timeline_.released[reg];
        released = std::min(released, position_[id]);
      }
      task.kind == Task::Kind::kCompute ? add_steps(id, task) : add_act(task);
      add_prefetches(id);
    }
    return std::move(timeline_);
  }

 private:
  void add_steps(TaskId id, const Task& task) {
    for (const KernelForm& kernel : graph_.tasks.form_of(id).steps) {
      if (!task.steps.is_called(kernel)) continue;
      const KernelStep step = task.steps.step(kernel);
      for (RegisterIndex reg : step.inputs) read(reg);
      for (RegisterIndex reg : step.outputs) write(reg, &kernel);
      if (!step.workspace.is_none()) write(step.workspace, &kernel);
      ++now_;
    }
  }
  void add_act(const Task& task) {
    for (RegisterIndex reg : task.inputs) read(reg);
    for (RegisterIndex reg : task.outputs)
      task.issue_after.is_none() ? write(reg, nullptr) : read(reg);
    ++now_;
  }
  /// From here on the bytes of the exchanges whose issue point is `task` belong to them.
  void add_prefetches(TaskId task) {
    const auto of_task = early_.find(task);
    if (of_task == early_.end()) return;
    for (TaskId exchange : of_task->second)
      for (RegisterIndex reg : task_at(graph_, exchange).outputs) write(reg, nullptr);
    ++now_;
  }
  void read(RegisterIndex reg) { timeline_.last[reg] = now_; }
  void write(RegisterIndex reg, const KernelForm* kernel) {
    timeline_.writes.push_back({now_, reg, kernel});
    timeline_.first[reg] = now_;
    timeline_.last[reg] = now_;
  }

  const TaskGraph& graph_;
  const TaskPositions& position_;
  std::map<TaskId, std::vector<TaskId>> early_;  // by task: the exchanges that it is issue point of
  Timeline timeline_;
  Instant now_ = 0;
};

/// The content of the memory: the arena and each variable are spaces of their own, of which each
/// byte belongs to the register that was written there last.
class MemoryMap {
 public:
  /// The former owners of [begin, end), which is now `owner`'s.
  std::vector<RegisterIndex> take(int64_t begin, int64_t end, RegisterIndex owner) {
    split_at(begin);
    split_at(end);
    std::vector<RegisterIndex> former;
    const auto first = pieces_.lower_bound(begin);
    auto after = first;
    for (; after != pieces_.end() && after->first < end; ++after)
      former.push_back(after->second.owner);
    pieces_.erase(first, after);
    pieces_[begin] = {end, owner};
    return former;
  }

 private:
  struct Piece {
    int64_t end = 0;
    RegisterIndex owner;
  };
  void split_at(int64_t at) {
    auto after = pieces_.lower_bound(at);
    if (after == pieces_.begin()) return;
    Piece& piece = std::prev(after)->second;
    if (piece.end <= at) return;
    pieces_[at] = piece;
    piece.end = at;
  }

  std::map<int64_t, Piece> pieces_;
};

void check_place(const TaskGraph& graph, const Register& reg) {
  const Bytes needed = byte_size({reg.type->dtype, reg.attr.largest_shape(reg.type->shape)});
  if (reg.size < needed)
    offence(reg, "has " + std::to_string(reg.size.value()) + " bytes and needs " +
                     std::to_string(needed.value()));
  if (reg.storage == Register::Storage::kVariable) {
    const Register value = register_at(graph, graph.variables[reg.variable].value);
    if (reg.slots != 1) offence(reg, "is in a variable and has several slots");
    if (!(reg.type == value.type && reg.attr == value.attr))
      offence(reg, "is in a variable of another type or placement");
    return;
  }
  if (reg.offset < 0 || reg.offset % kTensorAlignment != 0)
    offence(reg, "is not aligned: offset " + std::to_string(reg.offset));
  const int64_t end = reg.offset + total_size(reg).value();
  const int64_t arena = graph.arenas[reg.mesh].value();
  if (end > arena)
    offence(reg,
            "ends at byte " + std::to_string(end) + " of an arena of " + std::to_string(arena));
}

/// Does the step read `old` at the very element that it writes?
bool is_in_place(const TaskGraph& graph, RegisterIndex old, const Write& write) {
  if (!write.kernel) return false;
  const KernelStep step =
      task_at(graph, register_at(graph, write.reg).producer).steps.step(*write.kernel);
  if (step.outputs.empty() || step.outputs[0] != write.reg) return false;
  const Register a = register_at(graph, old);
  const Register b = register_at(graph, write.reg);
  return a.type == b.type && a.attr == b.attr && a.offset == b.offset && a.slots == 1 &&
         b.slots == 1 && may_write_over(step, old, graph.kernels.get());
}

/// Do other ranks read it, or another stream? They may be behind, so that the order list alone
/// does not protect it.
bool is_read_elsewhere(const TaskGraph& graph, const Register& reg) {
  return std::any_of(reg.consumers.begin(), reg.consumers.end(), [&](TaskId consumer) {
    const Task task = task_at(graph, consumer);
    return task.kind == Task::Kind::kCopy || (task.kind == Task::Kind::kExchange &&
                                              task.parts[0].exchange.kind != ReshardKind::kSlice);
  });
}

bool is_copy(const TaskGraph& graph, TaskId task) {
  return task_at(graph, task).kind == Task::Kind::kCopy;
}

bool contains(std::span<const RegisterIndex> list, RegisterIndex reg) {
  return std::find(list.begin(), list.end(), reg) != list.end();
}

/// Has the producer of `old` acted when `copy`, which runs on a stream of its own beside the order
/// list, has waited for what it overwrites? Its own stream has filled `old` before; or the producer
/// reads such a register, for whose readers the copy waits, too.
bool is_filled_before(const TaskGraph& graph, const Register& old, const Task& copy) {
  const auto is_of_stream = [&](TaskId task) {
    return is_copy(graph, task) &&
           stream_of(graph, task_at(graph, task)) == stream_of(graph, copy) &&
           task_at(graph, task).mesh == copy.mesh;
  };
  if (is_of_stream(old.producer)) return true;
  const std::span<const RegisterIndex> read = task_at(graph, old.producer).inputs;
  return std::any_of(read.begin(), read.end(), [&](RegisterIndex reg) {
    return is_of_stream(register_at(graph, reg).producer) && contains(copy.overwrites, reg);
  });
}

/// Has the stream of `writer` read the register, which a copy fills, no later than in `writer`?
/// Then it is filled before the writer acts.
bool is_read_before(const TaskGraph& graph, const Register& copied, TaskId writer,
                    const TaskPositions& position) {
  const auto stream = [&](TaskId task) { return stream_of(graph, task_at(graph, task)); };
  return std::any_of(copied.consumers.begin(), copied.consumers.end(), [&](TaskId reader) {
    return stream(reader) == stream(writer) && position[reader] <= position[writer];
  });
}

/// Copies run on streams of their own, which may be ahead of the order list or after it.
void check_copied(const TaskGraph& graph, const TaskPositions& position, RegisterIndex old,
                  const Register& written) {
  const Register a = register_at(graph, old);
  if (a.storage != Register::Storage::kArena) return;
  const Task writer = task_at(graph, written.producer);
  const auto refuse = [&] {
    offence(written,
            "shares bytes with '" + a.name + "', and one of them is copied beside the order");
  };
  if (writer.kind == Task::Kind::kCopy) {
    if (!is_filled_before(graph, a, writer) ||
        (!a.consumers.empty() && !contains(writer.overwrites, old)))
      refuse();
  } else if (is_copy(graph, a.producer)) {
    if (!is_read_before(graph, a, written.producer, position)) refuse();
  }
}

void check_sharing(const TaskGraph& graph, const Timeline& timeline, const TaskPositions& position,
                   RegisterIndex old, const Write& write) {
  const Register a = register_at(graph, old);
  const Register b = register_at(graph, write.reg);
  const bool was_read_at_once =
      timeline.last[old] == write.instant && timeline.first[old] < write.instant;
  const bool is_dead =
      timeline.last[old] < write.instant || (was_read_at_once && is_in_place(graph, old, write));
  check_copied(graph, position, old, b);
  if (!is_dead) offence(b, "is written over '" + a.name + "', which is still alive");
  const Task writer = task_at(graph, b.producer);
  const auto waits_itself = [&] {
    const auto& list = writer.overwrites;
    return std::find(list.begin(), list.end(), old) != list.end();
  };
  const int begins = position[writer.issue_after.is_none() ? b.producer : writer.issue_after];
  const bool is_read_beside =
      is_read_elsewhere(graph, a) || (writer.kind == Task::Kind::kCopy && !a.consumers.empty());
  if (is_read_beside && timeline.released[old] > begins && !waits_itself())
    offence(b, "is written over '" + a.name +
                   "', which other ranks or streams read, and no overwrite edge waits for them");
}

/// A copy may run ahead of the rest of the step before, whose registers its target shares bytes
/// with: it must wait for their readers.
void check_sharing_with_step_before(const TaskGraph& graph, RegisterIndex old, const Write& write) {
  const Register written = register_at(graph, write.reg);
  if (old == write.reg || contains(task_at(graph, written.producer).overwrites, old)) return;
  offence(written, "shares bytes with '" + register_at(graph, old).name +
                       "' of the step before, and one of them is copied beside the order");
}

/// A task that waits for a later reader would wait for ever.
void check_overwrites(const TaskGraph& graph, const TaskPositions& position) {
  for (TaskId t : graph.tasks.indices())
    for (RegisterIndex reg : graph.tasks[t].overwrites) {
      const Register old = register_at(graph, reg);
      if (position[old.producer] >= position[t])
        continue;  // it waits for the readers of the step before
      for (TaskId consumer : old.consumers)
        if (position[consumer] > position[t])
          offence(graph.tasks[t], "overwrites " + old.name + ", which " +
                                      task_at(graph, consumer).name + " reads later");
    }
}

}  // namespace

void check_memory(const TaskGraph& graph) {
  for (const Register& reg : graph.registers) check_place(graph, reg);
  const TaskPositions position = positions(graph);
  for (TaskId t : graph.tasks.indices())
    if (const Task task = graph.tasks[t];
        !task.issue_after.is_none() && position[task.issue_after] >= position[t])
      offence(task, "has the issue point " + task_at(graph, task.issue_after).name +
                        ", which comes later");
  check_overwrites(graph, position);
  const Timeline timeline = TimelineMaker(graph, position).make();
  std::map<int, MemoryMap> spaces;  // the arena of mesh i is space -1 - i, a variable is its own
  const auto in_arena = [&](const Write& write) {
    return register_at(graph, write.reg).storage == Register::Storage::kArena;
  };
  const auto take = [&](const Write& write) -> std::vector<RegisterIndex> {
    const Register reg = register_at(graph, write.reg);
    if (total_size(reg) == Bytes(0)) return {};
    const int64_t begin = in_arena(write) ? reg.offset : 0;
    return spaces[in_arena(write) ? -1 - reg.mesh.value() : reg.variable].take(
        begin, begin + total_size(reg).value(), write.reg);
  };
  for (const Write& write : timeline.writes)
    for (const RegisterIndex old : take(write))
      check_sharing(graph, timeline, position, old, write);
  // Once more: what the first writes find now is of the step before.
  IndexedVector<RegisterIndex, bool> is_of_this_step(graph.registers.size(), false);
  for (const Write& write : timeline.writes) {
    const bool is_copied =
        in_arena(write) && is_copy(graph, register_at(graph, write.reg).producer);
    for (const RegisterIndex old : take(write))
      if (is_copied && !is_of_this_step[old]) check_sharing_with_step_before(graph, old, write);
    is_of_this_step[write.reg] = true;
  }
}

}  // namespace tessera::task_checks
