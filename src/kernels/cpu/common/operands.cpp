#include "kernels/cpu/common/operands.h"

namespace tessera {
namespace {

std::string types_text(const std::vector<TensorType>& types) {
  std::string text;
  for (const TensorType& type : types) text += (text.empty() ? "" : ", ") + to_text(type);
  return text;
}

std::string ints_text(const std::vector<int64_t>& ints) {
  std::string text;
  for (int64_t value : ints) text += (text.empty() ? " ints " : " ") + std::to_string(value);
  return text;
}

}  // namespace

void require(const LocalCall& call, bool fits, std::string_view rule) {
  if (fits) return;
  const std::string text = call.text.empty() ? "" : " \"" + call.text + "\"";
  throw InternalError("kernel " + call.kernel + "(" + types_text(call.inputs) + ") -> " +
                      types_text(call.outputs) + text + ints_text(call.ints) + ": " +
                      std::string(rule));
}

void require_operands(const LocalCall& call, size_t inputs, size_t outputs, size_t ints,
                      size_t reals) {
  require(call, call.inputs.size() == inputs, "takes " + std::to_string(inputs) + " inputs");
  require(call, call.outputs.size() == outputs, "gives " + std::to_string(outputs) + " outputs");
  require(call, call.ints.size() == ints, "takes " + std::to_string(ints) + " integer parameters");
  require(call, call.reals.size() == reals, "takes " + std::to_string(reals) + " real parameters");
}

std::string_view operation_of(const LocalCall& call) {
  const std::string_view name = call.kernel;
  return name.substr(name.find('.') + 1);
}

int64_t output_count(const LocalCall& call) {
  return element_count(call.outputs[0].shape);
}

double elements_of(const TensorType& type) {
  return static_cast<double>(element_count(type.shape));
}

LocalWork work_over_operands(const LocalCall& call, OperationClass operation, double flops) {
  LocalWork work{operation, call.outputs.front().dtype, Flops(flops)};
  for (const TensorType& type : call.inputs) work.read += byte_size(type);
  for (const TensorType& type : call.outputs) work.written += byte_size(type);
  return work;
}

LocalWork work_of_move(const LocalCall& call, OperationClass operation, const TensorType& moved) {
  const Bytes bytes = byte_size(moved);
  return {operation, call.outputs.front().dtype, Flops(0), bytes, bytes};
}

}  // namespace tessera
