#include "lower/workspace.h"

#include <algorithm>

#include "kernels/bind.h"

namespace tessera {
namespace {

bool has_windows(const Program& program, const KernelStep& step) {
  const auto is_windowed = [&](RegisterIndex reg) {
    return program.registers[reg].attr.has_windows();
  };
  return std::any_of(step.inputs.begin(), step.inputs.end(), is_windowed) ||
         std::any_of(step.outputs.begin(), step.outputs.end(), is_windowed);
}

}  // namespace

Bytes max_workspace(const Program& program, const KernelStep& step, const Mesh& mesh) {
  if (step.control) return step.control->workspace();
  const auto types = [&](const std::vector<RegisterIndex>& list, const Coordinate& coordinate) {
    std::vector<TensorType> local;
    for (RegisterIndex reg : list) local.push_back(local_type(program.registers[reg], coordinate));
    return local;
  };
  // The rank at the origin has the largest parts. With windows another rank may have them.
  const int ranks = has_windows(program, step) ? mesh.size() : 1;
  Bytes most{0};
  for (int i = 0; i < ranks; ++i) {
    const Coordinate coordinate = mesh.coordinate_at(i);
    const LocalCall call = localize(step.call, coordinate, types(step.inputs, coordinate),
                                    types(step.outputs, coordinate));
    most = std::max(most, workspace_of(call, program.kernels.get()));
  }
  return most;
}

Register workspace_register(const std::string& op, Bytes bytes, const MeshPtr& mesh,
                            MeshIndex index) {
  Register reg;
  reg.name = op + ".workspace";
  reg.type = {DType::kBool, {bytes.value()}};
  reg.attr = DistAttr::replicated(mesh, 1);
  reg.mesh = index;
  reg.size = bytes;
  return reg;
}

}  // namespace tessera
