// The lowered program before it is cut into tasks: a list of instructions over registers. Each
// instruction belongs to one mesh and is the same for every rank of it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "kernels/kernel_set.h"
#include "task_graph/tasks/task_graph.h"

namespace tessera {

using StageIndex = Index<struct StageTag>;              // of a pipeline: in Program::mesh_of_stage
using InstructionIndex = Index<struct InstructionTag>;  // in Program::instructions
using Time = Index<struct TimeTag>;                     // a position in an InstanceOrder

/// In the name of a register of a rolled program: the number of the micro-batch. Text forms print
/// an "i".
inline constexpr char kMicroBatchMark = NameTemplate::kMark;

/// Part i makes targets[i] from boxes of sources[i], most of which other ranks hold. An exchange
/// has one part before the pass that combines exchanges (compiler/lower/internal/passes/combine.h).
struct ExchangeStep {
  std::vector<ExchangePart> parts;
  std::vector<RegisterFormIndex> sources;
  std::vector<RegisterFormIndex> targets;

  ExchangeStep(Exchange exchange, RegisterFormIndex source, RegisterFormIndex target,
               std::string reason)
      : parts{{std::move(exchange), std::move(reason)}}, sources{source}, targets{target} {}
  // These are for exchanges of one part; the kind is that of every part.
  RegisterFormIndex source() const { return sources.front(); }
  RegisterFormIndex target() const { return targets.front(); }
  const Exchange& exchange() const { return parts.front().exchange; }
  ReshardKind kind() const { return exchange().kind; }
};

/// Copies all of `source` into `target`, which are in memories of two kinds: one is on a device and
/// the other on its host, or one is on a host and the other in a file.
struct CopyStep {
  RegisterFormIndex source;
  RegisterFormIndex target;
};

/// How a kernel of a rolled program changes from one micro-batch to the next.
struct MicroBatchKernel {
  /// By integer of its call: what is added to it for each micro-batch.
  std::vector<int64_t> int_steps;
  /// The regions of a While or an If in one micro-batch; empty for other kernels. It is valid as
  /// long as the serial graph.
  std::function<std::shared_ptr<const Control>(int micro_batch)> control;
};

/// The registers that an instruction writes: its results, and then its workspace if it has one.
class WrittenRegisters {
 public:
  class Iterator {
   public:
    Iterator(const WrittenRegisters& list, size_t at) : list_(&list), at_(at) {}
    RegisterFormIndex operator*() const {
      return at_ < list_->results_.size() ? list_->results_[at_] : list_->workspace_;
    }
    Iterator& operator++() {
      ++at_;
      return *this;
    }
    bool operator==(const Iterator& other) const { return at_ == other.at_; }

   private:
    const WrittenRegisters* list_;
    size_t at_;
  };

  WrittenRegisters(std::span<const RegisterFormIndex> results, RegisterFormIndex workspace)
      : results_(results), workspace_(workspace) {}
  Iterator begin() const { return {*this, 0}; }
  Iterator end() const { return {*this, results_.size() + (workspace_.is_none() ? 0 : 1)}; }

 private:
  std::span<const RegisterFormIndex> results_;
  RegisterFormIndex workspace_;
};

/// One kernel, one exchange, or one copy between two memories, and the place that it has
/// in a step.
struct Instruction {
  Role role = Role::kForward;
  int micro_batch = -1;                         // -1: once a step
  StageIndex stage{0};                          // an exchange belongs to the stage that receives
  MeshIndex mesh{0};                            // the ranks that execute it
  std::optional<PassKind> pass = std::nullopt;  // of a pipeline; set when it is ordered
  std::variant<KernelForm, ExchangeStep, CopyStep> step = {};
  /// Of a kernel of a rolled program; nullptr: it is the same in each micro-batch.
  std::shared_ptr<const MicroBatchKernel> by_micro_batch = nullptr;

  /// nullptr when the instruction is of another kind.
  const KernelForm* kernel() const { return std::get_if<KernelForm>(&step); }
  KernelForm* kernel() { return std::get_if<KernelForm>(&step); }
  const ExchangeStep* exchange() const { return std::get_if<ExchangeStep>(&step); }
  ExchangeStep* exchange() { return std::get_if<ExchangeStep>(&step); }
  const CopyStep* copy() const { return std::get_if<CopyStep>(&step); }

