#include "runtime/runtime/internal/given_tensors.h"

#include "base/error.h"

namespace tessera {
namespace {

/// The caller's tensor for an input, checked.
const std::byte* find_input(const TaskInput& input,
                            const std::map<std::string, const Tensor*>& given) {
  const TensorType& type = input.type;
  const auto found = given.find(input.name);
  if (found == given.end() || !found->second)
    throw UserError("input '" + input.name + "' is missing", "the program reads it at every step",
                    "give a tensor " + to_text(type) + " of this name", ExitCode::kMissingInput);
  if (!(found->second->type() == type))
    throw UserError("input '" + input.name + "' is " + to_text(found->second->type()),
                    "the program was made for " + to_text(type), "give a tensor of that type",
                    ExitCode::kBadData);
  return found->second->data();
}

/// The caller's tensor for a result, made when it does not exist.
std::byte* find_result(const TensorType& type, const std::string& name, TensorMap& results) {
  Tensor& tensor = results[name];
  if (!tensor.data() || !(tensor.type() == type)) tensor = Tensor(type);
  return tensor.data();
}

}  // namespace

void GivenTensors::find(const TaskGraph& graph, const std::map<std::string, const Tensor*>& given,
                        TensorMap& made) {
  for (size_t i = 0; i < graph.inputs.size(); ++i) inputs[i] = find_input(graph.inputs[i], given);
  for (size_t i = 0; i < graph.results.size(); ++i) {
    const auto& [name, reg] = graph.results[i];
    results[i] = find_result(graph.registers[reg].type, name, made);
  }
}

}  // namespace tessera
