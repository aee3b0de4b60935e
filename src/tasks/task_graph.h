// The task graph: all that a run needs to know, as data. The compile half makes it, the run half
// and the simulator take it; they meet nowhere else.
//
// Its size does not grow with the ranks: each task and each register lies on one mesh and is
// the same for every rank of it; shapes, peers and parameters are functions of the rank's
// coordinate. Stages of a pipeline are several meshes in one task graph.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/index.h"
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

/// Which micro-batch of a step a thing belongs to.
struct MicroBatch {
  int index = -1;  // -1: once a step
  int dim = -1;    // of a register: the dim of the whole tensor of which it holds [begin, begin +
                   // extent); -1: it holds an addend
  int64_t begin = 0;

  bool operator==(const MicroBatch&) const = default;
};

/// Which part of a tensor a register has that is worked on in chunks
/// (lower/passes/collective_matmul.h): its dim `dim` is `blocks` equal blocks, each of `count`
/// equal parts, and the chunk is the index-th part of every block. Blocks lie inside of the parts
/// of ranks, so that a rank has its part of every chunk.
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

  std::string name;  // the value's name; a resharded copy adds what it became: "y [@dp, *]", one of
                     // several micro-batches its number: "y #2"
  TensorType type;   // of the whole tensor, of one micro-batch of it, or of a chunk of either
  MicroBatch micro_batch;
  DistAttr attr;
  MeshIndex mesh{0};  // that of attr
  int slots = 1;      // records that may be alive at once
  Storage storage = Storage::kArena;
  int64_t offset = 0;  // arena: bytes from the start of its mesh's arena, the same for every
                       // rank; planned for the rank at the origin
  Bytes size{0};       // at the origin: the largest
  int variable = -1;   // index in TaskGraph::variables of kVariable; the next value of a variable
                       // may share its memory
  Chunk chunk = {};
  TaskId producer;
  std::vector<TaskId> consumers;  // other tasks that read it, on this or on other ranks (an
                                  // exchange reads the registers of its senders)
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
  KernelCall call;  // of a While or an If: only its name, "while" or "if"
  std::vector<RegisterIndex> inputs;
  std::vector<RegisterIndex> outputs;
  RegisterIndex
      workspace;   // none, or a register that only this step uses; its task is its producer
  std::string op;  // the name of the op that it computes; of other purposes a name for messages
  std::shared_ptr<const Control> control = nullptr;  // of a While or an If
  KernelPurpose purpose = KernelPurpose::kOp;
};
/// May its first result take the place of `input`, which has its type?
bool may_write_over(const KernelStep& step, RegisterIndex input, const KernelSet* own);

/// A run of ops, or an exchange, that executes as one act.
struct Task {
  enum class Kind {
    kFeed,      // makes this step's inputs and the variables readable: fills its `outputs`
    kCompute,   // runs `steps`
    kExchange,  // pulls boxes of inputs[0] from its senders into outputs[0]
    kFetch,     // hands `inputs` to the caller as results
    kCopy,  // all of inputs[0] into outputs[0], one of which lies on a device and the other on its
            // host
  };
  std::string name;
  Kind kind = Kind::kCompute;
  Role role = Role::kForward;
  int micro_batch = -1;  // -1: once a step
  std::optional<PassKind> pass =
      std::nullopt;   // of a pipeline that has an order; none: it is done once a step
  MeshIndex mesh{0};  // the ranks that act; an exchange acts on the
                      // receivers' mesh
  std::vector<KernelStep> steps;
  Exchange exchange;
  std::string reason;  // of an exchange: who wants what
  /// Of an exchange from other ranks: once a rank has come past this task in the order list
  /// it may begin, ahead of its turn, and its output takes its place; none: at its turn. At its
  /// turn a rank waits until it is done.
  TaskId issue_after;
  std::vector<RegisterIndex> inputs;   // registers filled by other tasks
  std::vector<RegisterIndex> outputs;  // registers that other tasks read, or nobody
  /// Registers whose bytes this task writes over: all their other readers, on every rank, must
  /// have handed them back before it acts. Only a register that an exchange or another stream reads
  /// needs it: the order list protects the others. One that is filled later in the order list
  /// counts as the step before left it.
  std::vector<RegisterIndex> overwrites;
};
/// "F0", "B0", "W0", "O": what a micro-batch, or a step, does there. Where the backward is in one
/// piece, that is B.
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
  IndexedVector<MeshIndex, MeshPtr>
      meshes;  // one, or one a stage; and a second one, of their hosts, for each of devices
  IndexedVector<MeshIndex, DeviceKind>
      devices;  // by mesh: in whose memory its arena and its variables lie; empty: all on hosts
  IndexedVector<RegisterIndex, Register> registers;
  IndexedVector<TaskId, Task> tasks;
  std::vector<TaskId> order;  // the order list: each stream of a rank acts in its tasks of the
                              // rank's meshes, in this order
  std::vector<TaskVariable> variables;
  std::vector<TaskInput> inputs;
  std::vector<std::pair<std::string, RegisterIndex>> results;  // what the fetch hands over
  IndexedVector<MeshIndex, Bytes>
      arenas;  // by mesh: a rank has the arena of each mesh that it is in
  std::shared_ptr<const KernelSet>
      kernels;  // what calls mean beside the built-in ones; nullptr: nothing
};

