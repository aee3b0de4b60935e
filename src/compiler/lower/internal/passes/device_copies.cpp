#include "compiler/lower/internal/passes/device_copies.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/error.h"
#include "compiler/lower/internal/instances.h"
#include "compiler/lower/internal/program_uses.h"

namespace tessera {
namespace {

/// An instruction that copies, and where it has been placed.
struct PlacedCopy {
  InstructionIndex instruction;
  bool is_in_each = false;  // one of each micro-batch, or one of the step
  std::set<int> placed_in;  // micro-batches; -1: the step
};

class CopyMaker {
 public:
  explicit CopyMaker(Program& program)
      : program_(program), order_(instances(program)), registers_(program) {}

  void run() {
    add_host_meshes();
    take_inputs();
    before_.resize(program_.instructions.size());
    behind_.resize(program_.instructions.size());
    is_known_.assign(program_.instructions.size(), false);
    program_.order.clear();
    for (const InstructionInstance& instance : order_) {
      take(instance.instruction);
      for (const CopyIndex copy : before_[instance.instruction]) place(copies_[copy], instance);
      program_.order.push_back(instance);
      for (InstructionIndex copy : behind_[instance.instruction])
        program_.order.push_back({copy, instance.micro_batch, instance.pass});
    }
    copy_results();
  }

 private:
  using CopyIndex = Index<struct CopyTag>;  // in copies_
  /// The register of the host that has the content of one of a device, and the copy between them.
  struct HostCopy {
    RegisterFormIndex host;
    CopyIndex copy;
  };

  const RegisterForm& reg(RegisterFormIndex index) const { return program_.registers[index]; }
  bool is_on_device(RegisterFormIndex index) const {
    return program_.devices[reg(index).mesh] != DeviceKind::kHost;
  }

  void add_host_meshes() {
    for (MeshIndex mesh : program_.meshes.indices()) {
      host_mesh_.push_back(program_.meshes.end_index());
      if (program_.devices[mesh] == DeviceKind::kHost) continue;
      program_.meshes.push_back(MeshPtr(program_.meshes[mesh]));
      program_.devices.push_back(DeviceKind::kHost);
    }
  }

  /// The same register in the memory of the host.
  RegisterFormIndex add_host_register(RegisterFormIndex on_device) {
    RegisterForm copy = reg(on_device);
    copy.name += " on host";
    copy.mesh = host_mesh_[copy.mesh];
    copy.storage = Register::Storage::kArena;
    copy.variable = -1;
    return program_.registers.push_back(std::move(copy));
  }

  void take_inputs() {
    const ProgramUses uses(program_);
    for (ProgramInput& input : program_.inputs) {
      const RegisterFormIndex fed = input.value;
      if (!is_on_device(fed)) continue;
      if (!uses.readers(fed).empty())
        fed_[fed].host = input.value = add_host_register(fed);
      else  // no kernel reads it; it may be a result
        program_.registers[fed].mesh = host_mesh_[reg(fed).mesh];
    }
  }

  // ---- copies ----

  /// Adds a copy in the pass of `like`: in each micro-batch, or once a step.
  InstructionIndex add_copy(RegisterFormIndex source, RegisterFormIndex target,
                            const Instruction& like, bool in_each) {
    Instruction copy = in_pass_of(like, CopyStep{source, target});
    if (program_.rolled && !in_each) copy.micro_batch = -1;
    copy.mesh = is_on_device(source) ? reg(source).mesh : reg(target).mesh;
    return program_.instructions.push_back(std::move(copy));
  }

  /// A copy of `of`, a register of the program as it was given, before its first reader.
  CopyIndex add_copy_before(RegisterFormIndex of, RegisterFormIndex source,
                            RegisterFormIndex target, const Instruction& like) {
    const Repeats repeats = registers_.repeats(of);
    const bool in_each = repeats == Repeats::kEach || repeats == Repeats::kInput;
    return copies_.push_back({add_copy(source, target, like, in_each), in_each, {}});
  }

  /// Places a copy before `reader` unless it comes before an earlier one.
  void place(PlacedCopy& copy, const InstructionInstance& reader) {
    if (copy.placed_in.insert(copy.is_in_each ? reader.micro_batch : -1).second)
      program_.order.push_back({copy.instruction, reader.micro_batch, reader.pass});
  }

