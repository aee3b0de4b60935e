#include "runtime/memory/rank_memory.h"

#include "base/error.h"

namespace tessera {

RankMemory::RankMemory(const ProgramContext& program, int rank_index, std::byte* lent_arena)
    : program_(program), rank_index_(rank_index) {
  const Rank rank = program.ranks[rank_index];
  for (const MeshPtr& mesh : program.graph->meshes)
    coordinates_.push_back(mesh->coordinate_of(rank));
  if (!program.is_region)
    arenas_ =
        program.arenas->at(rank_index)
            .lend(*program.graph, rank, [this](MeshIndex mesh) -> Device& { return device(mesh); });
  for (const Register& reg : program.graph->registers) {
    std::byte* first = address_of(reg, lent_arena);
    places_.push_back({first, slot_stride(reg).value(), first});
  }
}

std::byte* RankMemory::address_of(const Register& reg, std::byte* lent_arena) const {
  if (!is_in(reg.mesh)) return nullptr;
  const bool is_variable = reg.storage == Register::Storage::kVariable;
  if (program_.is_region) return is_variable ? nullptr : lent_arena + reg.offset;
  return is_variable ? variable_part(reg) : arenas_[reg.mesh] + reg.offset;
}

std::byte* RankMemory::variable_part(const Register& reg) const {
  const std::string& name = program_.graph->variables[reg.variable].name;
  std::byte* part = program_.variables->part(name, rank_index_);
  RankDevice* accelerator = program_.devices->find(rank_index_);
  const bool is_kept = accelerator && accelerator->keeps(name);
  const bool is_here = is_on_accelerator(reg.mesh);
  ensure(is_here || !is_kept, "variable '" + name +
                                  "' is on a device in an earlier program and on the host in this "
                                  "one");
  if (!is_here) return part;
  return accelerator->keep(name, part, byte_size(local_type(reg, coordinate(reg.mesh))));
}

TensorType RankMemory::local_type_of(RegisterIndex index) const {
  const Register& reg = program_.reg(index);
  return local_type(reg, coordinate(reg.mesh));
}

bool RankMemory::is_on_accelerator(MeshIndex mesh) const {
  return is_accelerator(device_of(*program_.graph, mesh));
}

bool RankMemory::is_on_host(RegisterIndex reg) const {
  return device_of(*program_.graph, program_.reg(reg).mesh) == DeviceKind::kHost;
}

Device& RankMemory::device(MeshIndex mesh) const {
  return is_on_accelerator(mesh) ? program_.devices->find(rank_index_)->device()
                                 : program_.devices->host();
}

void RankMemory::select_slots(const Task& task, const Act& act) {
  for (size_t i = 0; i < task.outputs.size(); ++i)
    places_[task.outputs[i]].current = slot(task.outputs[i], act.output_slots[i]);
  // The input ports of an exchange are registers of its senders.
  if (task.kind == Task::Kind::kExchange) return;
  for (size_t i = 0; i < act.input_slots.size(); ++i)
    places_[task.inputs[i]].current = slot(task.inputs[i], act.input_slots[i]);
}

void RankMemory::lend(int variable, std::byte* memory) {
  for (RegisterIndex i : places_.indices()) {
    const Register& reg = program_.graph->registers[i];
    if (reg.storage == Register::Storage::kVariable && reg.variable == variable)
      places_[i].first = places_[i].current = memory;
  }
}

}  // namespace tessera
