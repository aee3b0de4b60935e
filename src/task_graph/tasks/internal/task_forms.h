// What the task graph holds once: registers, kernels and tasks in the form that their micro-batches
// have in common. Nothing in it grows with the number of micro-batches or of ranks.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/copy_on_write.h"
#include "base/index.h"
#include "base/text/name_template.h"
#include "base/units.h"
#include "ir/graph/graph.h"
#include "kernels/kernel.h"
#include "sharding/reshard/reshard.h"

namespace tessera {

using RegisterFormIndex = Index<struct RegisterFormTag>;  // in RegisterTable::forms
using TaskFormIndex = Index<struct TaskFormTag>;          // in TaskTable::forms
using MeshIndex = Index<struct MeshTag>;                  // in TaskGraph::meshes

/// The micro-batch of a form that stands for one of each.
inline constexpr int kEachMicroBatch = 0;

/// Which micro-batch of a step a register belongs to, and which part of the tensor it holds.
struct MicroBatch {
  int index = -1;  // -1: once a step; of a form that stands for one of each: kEachMicroBatch
  /// The dim of the whole tensor of which the register holds [begin, begin + extent); -1: it holds
  /// the partial value of one micro-batch.
  int dim = -1;
  int64_t begin = 0;

  bool operator==(const MicroBatch&) const = default;
};

/// A chunk of a tensor (compiler/lower/passes/collective_matmul.h). The dim `dim` of the tensor is
/// `blocks` equal blocks, each of `count` equal parts, and the chunk is the index-th part of every
/// block. The part of a rank is whole blocks, so that every rank has its part of every chunk.
struct Chunk {
  int dim = -1;  // -1: the register has the whole tensor, or the whole of its micro-batch
  int64_t blocks = 1;
  int64_t count = 1;
  int64_t index = 0;

  bool operator==(const Chunk&) const = default;
};

/// A piece of memory that one task fills and others read; or one for each micro-batch.
struct RegisterForm {
  enum class Storage { kArena, kVariable };

  /// The name of the value; a resharded copy adds its placement: "y [@dp, *]". Of one for each of
  /// several micro-batches it has a mark for the number: "y #?".
  NameTemplate name;
  CopyOnWrite<TensorType>
      type;  // of the whole tensor, of one micro-batch of it, or of a chunk of it
  MicroBatch micro_batch;
  DistAttr attr;
  MeshIndex mesh{0};  // that of attr
  int slots = 1;      // instances of the register that may be alive at once
  Storage storage = Storage::kArena;
  Bytes size{0};  // at the rank of the greatest weights, which without weights is the origin
  /// Of kVariable: the index in TaskGraph::variables; the next value of a variable may share its
  /// memory.
  int variable = -1;
  Chunk chunk = {};
};

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

/// How a kernel changes from one micro-batch to the next.
struct KernelVariation {
  /// By integer of its call: what is added to it for each micro-batch.
  std::vector<int64_t> int_steps;
  /// By micro-batch: of a While or an If; empty for other kernels.
  std::vector<std::shared_ptr<const Control>> controls;
};

/// One kernel of a compute task; or a While or an If, which is alone in its task. One that
/// accumulates has its operand as input and the sum as output; it is not called in the first
/// micro-batch, and adds to the sum up to the micro-batch before in each further one.
struct KernelForm {
  CopyOnWrite<KernelCall> call;  // of a While or an If: only its name, "while" or "if"
  std::vector<RegisterFormIndex> inputs = {};
  std::vector<RegisterFormIndex> outputs = {};
  /// None, or a register that only this kernel uses and its task produces.
  RegisterFormIndex workspace = {};
  NameTemplate op =
      {};  // the name of the op that it computes; of other purposes a name for messages
  std::shared_ptr<const Control> control = nullptr;  // of a While or an If; see also `variation`
  KernelPurpose purpose = KernelPurpose::kOp;
  std::shared_ptr<const KernelVariation> variation = nullptr;  // none: the same in each micro-batch
};

/// One tensor of an exchange. Its elements are reduced in the order of exchange.h, whatever the
/// other parts are.
struct ExchangePart {
  Exchange exchange;
  std::string reason;  // which op or variable needs which placement
};

/// A run of kernels, an exchange, or a copy, which executes as a whole; once a step, or in each
/// micro-batch.
struct TaskForm {
  enum class Kind {
    kFeed,      // makes this step's inputs and the variables readable: fills its `outputs`
    kCompute,   // runs `steps`
    kExchange,  // receives boxes of its inputs from their holders into its outputs
    kFetch,     // gives `inputs` to the caller as results
    kCopy,      // copies inputs[0] into outputs[0], which are in memories of two kinds
  };
  NameTemplate name;
  Kind kind = Kind::kCompute;
  Role role = Role::kForward;
  MeshIndex mesh{0};  // the ranks that execute it; of an exchange the receivers' mesh
  std::vector<KernelForm> steps = {};
  /// Of an exchange: part i makes outputs[i] from inputs[i]. All parts are of one kind, read from
  /// one mesh, and are made together: the task acts when all of its inputs are filled.
  std::vector<ExchangePart> parts = {};
  std::vector<RegisterFormIndex> inputs = {};   // of an exchange, a copy or a fetch
  std::vector<RegisterFormIndex> outputs = {};  // of an exchange, a copy or a feed
};
std::string_view to_text(TaskForm::Kind kind);  // "feed", "compute", "exchange", "fetch", "copy"

}  // namespace tessera
