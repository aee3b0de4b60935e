// check_division: executes the ranks of a small mesh one after the other.
#include <algorithm>
#include <cmath>
#include <optional>

#include "base/tensor/reduce.h"
#include "base/text/text.h"
#include "ir/ops/detail.h"
#include "ir/ops/operator_rule.h"
#include "ir/ops/testing/operator_check_run.h"
#include "kernels/bind.h"

namespace tessera::operator_testing {
namespace {

using ::testing::AssertionFailure;
using ::testing::AssertionResult;
using ::testing::AssertionSuccess;

/// A mesh and how each factor of the rule is divided over it.
struct Division {
  Shape mesh;
  std::vector<Split> factors;
  std::string text;
};

Division divide(const ShardingRule& rule, const Shape& mesh,
                const std::vector<int>& factor_of_axis) {
  Division division{mesh, undivided(rule), {}};
  for (int axis = 0; axis < mesh.size(); ++axis) {
    const auto factor = static_cast<size_t>(factor_of_axis[axis]);
    division.factors[factor].axes.push_back({axis, mesh[axis]});
    division.text +=
        (axis ? ", " : "") + rule.factors[factor].name + " in " + std::to_string(mesh[axis]);
  }
  return division;
}

std::vector<Division> divisions_of(const ShardingRule& rule) {
  std::vector<int> free;
  for (int f = 0; f < static_cast<int>(rule.factors.size()); ++f)
    if (rule.factors[f].kind != FactorKind::kWhole) free.push_back(f);
  std::vector<Division> divisions;
  for (int f : free)
    for (int64_t parts : {int64_t{2}, int64_t{3}, rule.factors[f].extent + 1})
      divisions.push_back(divide(rule, {parts}, {f}));
  for (int f : free)
    for (int g : free)
      if (f <= g && !rule.excludes(f, g)) divisions.push_back(divide(rule, {2, 2}, {f, g}));
  return divisions;
}

/// The indices of each dim that a rank holds, in the order in which it holds them.
using Held = std::vector<std::vector<int64_t>>;

Shape shape_of(const Held& held) {
  Shape shape;
  for (const auto& indices : held) shape.push_back(static_cast<int64_t>(indices.size()));
  return shape;
}

Held held_by(const OperandFactors& operand, const Shape& shape, const Division& division,
             const Coordinate& coordinate) {
  Held held;
  for (int d = 0; d < shape.size(); ++d) {
    std::vector<Range> ranges{{0, shape[d]}};
    for (const DimFactor& dim : choices_of(operand[d]))
      if (const Split& factor = division.factors[dim.factor]; !factor.axes.empty())
        ranges = split_of(dim, factor).ranges_at(coordinate);
    held.emplace_back();
    for (const Range& range : ranges)
      for (int64_t i = range.begin; i < range.end; ++i) held.back().push_back(i);
  }
  return held;
}

/// Calls visit(position in the tensor, position in the part) for every element that is held.
template <typename Visit>
void for_each_held(const Held& held, const Shape& shape, Visit visit) {
  const Shape extents = shape_of(held);
  const int64_t count = element_count(extents);
  Dims index = Dims::filled(shape.size(), 0);
  for (int64_t local = 0; local < count; ++local) {
    Dims global = index;
    for (int d = 0; d < shape.size(); ++d) global[d] = held[d][index[d]];
    visit(static_cast<size_t>(row_major_index(global, shape)), static_cast<size_t>(local));
    advance_index(index, extents);
  }
}

ReferenceTensor cut(const ReferenceTensor& tensor, const Held& held) {
  ReferenceTensor part{{tensor.type.dtype, shape_of(held)}, {}};
  for_each_held(held, tensor.type.shape,
                [&](size_t global, size_t) { part.values.push_back(tensor.values[global]); });
  return part;
}

/// The reduction that joins ranks with parts of the same elements; nullopt: they must agree.
std::optional<ReduceOp> partial_of(const ShardingRule& rule, const OperandFactors& output,
                                   const Division& division) {
  for (int f = 0; f < static_cast<int>(rule.factors.size()); ++f) {
    if (!has_factor(output, f) && !division.factors[f].axes.empty()) return rule.factors[f].reduce;
  }
  return std::nullopt;
}

/// Sums and products are rounded to f32.
double join_parts(ReduceOp reduce, double a, double b) {
  const double joined = combine(reduce, a, b);
  const bool is_rounded = reduce == ReduceOp::kSum || reduce == ReduceOp::kProd;
  return is_rounded ? static_cast<float>(joined) : joined;
}

/// A result that is assembled from the parts of the ranks.
struct Assembly {
  ReferenceTensor tensor;
  std::vector<bool> filled;
  std::string offence;

