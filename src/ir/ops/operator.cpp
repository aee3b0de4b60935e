#include "ir/ops/operator.h"

#include <algorithm>
#include <iterator>

#include "base/tensor/element.h"

namespace tessera {

OpView view(const Graph& graph, const Op& op) {
  OpView view{op.name, op.attributes, {}, {}, &find_operator(graph, op.kind), op.regions};
  for (ValueId input : op.inputs) view.inputs.push_back(graph.type(input));
  for (ValueId output : op.outputs) view.outputs.push_back(graph.type(output));
  return view;
}

Decision decision_of(const Graph& graph, const Op& op) {
  const Operator& definition = find_operator(graph, op.kind);
  return definition.decision == nullptr ? Decision{} : definition.decision(view(graph, op));
}

ReferenceTensor to_reference(const Tensor& tensor) {
  return visit_element(tensor.dtype(), [&]<typename E>(E) {
    ReferenceTensor reference{tensor.type(), std::vector<double>(tensor.size())};
    std::ranges::transform(tensor.values<typename E::Stored>(), reference.values.begin(),
                           E::to_number);
    return reference;
  });
}

Tensor from_reference(const ReferenceTensor& reference) {
  Tensor tensor(reference.type);
  const std::vector<double>& from = reference.values;
  ensure(std::ssize(from) == tensor.size(), "as many values as the shape has elements");
  visit_element(tensor.dtype(), [&]<typename E>(E) {
    std::ranges::transform(from, tensor.values<typename E::Stored>().begin(), E::nearest);
  });
  return tensor;
}

}  // namespace tessera
