#include "lower/workspace.h"

#include <algorithm>
#include <set>

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

std::string text_of(const LocalCall& call) {
  std::string text;
  for (int64_t value : call.ints) text += std::to_string(value) + " ";
  for (const auto* operands : {&call.inputs, &call.outputs})
    for (const TensorType& type : *operands) text += to_text(type);
  return text;
}

}  // namespace

Bytes max_workspace(const Program& program, const KernelStep& step, const Mesh& mesh) {
  if (step.control) return step.control->workspace();
  const auto types = [&](const std::vector<RegisterIndex>& list, const Coordinate& coordinate) {
    std::vector<TensorType> local;
    for (RegisterIndex reg : list) local.push_back(local_type(program.registers[reg], coordinate));
    return local;
  };
  // The rank at the origin has the largest parts. With windows another rank may have them: then
  // each different call is bound.
  const int ranks = has_windows(program, step) ? mesh.size() : 1;
  Bytes most{0};
  std::set<std::string> seen;
  for (int i = 0; i < ranks; ++i) {
    const Coordinate coordinate = mesh.coordinate_at(i);
    const LocalCall call = localize(step.call, coordinate, types(step.inputs, coordinate),
                                    types(step.outputs, coordinate));
    if (ranks > 1 && !seen.insert(text_of(call)).second) continue;
    most = std::max(most, bind_kernel(call, program.kernels.get()).workspace);
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
