#include "placement_check/op_check.h"

#include <algorithm>

#include "placement_check/chunk_check.h"
#include "placement_check/derive_placement.h"
#include "placement_check/refuse.h"
#include "placement_check/texts.h"

namespace tessera {

bool OpCheck::has_operands(OpId id, const KernelStep& step) const {
  const Op& op = program_.graph().op(id);
  return std::equal(
      op.inputs.begin(), op.inputs.end(), step.inputs.begin(), step.inputs.end(),
      [&](ValueId value, RegisterIndex reg) { return placements_.at(reg).value == value; });
}

void OpCheck::refuse_operands(OpId id, const KernelStep& step) const {
  const Op& op = program_.graph().op(id);
  if (op.inputs.size() != step.inputs.size())
    refuse("op '" + op.name + "' takes " + std::to_string(op.inputs.size()) +
           " operands and is given " + std::to_string(step.inputs.size()));
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    const ValueId given = placements_.at(step.inputs[i]).value;
    if (given != op.inputs[i])
      refuse("op '" + op.name + "' takes '" + program_.name_of(op.inputs[i]) + "' as input " +
             std::to_string(i) + " and is given " + program_.quoted(step.inputs[i]) +
             ", which holds '" + program_.name_of(given) + "'");
  }
  throw InternalError("placements: the operands of '" + op.name + "' differ somewhere");
}

void OpCheck::check(const Task& task, const KernelStep& step, OpId id) {
  const DividedOp op = divided(task, step, id);
  const auto& [op_view, rule] = op.rule;
  const bool by_micro_batch = program_.micro_batch_axis().is_used_by(op.sharding);
  if (by_micro_batch != (task.micro_batch >= 0))
    refuse("op '" + op.op.name + "' is run " +
           (task.micro_batch < 0 ? "once a step" : "in one micro-batch") +
           " and its operands are " + (by_micro_batch ? "of one micro-batch" : "made once a step"));
  check_chunks(op.op, rule, program_.tasks(), step);
  for (size_t i = 0; i < step.inputs.size(); ++i) check_parts(op, rule.inputs[i], step.inputs[i]);
  for (size_t i = 0; i < step.outputs.size(); ++i)
    check_parts(op, rule.outputs[i], step.outputs[i]);
  if (op.op.regions.empty())
    check_call(step, op_view.definition->kernel(op_view, factor_splits(rule, op.sharding)), task);
  else
    check_regions(op, step);
  for (int i = 0; i < std::ssize(step.outputs); ++i) fill_output(op, i, step.outputs[i]);
}

const OpCheck::OpRule& OpCheck::rule_of(OpId id) {
  auto& slot = op_rules_[id.index];
  if (!slot) {
    const Op& op = program_.graph().op(id);
    OpView op_view = view(program_.graph(), op);
    ShardingRule rule = rules_(op.kind, op_view);
    slot.emplace(OpRule{std::move(op_view), std::move(rule)});
  }
  return *slot;
}

OpCheck::DividedOp OpCheck::divided(const Task& task, const KernelStep& step, OpId id) {
  const Op& op = program_.graph().op(id);
  const OpRule& rule = rule_of(id);
  if (step.outputs.size() != op.outputs.size())
    refuse("op '" + op.name + "' has another number of results");
  std::vector<const DistAttr*> inputs;
  std::vector<DistAttr> outputs;
  for (RegisterIndex reg : step.inputs) {
    check_micro_batch(step, reg, task.micro_batch);
    inputs.push_back(&placements_.at(reg).attr);
  }
  for (RegisterIndex reg : step.outputs)
    outputs.push_back(program_.micro_batch_axis().declared_dims(program_.reg(reg)));
  OpSharding sharding = derive_sharding(rule.view, rule.rule, inputs, outputs);
  return {op, rule, std::move(inputs), std::move(outputs), std::move(sharding), task.micro_batch};
}

/// Checks that an op reads the rows and partial values of its own micro-batch.
void OpCheck::check_micro_batch(const KernelStep& step, RegisterIndex index,
                                int micro_batch) const {
  const MicroBatchAxis& axis = program_.micro_batch_axis();
  const SymbolicPlacement& operand = placements_.at(index);
  const int own = program_.reg(index).micro_batch.index;
  const auto refuse_it = [&](const std::string& what) {
    refuse("op '" + step.op + "' of micro-batch " + std::to_string(micro_batch) + " reads " +
           program_.quoted(index) + what);
  };
  if (axis.is_used_by(operand.attr) && !axis.is_partial_in(operand.attr) && own != micro_batch)
    refuse_it(" of micro-batch " + std::to_string(own));
  if (axis.is_partial_in(operand.attr) && operand.summed != std::vector{micro_batch})
    refuse_it(", which holds partial values of other micro-batches");
}

