// The task graph: all that a run needs to know, as data. The compile half makes it; the run half
// and the simulator read it; nothing else connects the two halves.
//
// Its size does not grow with the number of ranks: each task and each register belongs to one mesh
// and is the same for every rank of it; shapes, peers and parameters are functions of the rank's
// coordinate. Stages of a pipeline are several meshes in one task graph.
//
// Nor do the forms of its tasks and registers (task_graph/tasks/internal/task_forms.h) grow with
// the number of micro-batches. The tables show a task and a register of each micro-batch; of its
// own each has a few numbers: its place in the order list, its offset, and what it is connected
// with.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/kernel_set.h"
#include "sharding/layout/device_kind.h"
#include "task_graph/tasks/internal/task_table.h"

namespace tessera {

/// "F0", "B0", "W0", "O": the pass of a micro-batch, or of the step. A backward in one piece is B.
std::string pass_text(Role role, std::optional<PassKind> pass, int micro_batch);
std::string pass_text(const Task& task);  // "" of feeds and fetches

struct TaskVariable {
  std::string name;
  RegisterIndex value;  // filled by the feed
  Initializer initializer;
};

struct TaskInput {
  std::string name;
  RegisterIndex value;  // holds the whole input, or the rows of one micro-batch: one entry each
  TensorType type;      // of the whole input
};

struct TaskGraph {
  /// One, or one a stage; for each mesh of devices a second one, of their hosts; and for a mesh
  /// with offloaded variables one of the file in which they rest.
  IndexedVector<MeshIndex, MeshPtr> meshes;
  /// By mesh: in which memory its arena and its variables are; empty: all on hosts.
  IndexedVector<MeshIndex, DeviceKind> devices;
  RegisterTable registers;
  TaskTable tasks;
  /// The order list: each stream of a rank executes its tasks of the rank's meshes in this order.
  std::vector<TaskId> order;
  std::vector<TaskVariable> variables;
  std::vector<TaskInput> inputs;
  std::vector<std::pair<std::string, RegisterIndex>> results;  // by name; the fetch gives them
  IndexedVector<MeshIndex, Bytes> arenas;    // by mesh: a rank has the arena of each of its meshes
  std::shared_ptr<const KernelSet> kernels;  // beside the built-in ones; nullptr: none
};

/// Finds the producer and the consumers of each register, what each compute task takes in and gives
/// out, and the numbers of the registers of each task. It is called when the tasks and registers
/// are made or changed.
///   throws  InternalError when a task names a register that does not exist, or two fill one
///   time    O(kernels and exchanges in all micro-batches)
void link(TaskGraph& graph);

DeviceKind device_of(const TaskGraph& graph, MeshIndex mesh);

/// Each stream of a rank executes its tasks in the order of the order list, one at a time,
/// independently of the other streams.
enum class TaskStream {
  kHost,      // the thread of the rank: feeds, fetches, exchanges, and the kernels of hosts
  kCompute,   // kernels of a device
  kCopyIn,    // from the host to a device, or from a file to the host
  kCopyOut,   // back
  kPrefetch,  // in traces: exchanges that were done before their turn, beside the other streams
};
inline constexpr int kTaskStreams = 5;
std::string_view to_text(
    TaskStream stream);  // "acts", "kernels", "copies in", "copies out", "prefetches"
TaskStream stream_of(const TaskGraph& graph, const Task& task);

/// What a While or an If runs: task graphs of their own on the mesh of its task, in the memory of
/// its step. Values of the step are their variables, in order, in the registers of the step: of a
/// While the results, which hold what the loop carries, then the operands that it only reads; of an
/// If the operands after the predicate. A result of a While may be a partial value to which the
/// iterations add: then the first rank begins with the operand, and in the first micro-batch, the
/// others with zeros. An iteration is to a loop what a step is to a program: a body writes the next
/// values of what is carried in place, and has no results.
struct Control {
  enum class Kind { kWhile, kIf };
  Kind kind = Kind::kWhile;
  std::vector<TaskGraph> regions;  // of a While: condition and body; of an If: then and else
  std::vector<int64_t> offsets;    // by region: of its arena in the workspace of the step
  int64_t max_iterations = -1;     // of a While; -1: as many as the condition holds
  /// Bytes of workspace that the regions take.
  Bytes workspace() const;
};
/// The registers of `step` that are the variables of its regions.
std::vector<RegisterIndex> region_variables(const KernelStep& step);

/// The text form: registers, then tasks in order.
std::string to_text(const TaskGraph& graph);

/// What one rank does in a step, a line a task or kernel, with the shapes of its own parts, after
/// the pass that it belongs to:
///
///     F0  y #0: f32[2,3] = dot_general(x #0, w)
///     F0  send y #0 [0:2, 0:3] to 2
///     B0  dz #0 [*]: f32[2,4] = all-reduce(dz #0) with 3
std::string rank_text(const TaskGraph& graph, Rank rank);

/// The order list of one rank in short, by the passes of its kernels: "F0 F1 B0 F2 B1 B2 W0 O".
std::string rank_order_text(const TaskGraph& graph, Rank rank);

/// Checks what every task graph must be: each register is filled by one task before it is read in
/// the order list; no two registers that are alive together share
/// bytes, except the input and the output of a kernel that runs in place; what other ranks read is
/// written over after an overwrite edge only; every offset is aligned and inside the arena.
///   throws  InternalError that names the first offence
void check(const TaskGraph& graph);

/// All the ranks of its meshes, in ascending order.
std::vector<Rank> ranks(const TaskGraph& graph);

/// The local type of a register on the rank at `coordinate`.
TensorType local_type(const Register& reg, const Coordinate& coordinate);
TensorType local_type(const RegisterForm& reg, const Coordinate& coordinate);

}  // namespace tessera
