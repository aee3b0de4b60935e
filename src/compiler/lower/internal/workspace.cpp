#include "compiler/lower/internal/workspace.h"

#include <algorithm>

#include "kernels/bind.h"

namespace tessera {
namespace {

bool has_windows(const Program& program, const KernelForm& step) {
  const auto is_windowed = [&](RegisterFormIndex reg) {
    return program.registers[reg].attr.has_windows();
  };
  return std::any_of(step.inputs.begin(), step.inputs.end(), is_windowed) ||
         std::any_of(step.outputs.begin(), step.outputs.end(), is_windowed);
}

}  // namespace

Bytes max_workspace(const Program& program, const KernelForm& step, const Mesh& mesh) {
  if (step.control) return step.control->workspace();
  const auto types = [&](const std::vector<RegisterFormIndex>& list, const Coordinate& coordinate) {
    std::vector<TensorType> local;
    for (RegisterFormIndex reg : list)
      local.push_back(local_type(program.registers[reg], coordinate));
    return local;
  };
  const auto workspace_at = [&](const Coordinate& coordinate) {
    return workspace_of(localize(step.call, coordinate, types(step.inputs, coordinate),
                                 types(step.outputs, coordinate)),
                        program.kernels.get());
  };
  // The rank of the greatest weights has the largest parts. With windows another rank may have
  // them.
  if (!has_windows(program, step)) return workspace_at(mesh.largest_shard_coordinate());
  Bytes largest{0};
  for (int i = 0; i < mesh.size(); ++i)
    largest = std::max(largest, workspace_at(mesh.coordinate_at(i)));
  return largest;
}

RegisterForm workspace_register(const std::string& op, Bytes bytes, const MeshPtr& mesh,
                                MeshIndex index) {
  RegisterForm reg;
  reg.name = op + ".workspace";
  reg.type = TensorType{DType::kBool, {bytes.value()}};
  reg.attr = DistAttr::replicated(mesh, 1);
  reg.mesh = index;
  reg.size = bytes;
  return reg;
}

}  // namespace tessera
