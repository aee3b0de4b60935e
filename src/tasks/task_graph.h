// The task graph: all that a run needs to know, as data. The compile half makes it; the run half
// and the simulator read it; nothing else connects the two halves.
//
// Its size does not grow with the number of ranks: each task and each register belongs to one mesh
// and is the same for every rank of it; shapes, peers and parameters are functions of the rank's
// coordinate. Stages of a pipeline are several meshes in one task graph.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/index.h"
#include "base/shared.h"
#include "base/text/numbered_text.h"
#include "base/units.h"
#include "graph/graph.h"
#include "kernels/kernel.h"
#include "kernels/kernel_set.h"
#include "reshard/reshard.h"
#include "shard/layout/device_kind.h"
#include "tasks/pass_kind.h"

namespace tessera {

using TaskId = Index<struct TaskTag>;             // in TaskGraph::tasks
using RegisterIndex = Index<struct RegisterTag>;  // in TaskGraph::registers
using MeshIndex = Index<struct MeshTag>;          // in TaskGraph::meshes

/// Which micro-batch of a step a register belongs to, and which part of the tensor it holds.
struct MicroBatch {
  int index = -1;  // -1: once a step
  /// The dim of the whole tensor of which the register holds [begin, begin + extent); -1: it holds
  /// the partial value of one micro-batch.
  int dim = -1;
  int64_t begin = 0;

  bool operator==(const MicroBatch&) const = default;
};

/// A chunk of a tensor (lower/passes/collective_matmul.h). The dim `dim` of the tensor is `blocks`
/// equal blocks, each of `count` equal parts, and the chunk is the index-th part of every block.
/// The part of a rank is whole blocks, so that every rank has its part of every chunk.
struct Chunk {
  int dim = -1;  // -1: the register has the whole tensor, or the whole of its micro-batch
  int64_t blocks = 1;
  int64_t count = 1;
  int64_t index = 0;

  bool operator==(const Chunk&) const = default;
};

/// A piece of memory that one task fills and others read.
struct Register {
  enum class Storage { kArena, kVariable };

