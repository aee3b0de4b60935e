#include "ir/ops/interpreter.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "base/largest.h"
#include "base/random.h"
#include "ir/graph/initializer.h"
#include "ir/ops/control/control.h"
#include "ir/ops/detail.h"
#include "ir/ops/internal/rounding.h"
#include "kernels/element_types.h"

namespace tessera {
namespace {

const ReferenceTensor& given(const Graph& graph, const ReferenceValues& state, ValueId id,
                             const std::string& what) {
  const Value& value = graph.value(id);
  const auto found = state.find(value.name);
  if (found == state.end())
    throw UserError(what + " '" + value.name + "' " + to_text(value.type) + " has no value",
                    "a step reads every input and every variable of the graph",
                    "give '" + value.name + "' a value before the step", ExitCode::kMissingInput);
  const ReferenceTensor& tensor = found->second;
  ensure(tensor.type == value.type, what + " '" + value.name + "' is " + to_text(value.type) +
                                        " but was given as " + to_text(tensor.type));
  ensure(std::ssize(tensor.values) == element_count(value.type.shape),
         "'" + value.name + "' lacks elements");
  return tensor;
}

ReferenceTensor zeros(const TensorType& type) {
  return {type, std::vector<double>(static_cast<size_t>(element_count(type.shape)), 0.0)};
}

/// The initial values of the interpreter: only the inputs and variables of `state`.
ReferenceValues read_state(const Graph& graph, const ReferenceValues& state) {
  ReferenceValues values;
  const auto read = [&](ValueId id, const char* what) {
    values.emplace(graph.value(id).name, given(graph, state, id, what));
  };
  for (ValueId input : graph.inputs()) read(input, "input");
  for (const Variable& variable : graph.variables()) read(variable.value, "variable");
  return values;
}

/// Smaller tolerances only underflow can cause: 2^26 terms of the least normal f32, 2^-126, which
/// bf16 has, too; one spacing of the subnormal f16, 2^-24, and its rounding.
double min_rounding(DType dtype) {
  return dtype == DType::kF16 ? 0x1p-22 : 0x1p-100;
}

/// For each element the first of those that change alike with it: along each dim that the key
/// chooses, the one at its begin.
std::vector<size_t> leaders_along_chosen_dims(const Shape& shape, uint64_t key) {
  const RandomStream dims(key, 1);
  std::vector<size_t> leaders;
  Dims index = Dims::filled(shape.size(), 0);
  for (int64_t i = 0; i < element_count(shape); ++i, advance_index(index, shape)) {
    Dims leader = index;
    for (int d = 0; d < shape.size(); ++d)
      if (dims.uniform(d) < 0.5f) leader[d] = 0;
    leaders.push_back(static_cast<size_t>(row_major_index(leader, shape)));
  }
  return leaders;
}

/// Changes `count` elements by half to all of their tolerances, up or down. An element that is not
/// above a tolerance below `least` underflows, and becomes zero: a root or a quotient passes on
/// more of that than of any rounding. Changed by its tolerance it could be a square below zero.
///   uniform  between 0 and 1: those below a half become the changes downwards
///
/// There is no branch on a random number, which no processor predicts.
void perturb_elements(int64_t count, double* elements, const double* tolerances,
                      const float* uniform, double smallest) {
  for (int64_t i = 0; i < count; ++i) {
    const auto is_up = static_cast<int>(2 * uniform[i]);
    const double changed =
        elements[i] + tolerances[i] * (static_cast<double>(uniform[i]) - (1 - is_up));
    const double underflow = tolerances[i] < smallest ? tolerances[i] : -1;
    elements[i] = std::abs(elements[i]) <= underflow ? 0 * elements[i] : changed;
  }
}

/// Changes every element by half to all of its tolerance, up or down. The amounts differ, so that
/// they do not cancel along a chain of ops. They are chosen by the names of values, not by their
/// order.
void perturb(ReferenceTensor& tensor, const std::vector<double>& tolerances, uint64_t key) {
  constexpr int64_t kBlock = 1024;
  const RandomStream stream(key, 0);
  const double smallest = min_rounding(tensor.type.dtype);
  float uniform[kBlock];
  for (int64_t begin = 0; begin < std::ssize(tensor.values); begin += kBlock) {
    const int64_t count = std::min(kBlock, std::ssize(tensor.values) - begin);
    stream.uniform_run(static_cast<uint64_t>(begin), count, uniform);
    perturb_elements(count, tensor.values.data() + begin, tolerances.data() + begin, uniform,
                     smallest);
  }
}

/// The same, where elements that differ only along chosen dims change alike.
void perturb_alike(ReferenceTensor& tensor, const std::vector<double>& tolerances, uint64_t key) {
  std::vector<float> uniform(tensor.values.size());
  RandomStream(key, 0).uniform_run(0, std::ssize(uniform), uniform.data());
  const std::vector<size_t> leaders = leaders_along_chosen_dims(tensor.type.shape, key);
  std::vector<float> alike;
  for (size_t leader : leaders) alike.push_back(uniform[leader]);
  perturb_elements(std::ssize(alike), tensor.values.data(), tolerances.data(), alike.data(),
                   min_rounding(tensor.type.dtype));
}

/// Changes every element by a share of it, all in one direction.
void shift_elements(ReferenceTensor& tensor, double share, bool away_from_zero) {
  for (double& element : tensor.values)
    element += share * (away_from_zero ? element : std::abs(element));
}

/// Records the tolerances of the results, and perturbs them when the options ask for it.
void perturb_results(const Graph& graph, const Op& op, const ReferenceCall& call,
                     const InterpreterOptions& options) {
  // All tolerances come first: one may read the other results, unperturbed.
  std::vector<std::vector<double>> tolerances;
  for (int i = 0; i < std::ssize(op.outputs); ++i)
    tolerances.push_back(tolerance_of(find_operator(graph, op.kind), call, i));
  for (size_t i = 0; i < op.outputs.size(); ++i) {
    const std::string& name = graph.value(op.outputs[i]).name;
    if (options.more_rounding)
      if (const auto more = options.more_rounding->find(name); more != options.more_rounding->end())
        for (double& tolerance : tolerances[i]) tolerance += more->second;
    if (tolerances[i].empty()) continue;
    const double largest =
        largest_of(tolerances[i].size(), tolerances[i].front(),
                   [&of_result = tolerances[i]](size_t at) { return of_result[at]; });
    if (options.tolerances) (*options.tolerances)[name] = largest;
    if (options.perturb == 0 || !is_float(call.outputs[i].type.dtype) || largest == 0) continue;
    if (options.common_share)
      if (const auto share = options.common_share->find(name);
          share != options.common_share->end()) {
        shift_elements(call.outputs[i], share->second, options.away_from_zero);
        continue;
      }
    const uint64_t key = random_key(options.perturb, name);
    if (options.alike)
      perturb_alike(call.outputs[i], tolerances[i], key);
    else
      perturb(call.outputs[i], tolerances[i], key);
  }
}

/// The options inside of a region. Each iteration is perturbed by a key of its own. Options by name
/// apply to the whole program only.
InterpreterOptions options_inside(const InterpreterOptions& options, int64_t iteration) {
  InterpreterOptions inner;
  inner.round = options.round;
  inner.alike = options.alike;
  if (options.perturb != 0) inner.perturb = random_key(options.perturb, std::to_string(iteration));
  return inner;
}

std::vector<ReferenceTensor> interpret_region(const Graph& region,
                                              const std::vector<const ReferenceTensor*>& operands,
                                              const InterpreterOptions& options) {
  ReferenceValues state;
  for (size_t i = 0; i < operands.size(); ++i)
    state.emplace(region.value(region.inputs()[i]).name, *operands[i]);
  const ReferenceValues values = interpret(region, state, options);
  std::vector<ReferenceTensor> results;
  for (const auto& [name, value] : region.outputs())
    results.push_back(values.at(region.value(value).name));
  return results;
}

/// Takes the results that the op decides from the operands of another run, if these are there.
void decide_as_given(const Graph& graph, const Op& op, const ReferenceCall& call,
                     const ReferenceValues& given) {
  const Decision decision = decision_of(graph, op);
  if (decision.results.empty()) return;
  std::vector<const ReferenceTensor*> operands = call.inputs;
  for (const int operand : decision.operands) {
    const auto found = given.find(graph.value(op.inputs[operand]).name);
    if (found == given.end()) return;
    operands[operand] = &found->second;
  }
  std::vector<ReferenceTensor> outputs;
  for (const ReferenceTensor& output : call.outputs)
    outputs.push_back({output.type, std::vector<double>(output.values.size(), 0.0)});
  find_operator(graph, op.kind).reference({call.op, operands, outputs});
  for (const int result : decision.results) std::swap(call.outputs[result], outputs[result]);
}

/// Results of f16 and bf16 are always rounded, as a run rounds them, except for those of a
/// perturbed run: rounding would hide changes that are smaller than half of a spacing.
bool is_rounded(DType dtype, const InterpreterOptions& options) {
  if (is_narrow_float(dtype)) return options.perturb == 0;
  return dtype == DType::kF32 && options.round;
}

}  // namespace

std::vector<ReferenceTensor> interpret_op(const Graph& graph, const Op& op,
                                          std::vector<const ReferenceTensor*> operands,
                                          const InterpreterOptions& options) {
  const OpView op_view = view(graph, op);
  std::vector<ReferenceTensor> outputs;
  for (ValueId output : op.outputs) outputs.push_back(zeros(graph.type(output)));
  const ReferenceCall call{op_view, std::move(operands), outputs};
  if (op.regions.empty())
    find_operator(graph, op.kind).reference(call);
  else
    interpret_control(call, [&](const Graph& region, const auto& inputs, int64_t iteration) {
      return interpret_region(region, inputs, options_inside(options, iteration));
    });
  if (options.decided_on) decide_as_given(graph, op, call, *options.decided_on);
  if (options.perturb != 0 || options.tolerances) perturb_results(graph, op, call, options);
  for (ReferenceTensor& output : outputs)
    if (is_rounded(output.type.dtype, options)) round_elements(output);
  return outputs;
}

ReferenceValues interpret(const Graph& graph, const ReferenceValues& state,
                          const InterpreterOptions& options) {
  ReferenceValues values = read_state(graph, state);
  for (const Op& op : graph.ops()) {
    std::vector<const ReferenceTensor*> operands;
    for (ValueId input : op.inputs) operands.push_back(&values.at(graph.value(input).name));
    std::vector<ReferenceTensor> results = interpret_op(graph, op, std::move(operands), options);
    for (size_t i = 0; i < results.size(); ++i)
      values.insert_or_assign(graph.value(op.outputs[i]).name, std::move(results[i]));
  }
  return values;
}

double largest_change(const ReferenceTensor& a, const ReferenceTensor& b) {
  return largest_of(a.values.size(), 0, [&](size_t i) {
    return a.values[i] == b.values[i] ? 0 : std::abs(a.values[i] - b.values[i]);
  });
}

ReferenceValues initial_variables(const Graph& graph, uint64_t seed) {
  ReferenceValues values;
  for (const Variable& variable : graph.variables()) {
    const Value& value = graph.value(variable.value);
    values.emplace(value.name,
                   to_reference(initial_value(value.name, value.type, variable.initializer, seed,
                                              whole_box(value.type.shape))));
  }
  return values;
}

ReferenceValues next_variables(const Graph& graph, const ReferenceValues& values) {
  ReferenceValues next;
  for (const Variable& variable : graph.variables()) {
    const auto found = values.find(graph.value(variable.next.value_or(variable.value)).name);
    ensure(found != values.end(),
           "the step left no next value of '" + graph.value(variable.value).name + "'");
    next.emplace(graph.value(variable.value).name, found->second);
  }
  return next;
}

}  // namespace tessera