  /// Copies what the feed filled to the device before it is read.
  void copy_fed(InstructionIndex reader) {
    for (RegisterFormIndex read : program_.instructions[reader].reads())
      if (const auto fed = fed_.find(read); fed != fed_.end()) {
        if (fed->second.copy.is_none())
          fed->second.copy =
              add_copy_before(read, fed->second.host, read, program_.instructions[reader]);
        before_[reader].push_back(fed->second.copy);
      }
  }

  /// A register of the host with the same content, and the copy that fills it.
  HostCopy on_host(RegisterFormIndex index, const Instruction& reader) {
    const auto [found, is_new] = on_host_.try_emplace(index);
    if (is_new) {
      found->second.host = add_host_register(index);
      found->second.copy = add_copy_before(index, index, found->second.host, reader);
    }
    return found->second;
  }

  /// Finds out which copies come before and after an instruction.
  void take(InstructionIndex index) {
    if (is_known_[index]) return;
    is_known_[index] = true;
    copy_fed(index);
    Instruction instruction = program_.instructions[index];
    ExchangeStep* exchange = instruction.exchange();
    if (!exchange) {
      refuse_control(instruction);
      return;
    }
    for (RegisterFormIndex& source : exchange->sources) {
      if (!is_on_device(source)) continue;
      const HostCopy copy = on_host(source, instruction);
      source = copy.host;
      before_[index].push_back(copy.copy);
    }
    const std::vector<RegisterFormIndex> targets = exchange->targets;
    for (RegisterFormIndex& target : exchange->targets)
      if (is_on_device(target)) target = add_host_register(target);
    instruction.mesh = reg(exchange->target()).mesh;
    const bool in_each = instruction.micro_batch >= 0;
    for (size_t i = 0; i < targets.size(); ++i)
      if (exchange->targets[i] != targets[i])
        behind_[index].push_back(add_copy(exchange->targets[i], targets[i], instruction, in_each));
    program_.instructions[index] = std::move(instruction);
  }

  void refuse_control(const Instruction& instruction) const {
    const KernelForm* kernel = instruction.kernel();
    if (!kernel || !kernel->control || program_.devices[instruction.mesh] == DeviceKind::kHost)
      return;
    throw UserError(
        "op '" + kernel->op + "' is a " + kernel->call->kernel + " on a mesh of devices",
        "the thread of a rank runs what a while or an if holds, in the memory of the host",
        "put the op on a mesh of the device kind host", ExitCode::kBadConfig);
  }

  void copy_results() {
    Instruction last;
    if (!order_.empty()) last.role = program_.instructions[order_.back().instruction].role;
    for (auto& [name, result] : program_.results) {
      if (!is_on_device(result)) continue;
      const HostCopy copy = on_host(result, last);
      result = copy.host;
      place(copies_[copy.copy], {});
    }
  }

  Program& program_;
  const InstanceOrder order_;                      // without copies
  const RegisterInstances registers_;              // the same
  IndexedVector<MeshIndex, MeshIndex> host_mesh_;  // by mesh of devices
  /// By register of a device: that which the feed fills, and the copy from there.
  std::map<RegisterFormIndex, HostCopy> fed_;
  /// By register of a device: its copy on the host.
  std::map<RegisterFormIndex, HostCopy> on_host_;
  IndexedVector<CopyIndex, PlacedCopy> copies_;  // that come before a reader
  // By instruction of the program as it was given:
  IndexedVector<InstructionIndex, std::vector<CopyIndex>> before_;
  IndexedVector<InstructionIndex, std::vector<InstructionIndex>> behind_;
  IndexedVector<InstructionIndex, bool> is_known_;
};

}  // namespace

void add_device_copies(Program& program, const IndexedVector<MeshIndex, DeviceKind>& devices) {
  ensure(devices.size() == program.meshes.size(), "each mesh has a kind of device");
  program.devices = devices;
  if (std::any_of(devices.begin(), devices.end(),
                  [](DeviceKind kind) { return kind != DeviceKind::kHost; }))
    CopyMaker(program).run();
}

MeshNames with_host_names(const Program& program, MeshNames names) {
  for (MeshIndex mesh : names.indices())
    if (program.devices[mesh] != DeviceKind::kHost) names.push_back(names[mesh] + " on host");
  return names;
}

}  // namespace tessera