DeviceKind device_of(const TaskGraph& graph, MeshIndex mesh);

/// Each stream of a rank takes its tasks in the order of the order list, one at a time, whatever
/// the others do.
enum class TaskStream {
  kHost,      // the thread of the rank: feeds, fetches, exchanges, and the kernels of hosts
  kCompute,   // kernels of a device
  kCopyIn,    // from the host to a device
  kCopyOut,   // from a device to the host
  kPrefetch,  // in traces: exchanges that were done ahead of their turn, beside what the thread of
              // the rank did
};
inline constexpr int kTaskStreams = 5;
std::string_view to_text(
    TaskStream stream);  // "acts", "kernels", "copies in", "copies out", "ahead"
TaskStream stream_of(const TaskGraph& graph, const Task& task);

/// What a While or an If runs: task graphs of their own on the mesh of its task, in the memory of
/// its step. Values of the step are their variables, in order, where they lie: of a While the
/// results, which hold what the loop carries, then the operands that it only reads; of an If the
/// operands after the predicate. A result of a While may be addends of a sum to which the
/// iterations add: then the first rank begins with the operand, and in the first micro-batch, the
/// others with zeros. So a iteration is to a loop what a step is to a program: a body makes the
/// next values of what is carried in their place, and hands nothing out.
struct Control {
  enum class Kind { kWhile, kIf };
  Kind kind = Kind::kWhile;
  std::vector<TaskGraph>
      regions;  // condition and body; what is done when the predicate holds, and else
  std::vector<int64_t> offsets;  // by region: of its arena in the workspace of the step
  int64_t max_iterations = -1;   // of a While; -1: as many as the condition holds
  /// Bytes of workspace that the regions take.
  Bytes workspace() const;
};
/// The registers of `step` that are the variables of its regions.
std::vector<RegisterIndex> region_variables(const KernelStep& step);

/// The text form: registers, then tasks in order.
std::string to_text(const TaskGraph& graph);

/// What one rank does in a step, a line an act, with the shapes of its own parts, behind the
/// pass that it belongs to:
///
///     F0  y #0: f32[2,3] = dot_general(x #0, w)
///     F0  send y #0 [0:2, 0:3] to 2
///     B0  dz #0 [*]: f32[2,4] = all-reduce(dz #0) with 3
std::string rank_text(const TaskGraph& graph, Rank rank);

/// The order list of one rank in short, by the passes of its kernels: "F0 F1 B0 F2 B1 B2 W0 O".
std::string rank_order_text(const TaskGraph& graph, Rank rank);

/// Checks what every task graph must be: each register is filled by one task before it is read in
/// the order list; producers and consumers agree; no two registers that are alive together share
/// bytes, but for the input and the output of a kernel that runs in place; what other ranks
/// read is written over behind an overwrite edge only; every offset is aligned and inside the
/// arena. throws  InternalError that names the first offence
void check(const TaskGraph& graph);

/// All the ranks of its meshes, in ascending order.
std::vector<Rank> ranks(const TaskGraph& graph);

/// The local type of a register on the rank at `coordinate`.
TensorType local_type(const Register& reg, const Coordinate& coordinate);

}  // namespace tessera
