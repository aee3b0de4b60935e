#include "compiler/rewrite/internal/fold.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/tensor/element.h"
#include "ir/ops/operator_rule.h"
#include "ir/ops/operator_set.h"
#include "kernels/bind.h"
#include "kernels/element_types.h"

namespace tessera {
namespace {

constexpr std::string_view kConstant = "constant";

bool only_moves_elements(std::string_view kind) {
  static const std::set<std::string_view> kinds = {"broadcast", "reshape", "transpose",
                                                   "slice",     "reverse", "stop_gradient"};
  return kinds.contains(kind);
}

/// Is each element of the result a function of the elements at its place?
bool is_elementwise(const ShardingRule& rule) {
  const auto is_parallel = [](const Factor& factor) {
    return factor.kind == FactorKind::kParallel;
  };
  const auto has_all = [&](const OperandFactors& operand) {
    if (operand.size() != rule.factors.size()) return false;
    for (int d = 0; d < std::ssize(operand); ++d)
      if (!(operand[d] == DimFactor{d})) return false;
    return true;
  };
  return rule.outputs.size() == 1 && std::ranges::all_of(rule.factors, is_parallel) &&
         std::ranges::all_of(rule.inputs, has_all) && has_all(rule.outputs.front());
}

/// A tensor of one element, and its number.
Tensor element_of(DType dtype, double number) {
  return from_reference({{dtype, {}}, {number}});
}
double number_of(const Tensor& tensor) {
  return to_reference(tensor).values.front();
}

/// The result of a call on single elements.
Tensor run(const LocalCall& call, const std::vector<Tensor>& inputs) {
  const BoundKernel kernel = bind_kernel(call);
  Tensor result(call.outputs.front());
  AlignedBuffer workspace(kernel.workspace);
  std::vector<const std::byte*> from;
  for (const Tensor& input : inputs) from.push_back(input.data());
  std::byte* to[] = {result.data()};
  kernel.run({from, to, workspace.data()});
  return result;
}

/// Knows the values that hold one number in all elements.
class Folding {
 public:
  explicit Folding(GraphDraft& draft) : draft_(draft), numbers_(draft.before().values().size()) {}

  void visit(OpId op) {
    if (draft_.outputs(op).size() != 1) return;
    const ValueId value = draft_.outputs(op).front();
    const TensorType& type = draft_.before().type(value);
    if (!may_be_operand(type.dtype) || draft_.is_kept(op) || is_own(op) ||
        !draft_.before().op(op).regions.empty())
      return;
    const std::optional<double> number = number_of_op(op, type.dtype);
    if (!number || std::isnan(*number)) return;
    numbers_[value.index] = number;
    if (draft_.kind(op) != kConstant)
      draft_.redefine(op, std::string(kConstant),
                      {{"dtype", std::string(to_text(type.dtype))},
                       {"shape", std::vector<int64_t>(type.shape.begin(), type.shape.end())},
                       {"value", *number}},
                      {});
  }

 private:
  bool is_own(OpId op) const {
    const OperatorSetPtr& own = draft_.before().operators();
    return own && own->find(draft_.kind(op)) != nullptr;
  }

  std::optional<double> number_of_op(OpId op, DType dtype) const {
    if (draft_.kind(op) == kConstant)
      return tessera::number_of(run({std::string(kConstant),
                                     {},
                                     {draft_.attributes(op).number("value")},
                                     {},
                                     {},
                                     {{dtype, {}}}},
                                    {}));
    std::vector<double> numbers;
    for (ValueId input : draft_.inputs(op)) {
      if (!numbers_[input.index]) return std::nullopt;
      numbers.push_back(*numbers_[input.index]);
    }
    if (numbers.empty()) return std::nullopt;
    if (only_moves_elements(draft_.kind(op))) return numbers.front();
    return computed(draft_.view(op), numbers);
  }

  static std::optional<double> computed(const OpView& op, const std::vector<double>& numbers) {
    const ShardingRule rule = rule_of(*op.definition, op);
    if (!is_elementwise(rule)) return std::nullopt;
    std::vector<Split> whole;
    for (const Factor& factor : rule.factors)
      whole.push_back({.extent = factor.extent, .axes = {}});
    const KernelCall call = op.definition->kernel(op, whole);
    if (!call.ints.empty() || !call.text.empty()) return std::nullopt;
    LocalCall local{call.kernel, {}, call.reals, {}, {}, {{op.outputs.front().dtype, {}}}};
    std::vector<Tensor> inputs;
    for (size_t i = 0; i < numbers.size(); ++i) {
      inputs.push_back(element_of(op.inputs[i].dtype, numbers[i]));
      local.inputs.push_back(inputs.back().type());
    }
    return tessera::number_of(run(local, inputs));
  }

  GraphDraft& draft_;
  std::vector<std::optional<double>> numbers_;  // by value
};

}  // namespace

void fold_constants(GraphDraft& draft) {
  Folding folding(draft);
  for (int i = 0; i < draft.op_count(); ++i)
    if (draft.is_present({i})) folding.visit({i});
}

}  // namespace tessera