  /// The name of the value; a resharded copy adds its placement: "y [@dp, *]"; a register of one of
  /// several micro-batches adds its number: "y #2".
  NumberedText name;
  Shared<TensorType> type;  // of the whole tensor, of one micro-batch of it, or of a chunk of it
  MicroBatch micro_batch;
  DistAttr attr;
  MeshIndex mesh{0};  // that of attr
  int slots = 1;      // instances of the register that may be alive at once
  Storage storage = Storage::kArena;
  /// Of kArena: bytes from the start of its mesh's arena, the same for every rank; planned for the
  /// rank of the greatest weights.
  int64_t offset = 0;
  Bytes size{0};  // at the rank of the greatest weights, which without weights is the origin
  /// Of kVariable: the index in TaskGraph::variables; the next value of a variable may share its
  /// memory.
  int variable = -1;
  Chunk chunk = {};
  TaskId producer;
  /// Other tasks that read it, on this or on other ranks (an exchange reads the registers of its
  /// senders).
  std::vector<TaskId> consumers;
};
/// Bytes from one slot of a register to the next: its size, up to the next aligned offset.
Bytes slot_stride(const Register& reg);
/// Bytes that all its slots take.
Bytes total_size(const Register& reg);

struct Control;

/// Why the compiler calls a kernel.
enum class KernelPurpose {
  kOp,          // it computes an op of the serial graph
  kAccumulate,  // it adds (or takes the maximum, ...) the partial value of a further micro-batch
  kCopyBefore,  // it keeps the old value of a variable until the end of the step
  kCopyNext,    // it copies the next value of a variable into the variable
  kTakeChunk,   // it copies one chunk out of a tensor
  kJoinChunks,  // it puts the chunks of a tensor together
};

/// One kernel of a compute task; or a While or an If, which is alone in its task.
struct KernelStep {
  Shared<KernelCall> call;  // of a While or an If: only its name, "while" or "if"
  std::vector<RegisterIndex> inputs;
  std::vector<RegisterIndex> outputs;
  RegisterIndex workspace;  // none, or a register that only this step uses and its task produces
  NumberedText op;  // the name of the op that it computes; of other purposes a name for messages
  std::shared_ptr<const Control> control = nullptr;  // of a While or an If
  KernelPurpose purpose = KernelPurpose::kOp;
};
/// May the kernel write its first result over `input`, which has the type of the result?
bool may_write_over(const KernelStep& step, RegisterIndex input, const KernelSet* own);

/// One tensor of an exchange. Its elements are reduced in the order of exchange.h, whatever the
/// other parts are.
struct ExchangePart {
  Exchange exchange;
  std::string reason;  // which op or variable needs which placement
};

/// A run of kernels, an exchange, or a copy, which executes as a whole.
struct Task {
  enum class Kind {
    kFeed,      // makes this step's inputs and the variables readable: fills its `outputs`
    kCompute,   // runs `steps`
    kExchange,  // receives boxes of its inputs from their holders into its outputs
    kFetch,     // gives `inputs` to the caller as results
    kCopy,      // copies inputs[0] into outputs[0], which are in memories of two kinds
  };
  std::string name;
  Kind kind = Kind::kCompute;
  Role role = Role::kForward;
  int micro_batch = -1;  // -1: once a step
  /// Of a pipeline that has an order; none: the task runs once a step.
  std::optional<PassKind> pass = std::nullopt;
  MeshIndex mesh{0};  // the ranks that execute it; of an exchange the receivers' mesh
  std::vector<KernelStep> steps;
  /// Of an exchange: part i makes outputs[i] from inputs[i]. All parts are of one kind, read from
  /// one mesh, and are made together: the task acts when all of its inputs are filled.
  std::vector<ExchangePart> parts;
  /// Of an exchange from other ranks: once a rank is past this task in the order list, it may issue
  /// the exchange, before its turn. None: at its turn. At its turn a rank waits until it is done.
  TaskId issue_after;
  std::vector<RegisterIndex> inputs;   // registers that other tasks fill
  std::vector<RegisterIndex> outputs;  // registers that other tasks read, or none
  /// Registers whose bytes this task writes over: all their other readers, on every rank, must have
  /// released them before it runs. Only a register that an exchange or another stream reads needs
  /// to be here: the order list protects the others. A register that is filled later in the order
  /// list is here with its content of the step before.
  std::vector<RegisterIndex> overwrites;
};
/// "F0", "B0", "W0", "O": the pass of a micro-batch, or of the step. A backward in one piece is B.
std::string pass_text(Role role, std::optional<PassKind> pass, int micro_batch);
std::string pass_text(const Task& task);    // "" of feeds and fetches
std::string_view to_text(Task::Kind kind);  // "feed", "compute", "exchange", "fetch", "copy"

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
  IndexedVector<RegisterIndex, Register> registers;
  IndexedVector<TaskId, Task> tasks;
  /// The order list: each stream of a rank executes its tasks of the rank's meshes in this order.
  std::vector<TaskId> order;
  std::vector<TaskVariable> variables;
  std::vector<TaskInput> inputs;
  std::vector<std::pair<std::string, RegisterIndex>> results;  // by name; the fetch gives them
  IndexedVector<MeshIndex, Bytes> arenas;    // by mesh: a rank has the arena of each of its meshes
  std::shared_ptr<const KernelSet> kernels;  // beside the built-in ones; nullptr: none
};

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

/// What one rank does in a step, a line a task or kernel, with the shapes of its own parts, behind
/// the pass that it belongs to:
///
///     F0  y #0: f32[2,3] = dot_general(x #0, w)
///     F0  send y #0 [0:2, 0:3] to 2
///     B0  dz #0 [*]: f32[2,4] = all-reduce(dz #0) with 3
std::string rank_text(const TaskGraph& graph, Rank rank);

/// The order list of one rank in short, by the passes of its kernels: "F0 F1 B0 F2 B1 B2 W0 O".
std::string rank_order_text(const TaskGraph& graph, Rank rank);

/// Checks what every task graph must be: each register is filled by one task before it is read in
/// the order list; producers and consumers agree; no two registers that are alive together share
/// bytes, except the input and the output of a kernel that runs in place; what other ranks read is
/// written over behind an overwrite edge only; every offset is aligned and inside the arena.
///   throws  InternalError that names the first offence
void check(const TaskGraph& graph);

/// All the ranks of its meshes, in ascending order.
std::vector<Rank> ranks(const TaskGraph& graph);

/// The local type of a register on the rank at `coordinate`.
TensorType local_type(const Register& reg, const Coordinate& coordinate);

}  // namespace tessera
