// Operands, results and kernels of a case, for all checks.
#include <cmath>

#include "base/random.h"
#include "base/text/text.h"
#include "ir/ops/testing/operator_check_run.h"
#include "kernels/bind.h"
#include "kernels/element_types.h"

namespace tessera::operator_testing {
namespace {

double sample(const Fill& fill, DType dtype, double uniform) {
  switch (traits(dtype).kind) {
    case NumberKind::kFloat: return static_cast<float>(fill.low + (fill.high - fill.low) * uniform);
    case NumberKind::kInteger: return std::floor(fill.low + (fill.high - fill.low + 1) * uniform);
    case NumberKind::kBool: return uniform < 0.5 ? 0 : 1;
  }
  throw InternalError("unknown element type");
}

}  // namespace

std::string to_text(const OperatorCase& given) {
  std::vector<std::string> types;
  for (const TensorType& type : given.inputs) types.push_back(tessera::to_text(type));
  const std::string attributes = tessera::to_text(given.attributes);
  return given.kind + "(" + join(types, ", ") + ")" + (attributes.empty() ? "" : " " + attributes);
}

std::ostream& operator<<(std::ostream& stream, const OperatorCase& given) {
  return stream << to_text(given);
}

ReferenceTensor sample_tensor(const TensorType& type, const Fill& fill, const std::string& key,
                              uint64_t stream_number) {
  const RandomStream stream(stable_hash(key), stream_number);
  ReferenceTensor tensor{type, {}};
  for (int64_t i = 0; i < element_count(type.shape); ++i)
    tensor.values.push_back(sample(fill, type.dtype, stream.uniform(static_cast<uint64_t>(i))));
  return tensor;
}

Fill fill_of(const OperatorCase& given, size_t input) {
  return input < given.fills.size() ? given.fills[input] : Fill{};
}

std::vector<ReferenceTensor> sample_inputs(const OperatorCase& given) {
  std::vector<ReferenceTensor> inputs;
  for (size_t i = 0; i < given.inputs.size(); ++i)
    inputs.push_back(sample_tensor(given.inputs[i], fill_of(given, i), to_text(given), i));
  if (given.complete) given.complete(given, inputs);
  for (ReferenceTensor& input : inputs)
    if (is_narrow_float(input.type.dtype)) round_elements(input);
  return inputs;
}

Graph empty_graph(const OperatorCase& given) {
  return Graph(given.operators);
}

const KernelSet* own_kernels(const OperatorCase& given) {
  return given.operators ? given.operators->kernels().get() : nullptr;
}

BoundKernel bind_for(const OperatorCase& given, const LocalCall& call) {
  return bind_kernel(call, own_kernels(given));
}

OpView view_of(const Operator& op, const OperatorCase& given) {
  OpView view{given.kind, given.attributes, given.inputs, {}, &op};
  view.outputs = op.infer(view);
  return view;
}

std::vector<ReferenceTensor> empty_results(const OpView& view) {
  std::vector<ReferenceTensor> results;
  for (const TensorType& type : view.outputs)
    results.push_back(
        {type, std::vector<double>(static_cast<size_t>(element_count(type.shape)), 0.0)});
  return results;
}

ReferenceCall call_of(const OpView& view, const std::vector<ReferenceTensor>& inputs,
                      std::vector<ReferenceTensor>& outputs) {
  ReferenceCall call{view, {}, outputs};
  for (const ReferenceTensor& input : inputs) call.inputs.push_back(&input);
  return call;
}

std::vector<ReferenceTensor> reference_results(const Operator& op, const OperatorCase& given,
                                               const std::vector<ReferenceTensor>& inputs) {
  const OpView view = view_of(op, given);
  std::vector<ReferenceTensor> results = empty_results(view);
  op.reference(call_of(view, inputs, results));
  return results;
}

std::vector<Split> undivided(const ShardingRule& rule) {
  std::vector<Split> splits;
  for (const Factor& factor : rule.factors) splits.push_back({factor.extent, 1, {}});
  return splits;
}

std::vector<Tensor> run_kernel(const BoundKernel& kernel, const std::vector<Tensor>& inputs,
                               const std::vector<TensorType>& types) {
  std::vector<Tensor> outputs;
  std::vector<const std::byte*> in;
  std::vector<std::byte*> out;
  for (const Tensor& input : inputs) in.push_back(input.data());
  for (const TensorType& type : types) {
    outputs.emplace_back(type);
    out.push_back(outputs.back().data());
    // NaN, because a kernel has to write every element.
    std::fill_n(out.back(), byte_size(type).value(), std::byte{0xff});
  }
  AlignedBuffer workspace(kernel.workspace);
  kernel.run({in, out, workspace.data()});
  return outputs;
}

std::vector<double> held(ReferenceTensor result) {
  if (is_narrow_float(result.type.dtype)) round_elements(result);
  return std::move(result.values);
}

std::string first_difference(const ReferenceTensor& actual, const std::vector<double>& expected,
                             const std::vector<double>& tolerance) {
  for (size_t i = 0; i < expected.size(); ++i) {
    const double a = actual.values.at(i), e = expected[i];
    if (a == e || (std::isnan(a) && std::isnan(e)) || std::abs(a - e) <= tolerance[i]) continue;
    return "element " + std::to_string(i) + " of " + tessera::to_text(actual.type) + " is " +
           double_text(a) + ", expected " + double_text(e) + " within " + double_text(tolerance[i]);
  }
  return {};
}

}  // namespace tessera::operator_testing