  explicit Assembly(const TensorType& type)
      : tensor{type,
               std::vector<double>(static_cast<size_t>(element_count(type.shape)), std::nan(""))},
        filled(tensor.values.size(), false) {}

  void place(const ReferenceTensor& part, const Held& held, std::optional<ReduceOp> partial) {
    for_each_held(held, tensor.type.shape, [&](size_t global, size_t local) {
      double& value = tensor.values[global];
      if (!filled[global])
        value = part.values[local];
      else if (partial)
        value = join_parts(*partial, value, part.values[local]);
      else if (value != part.values[local])
        offence = "two ranks disagree on element " + std::to_string(global);
      filled[global] = true;
    });
  }
};

std::vector<Assembly> run_divided(const Operator& op, const OperatorCase& given, const OpView& view,
                                  const ShardingRule& rule,
                                  const std::vector<ReferenceTensor>& inputs,
                                  const Division& division) {
  const KernelCall call = op.kernel(view, division.factors);
  std::vector<Assembly> results;
  for (const TensorType& type : view.outputs) results.emplace_back(type);
  Coordinate coordinate = Dims::filled(division.mesh.size(), 0);
  do {
    std::vector<Tensor> parts;
    std::vector<TensorType> in, out;
    for (size_t i = 0; i < inputs.size(); ++i) {
      parts.push_back(from_reference(
          cut(inputs[i], held_by(rule.inputs[i], view.inputs[i].shape, division, coordinate))));
      in.push_back(parts.back().type());
    }
    std::vector<Held> held;
    for (size_t o = 0; o < results.size(); ++o) {
      held.push_back(held_by(rule.outputs[o], view.outputs[o].shape, division, coordinate));
      out.push_back({view.outputs[o].dtype, shape_of(held[o])});
    }
    const std::vector<Tensor> made =
        run_kernel(bind_for(given, localize(call, coordinate, in, out)), parts, out);
    for (size_t o = 0; o < results.size(); ++o)
      results[o].place(to_reference(made[o]), held[o], partial_of(rule, rule.outputs[o], division));
  } while (advance_index(coordinate, division.mesh));
  return results;
}

/// The expected result, with its tolerance.
struct Expectation {
  std::vector<double> values;
  std::vector<double> tolerance;
};

std::vector<Expectation> expectations(const Operator& op, const OperatorCase& given,
                                      const OpView& view, const ShardingRule& rule,
                                      const std::vector<ReferenceTensor>& inputs) {
  std::vector<ReferenceTensor> reference = reference_results(op, given, inputs);
  const std::vector<Assembly> serial =
      run_divided(op, given, view, rule, inputs, {{1}, undivided(rule), "serial"});
  std::vector<Expectation> expected;
  for (size_t o = 0; o < reference.size(); ++o) {
    if (given.bitwise)
      expected.push_back(
          {serial[o].tensor.values, std::vector<double>(reference[o].values.size(), 0.0)});
    else
      expected.push_back({held(reference[o]),
                          tolerance_of(op, call_of(view, inputs, reference), static_cast<int>(o))});
  }
  return expected;
}

std::string offence_of(const Assembly& result, const Expectation& expected) {
  if (!result.offence.empty()) return result.offence;
  if (std::find(result.filled.begin(), result.filled.end(), false) != result.filled.end())
    return "an element belongs to no rank";
  return first_difference(result.tensor, expected.values, expected.tolerance);
}

/// The calls of all ranks.
std::vector<LocalCall> local_calls(const Operator& op, const OpView& view, const ShardingRule& rule,
                                   const Division& division) {
  const auto local_types = [&](const std::vector<OperandFactors>& operands,
                               const std::vector<TensorType>& types, const Coordinate& coordinate) {
    std::vector<TensorType> local;
    for (size_t i = 0; i < types.size(); ++i)
      local.push_back(
          {types[i].dtype, shape_of(held_by(operands[i], types[i].shape, division, coordinate))});
    return local;
  };
  const KernelCall call = op.kernel(view, division.factors);
  std::vector<LocalCall> calls;
  Coordinate coordinate = Dims::filled(division.mesh.size(), 0);
  do {
    calls.push_back(localize(call, coordinate, local_types(rule.inputs, view.inputs, coordinate),
                             local_types(rule.outputs, view.outputs, coordinate)));
  } while (advance_index(coordinate, division.mesh));
  return calls;
}

/// With windows a rank leaves out what none of its windows reads.
bool has_windows(const ShardingRule& rule) {
  const auto is_window = [](const DimFactor& dim) {
    const std::vector<DimFactor> choices = choices_of(dim);
    return std::any_of(choices.begin(), choices.end(),
                       [](const DimFactor& choice) { return choice.window.has_value(); });
  };
  return std::any_of(rule.inputs.begin(), rule.inputs.end(), [&](const OperandFactors& operand) {
    return std::any_of(operand.begin(), operand.end(), is_window);
  });
}

std::string text_of(double flops, Bytes bytes) {
  return double_text(flops) + " operations on " + std::to_string(bytes.value()) + " bytes";
}

/// "" when a built-in kernel does the work that the operator declares.
std::string offence_of_work(const Work& declared, const LocalWork& whole,
                            const OperatorCase& given) {
  const bool agrees =
      std::abs(declared.flops.value() - whole.flops.value()) <= 1e-12 * whole.flops.value() &&
      declared.bytes == whole.read;
  if (given.operators || agrees) return {};
  return "the operator declares " + text_of(declared.flops.value(), declared.bytes) +
         ", its kernel has " + text_of(whole.flops.value(), whole.read);
}

}  // namespace

AssertionResult check_work(const Operator& op, const OperatorCase& given) {
  const OpView view = view_of(op, given);
  const ShardingRule rule = rule_of(op, view);
  const KernelSet* own = own_kernels(given);
  std::vector<Division> divisions = divisions_of(rule);
  divisions.insert(divisions.begin(), {{1}, undivided(rule), "whole"});
  LocalWork whole;
  for (const Division& division : divisions) {
    LocalWork sum;
    for (const LocalCall& call : local_calls(op, view, rule, division)) {
      const LocalWork work = work_of(call, own);
      sum.flops += work.flops;
      sum.read += work.bytes();
      const Bytes formula = workspace_of(call, own), bound = bind_for(given, call).workspace;
      if (formula != bound)
        return AssertionFailure() << given << ": " << division.text << ": the workspace is "
                                  << bound.value() << " bytes, its formula gives "
                                  << formula.value();
    }
    if (division.text == "whole") {
      whole = sum;
      if (const std::string offence = offence_of_work(op.work(view), whole, given);
          !offence.empty())
        return AssertionFailure() << given << ": " << offence;
    }
    const bool does_less =
        sum.flops.value() < whole.flops.value() * (1 - 1e-12) || sum.read < whole.read;
    if (does_less && !has_windows(rule))
      return AssertionFailure() << given << ": " << division.text << ": the parts have "
                                << text_of(sum.flops.value(), sum.read) << ", the whole "
                                << text_of(whole.flops.value(), whole.read);
  }
  return AssertionSuccess();
}

AssertionResult check_division(const Operator& op, const OperatorCase& given) {
  const OpView view = view_of(op, given);
  const ShardingRule rule = rule_of(op, view);
  const std::vector<ReferenceTensor> inputs = sample_inputs(given);
  const std::vector<Expectation> expected = expectations(op, given, view, rule, inputs);
  for (const Division& division : divisions_of(rule)) {
    const std::vector<Assembly> results = run_divided(op, given, view, rule, inputs, division);
    for (size_t o = 0; o < results.size(); ++o)
      if (const std::string offence = offence_of(results[o], expected[o]); !offence.empty())
        return AssertionFailure() << given << ": " << division.text << ", result " << o << ": "
                                  << offence << "\n  " << tessera::to_text(rule);
  }
  return AssertionSuccess();
}

}  // namespace tessera::operator_testing
