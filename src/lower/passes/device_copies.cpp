#include "lower/passes/device_copies.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/error.h"
#include "lower/program_uses.h"

namespace tessera {
namespace {

class CopyMaker {
 public:
  explicit CopyMaker(Program& program) : program_(program) {}

  void run() {
    add_host_meshes();
    take_inputs();
    for (Instruction& instruction : std::exchange(program_.instructions, {}))
      add(std::move(instruction));
    copy_results();
  }

 private:
  const Register& reg(RegisterIndex index) const { return program_.registers[index]; }
  bool is_on_device(RegisterIndex index) const {
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
  RegisterIndex add_host_register(RegisterIndex on_device) {
    Register copy = reg(on_device);
    copy.name += " on host";
    copy.mesh = host_mesh_[copy.mesh];
    copy.storage = Register::Storage::kArena;
    copy.variable = -1;
    return program_.registers.push_back(std::move(copy));
  }

  /// Adds a copy in the pass of `like`.
  void copy(RegisterIndex source, RegisterIndex target, const Instruction& like) {
    Instruction copy = in_pass_of(like, CopyStep{source, target});
    copy.mesh = is_on_device(source) ? reg(source).mesh : reg(target).mesh;
    program_.instructions.push_back(std::move(copy));
  }

  void take_inputs() {
    const ProgramUses uses(program_);
    for (TaskInput& input : program_.inputs) {
      const RegisterIndex fed = input.value;
      if (!is_on_device(fed)) continue;
      if (!uses.readers(fed).empty())
        fed_[fed] = input.value = add_host_register(fed);
      else  // no kernel reads it; it may be a result
        program_.registers[fed].mesh = host_mesh_[reg(fed).mesh];
    }
  }

  /// Copies what the feed filled to the device before its first reader.
  void copy_fed(const Instruction& reader) {
    for (RegisterIndex read : reader.reads())
      if (const auto fed = fed_.find(read); fed != fed_.end()) {
        copy(fed->second, read, reader);
        fed_.erase(fed);
      }
  }

  /// A register of the host with the same content.
  RegisterIndex on_host(RegisterIndex index, const Instruction& reader) {
    if (!is_on_device(index)) return index;
    const auto [found, is_new] = on_host_.try_emplace(index);
    if (is_new) {
      const RegisterIndex host = add_host_register(index);
      found->second = host;
      copy(index, host, reader);
    }
    return found->second;
  }

  void add(Instruction instruction) {
    copy_fed(instruction);
    ExchangeStep* exchange = instruction.exchange();
    if (!exchange) {
      refuse_control(instruction);
      program_.instructions.push_back(std::move(instruction));
      return;
    }
    for (RegisterIndex& source : exchange->sources) source = on_host(source, instruction);
    const std::vector<RegisterIndex> targets = exchange->targets;
    for (RegisterIndex& target : exchange->targets)
      if (is_on_device(target)) target = add_host_register(target);
    instruction.mesh = reg(exchange->target()).mesh;
    program_.instructions.push_back(instruction);
    for (size_t i = 0; i < targets.size(); ++i)
      if (exchange->targets[i] != targets[i]) copy(exchange->targets[i], targets[i], instruction);
  }

  void refuse_control(const Instruction& instruction) const {
    const KernelStep* kernel = instruction.kernel();
    if (!kernel || !kernel->control || program_.devices[instruction.mesh] == DeviceKind::kHost)
      return;
    throw UserError(
        "op '" + kernel->op + "' is a " + kernel->call.kernel + " on a mesh of devices",
        "the thread of a rank runs what a while or an if holds, in the memory of the host",
        "put the op on a mesh of the device kind host", ExitCode::kBadConfig);
  }

  void copy_results() {
    Instruction last;
    if (!program_.instructions.empty()) last.role = program_.instructions.back().role;
    for (auto& [name, result] : program_.results) result = on_host(result, last);
  }

  Program& program_;
  IndexedVector<MeshIndex, MeshIndex> host_mesh_;  // by mesh of devices
  /// By register of a device: the register of the host that the feed fills, until it is copied.
  std::map<RegisterIndex, RegisterIndex> fed_;
  std::map<RegisterIndex, RegisterIndex> on_host_;  // by register of a device: its copy
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