  /// The instruction must outlive what `reads` and `writes` return.
  std::span<const RegisterFormIndex> reads() const;
  WrittenRegisters writes() const;
};

/// An instruction with the role, micro-batch, stage, mesh and pass of `like`.
template <class Step>
Instruction in_pass_of(const Instruction& like, Step step) {
  return {like.role, like.micro_batch, like.stage, like.mesh, like.pass, std::move(step)};
}
/// Does it accumulate a value over micro-batches?
bool is_sum_over_micro_batches(const Instruction& instruction);
/// Are role, micro-batch, stage, mesh and pass equal?
bool in_same_pass(const Instruction& a, const Instruction& b);

/// An instruction in one micro-batch.
struct InstructionInstance {
  InstructionIndex instruction;
  /// -1: once a step. A copy to or from a device that is made once a step may be made in the pass
  /// of a micro-batch: then it is that one.
  int micro_batch = -1;
  std::optional<PassKind> pass = std::nullopt;  // of a pipeline; set when it is ordered
  /// The instance after which an exchange may be issued, before its turn; none: at its turn.
  Time issue_after = {};
};
/// What a step executes, in the order in which it does. A sum over micro-batches has no instance in
/// the first one.
using InstanceOrder = IndexedVector<Time, InstructionInstance>;

/// A rolled program has the instructions and registers of several micro-batches once. Its size does
/// not depend on their number. RegisterInstances and InstanceUses
/// (compiler/lower/internal/instances.h) say what the micro-batches of one read and write.
///
///   An instruction with the index kEachMicroBatch is executed in each micro-batch, and what it
///   writes is a register of each. One with the purpose kAccumulate writes a register of the whole
///   step: in the first micro-batch the sum is its operand, in each further one its operand is
///   added to the sum, and after the last one the sum is complete:
///
///       dw #i = dot_general(x #i, g #i): f32[4, 2] {partial sum: dp}
///       dw = binary.add(dw #i): f32[4, 2] {partial sum: dp}
struct RolledForm {
  /// Where the registers and instructions of an op begin: its exchanges, its kernel, its sums.
  struct LoweredOp {
    RegisterFormIndex first_register;
    InstructionIndex first_instruction;
  };
  int micro_batches = 1;
  /// In the order of partition, where the micro-batches of one op come before those of the next
  /// one. The last entry is the end of the last op. The pass "order" moves the instructions, but no
  /// register.
  std::vector<LoweredOp> ops = {};
};

/// A part of the arena of a mesh in which the offloaded variables have places in turn
/// (compiler/lower/internal/passes/offload.h). It belongs to them for the whole step.
struct StateWindow {
  Bytes size{0};
  std::map<RegisterFormIndex, int64_t> offsets = {};  // from the start of the window
};

struct ProgramVariable {
  std::string name;
  RegisterFormIndex value;  // filled by the feed
  Initializer initializer;
};

struct ProgramInput {
  std::string name;
  RegisterFormIndex value;  // holds the whole input, or the rows of a micro-batch
  TensorType type;          // of the whole input
};

struct Program {
  IndexedVector<MeshIndex, MeshPtr> meshes;  // each once, except for other devices
  /// Stages on equal meshes of equal devices have the same mesh.
  IndexedVector<StageIndex, MeshIndex> mesh_of_stage;
  /// By mesh of the plan: itself, or the stage of which it is a view. Views are the last ones.
  IndexedVector<StageIndex, StageIndex> viewed_stage;
  /// By mesh; empty before the pass of device copies
  /// (compiler/lower/internal/passes/device_copies.h).
  IndexedVector<MeshIndex, DeviceKind> devices = {};
  std::map<MeshIndex, StateWindow> windows = {};  // of offloaded variables
  IndexedVector<RegisterFormIndex, RegisterForm> registers;
  IndexedVector<InstructionIndex, Instruction> instructions;
  /// What a step executes; empty: what `instances` (compiler/lower/internal/instances.h) returns.
  /// Of a rolled program it is set by the pass "order". From there to the pass "combine" the
  /// instructions of one pass of a stage are neighbours, and each comes after those that write what
  /// it reads. The pass of an instruction is that of its last instance: some schedules have the
  /// first micro-batch, which has no sums, in other passes.
  InstanceOrder order = {};
  /// Of the registers in arenas; empty before the pass "arena".
  IndexedVector<RegisterIndex, int64_t> offsets = {};
  std::vector<ProgramVariable> variables;
  std::vector<RegisterFormIndex> next;  // per variable: the register of its next value, or none
  std::vector<ProgramInput> inputs;
  std::vector<std::pair<std::string, RegisterFormIndex>> results;
  std::shared_ptr<const KernelSet> kernels;         // of the graph's own operators
  std::optional<RolledForm> rolled = std::nullopt;  // nothing: of one micro-batch
};

/// Puts the instructions into another order.
///   order     every instruction once
///   leaves    Program::order, which numbers the instructions as before
void reorder(Program& program, std::span<const InstructionIndex> order);

/// Of the instructions, what they read and write and its placements, and the results: equal of
/// programs that are made alike. It does not depend on Program::order.
uint64_t hash_of(const Program& program);

/// The text form of a graph (ir/graph/graph.h) with kernels for operators, placements in the types,
/// and exchanges with their reasons:
///
///     y = dot_general(x, w): f32[4@dp, 2]
///     g [*] = all-reduce(g): f32[6] @backward <- 'g' is [*] {partial sum: dp}, op 'w.next' needs
///     [*]
///     w.next = binary.sub(w, g [*]): f32[6] @optimizer in place of w
std::string to_text(const Program& program);
/// The line of one instruction.
std::string to_text(const Program& program, const Instruction& instruction);

}  // namespace tessera