/// Checks that an operand holds the indices of its factors that the rank computes.
void OpCheck::check_parts(const DividedOp& op, const OperandFactors& factors,
                          RegisterIndex index) const {
  for (int d = 0; d < std::ssize(factors); ++d)
    for (const DimFactor& dim : choices_of(factors[d]))
      if (!op.sharding.factor_axes[dim.factor].empty()) check_part(op, dim, d, index);
}

void OpCheck::check_part(const DividedOp& op, const DimFactor& dim, int d,
                         RegisterIndex index) const {
  const Register& reg = program_.reg(index);
  const Factor& factor = op.rule.rule.factors[dim.factor];
  const DimSharding& declared = reg.attr.dims[d];
  const bool is_divided_by_micro_batch = reg.micro_batch.index >= 0 && reg.micro_batch.dim == d;
  const bool is_plain =
      declared.windows.empty() && !dim.window && declared.chunks == 1 && !is_divided_by_micro_batch;
  if (is_plain && declared.unit == dim.unit) return;
  // A chunk is in the parts of the whole.
  const int64_t chunks = reg.chunk.dim == d ? reg.chunk.count : 1;
  const Split held = reg.attr.split(d, reg.type.shape[d] * chunks);
  for (const Coordinate& coordinate : program_.coordinates(reg.mesh)) {
    const std::vector<Range> parts =
        derive_indices(dim, factor.extent, op.sharding,
                       program_.micro_batch_axis().with_micro_batch(op.micro_batch, coordinate));
    std::vector<Range> own = held.ranges_at(coordinate);
    if (is_divided_by_micro_batch)
      for (Range& range : own)
        range = {range.begin + reg.micro_batch.begin, range.end + reg.micro_batch.begin};
    if (own != parts)
      refuse("op '" + op.op.name + "' has indices " + ranges_text(parts) + " of factor " +
             factor.name + " at " + to_text(coordinate) + " and dim " + std::to_string(d) + " of " +
             program_.quoted(index) + " holds " + ranges_text(own));
  }
}

/// Checks that the kernel is called as the operator calls it for these factors.
void OpCheck::check_call(const KernelStep& step, const KernelCall& expected,
                         const Task& task) const {
  const KernelCall& call = step.call;
  if (call.kernel != expected.kernel || call.text != expected.text ||
      call.ints.size() != expected.ints.size())
    refuse("op '" + step.op + "' is " + expected.kernel + " \"" + expected.text + "\" and calls " +
           call.kernel + " \"" + call.text + "\"");
  if (call.reals != expected.reals)
    refuse("op '" + step.op + "' calls " + call.kernel + " with other numbers than its operator");
  for (size_t i = 0; i < call.ints.size(); ++i) check_parameter(step, i, expected.ints[i], task);
}

void OpCheck::check_parameter(const KernelStep& step, size_t i, const LocalInt& expected,
                              const Task& task) const {
  const LocalInt& given = step.call.ints[i];
  const auto compare = [&](int64_t a, int64_t b, const std::string& where) {
    if (a != b)
      refuse("op '" + step.op + "' calls " + step.call.kernel + " with " + std::to_string(a) +
             " as parameter " + std::to_string(i) + where + ", where its operator has " +
             std::to_string(b));
  };
  if (given.is_constant() && expected.is_constant())
    return compare(given.constant, expected.constant, "");
  for (const Coordinate& coordinate : program_.coordinates(task.mesh))
    compare(given.at(coordinate),
            expected.at(program_.micro_batch_axis().with_micro_batch(task.micro_batch, coordinate)),
            " at " + to_text(coordinate));
}

void OpCheck::check_regions(const DividedOp& op, const KernelStep& step) const {
  check_control(op.op, step);
  std::vector<DistAttr> results = op.outputs;
  for (int i = 0; i < std::ssize(results); ++i)
    results[i].partial = derive_partial(op.rule.view, op.rule.rule, op.sharding, i);
  const std::vector<RegionPlacements> regions =
      derive_regions(op.op, op.inputs, op.outputs, results);
  for (size_t r = 0; r < regions.size(); ++r)
    check_region_(*op.op.regions[r], step.control->regions[r], regions[r]);
}

void OpCheck::fill_output(const DividedOp& op, int i, RegisterIndex index) {
  const MicroBatchAxis& axis = program_.micro_batch_axis();
  const Register& reg = program_.reg(index);
  DistAttr attr = op.outputs[i];
  attr.partial = derive_partial(op.rule.view, op.rule.rule, op.sharding, i);
  std::vector<int> summed;
  if (axis.is_partial_in(attr)) summed = {op.micro_batch};
  if (axis.is_used_by(attr) && reg.micro_batch.index != op.micro_batch)
    refuse(program_.quoted(index) + " is made in micro-batch " + std::to_string(op.micro_batch) +
           " and declared for another");
  placements_.fill(index, {op.op.outputs[i], std::move(attr), std::move(summed), reg.chunk});
}

}  // namespace tessera
