#include "compiler/placement_check/internal/op_check.h"

#include <algorithm>
#include <set>
#include <utility>

#include "compiler/placement_check/internal/chunk_check.h"
#include "compiler/placement_check/internal/derive_placement.h"
#include "compiler/placement_check/internal/refuse.h"
#include "compiler/placement_check/internal/texts.h"

namespace tessera {
namespace {

std::vector<Range> without_empty(std::vector<Range> ranges) {
  std::erase_if(ranges, [](const Range& range) { return range.empty(); });
  return ranges;
}

}  // namespace

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
  const ShardingRule& rule = op.rule.rule;
  const bool by_micro_batch = program_.micro_batch_axis().is_used_by(op.division.sharding);
  if (by_micro_batch != (task.micro_batch >= 0))
    refuse("op '" + op.op.name + "' is run " +
           (task.micro_batch < 0 ? "once a step" : "in one micro-batch") +
           " and its operands are " + (by_micro_batch ? "of one micro-batch" : "made once a step"));
  check_chunks(op.op, rule, program_.tasks(), step);
  for (size_t i = 0; i < step.inputs.size(); ++i) check_parts(op, rule.inputs[i], step.inputs[i]);
  for (size_t i = 0; i < step.outputs.size(); ++i)
    check_parts(op, rule.outputs[i], step.outputs[i]);
  if (op.op.regions.empty())
    check_call(step, op.division.call, task);
  else
    check_regions(op, step);
  for (int i = 0; i < std::ssize(step.outputs); ++i) fill_output(op, i, step.outputs[i]);
}

const OpCheck::OpRule& OpCheck::rule_of(OpId id) {
  auto& slot = op_rules_[id.index];
  if (!slot) {
    const Op& op = program_.graph().op(id);
    OpView op_view = view(program_.graph(), op);
    RulePtr rule = rules_.find(op.kind, op_view);
    slot.emplace(OpRule{std::move(op_view), std::move(rule)});
  }
  return *slot;
}

OpCheck::DividedOp OpCheck::divided(const Task& task, const KernelStep& step, OpId id) {
  const Op& op = program_.graph().op(id);
  if (step.outputs.size() != op.outputs.size())
    refuse("op '" + op.name + "' has another number of results");
  for (RegisterIndex reg : step.inputs) check_micro_batch(step, reg, task.micro_batch);
  const OpRule& rule = rule_of(id);
  auto& division = divisions_[id.index];
  if (!division || !is_divided_as(step, division->like)) division.emplace(divide(rule, step, op));
  return {op, rule, *division, task.micro_batch};
}

/// Are the operands of two executions of an op divided alike?
bool OpCheck::is_divided_as(const KernelStep& a, const KernelStep& b) const {
  const auto is_placed_as = [&](RegisterIndex x, RegisterIndex y) {
    return placements_.at(x).attr == placements_.at(y).attr;
  };
  const auto is_declared_as = [&](RegisterIndex x, RegisterIndex y) {
    const Register &one = program_.reg(x), &other = program_.reg(y);
    return one.mesh == other.mesh && one.attr == other.attr &&
           one.micro_batch.dim == other.micro_batch.dim &&
           (one.micro_batch.index < 0) == (other.micro_batch.index < 0);
  };
  return std::equal(a.inputs.begin(), a.inputs.end(), b.inputs.begin(), b.inputs.end(),
                    is_placed_as) &&
         std::equal(a.outputs.begin(), a.outputs.end(), b.outputs.begin(), b.outputs.end(),
                    is_declared_as);
}

OpCheck::Division OpCheck::divide(const OpRule& rule, const KernelStep& step, const Op& op) const {
  Division division{step, {}, {}, {}, {}};
  std::vector<const DistAttr*> inputs;
  for (RegisterIndex reg : step.inputs) inputs.push_back(&placements_.at(reg).attr);
  std::vector<PartialAxis> declared_partial;
  for (RegisterIndex reg : step.outputs) {
    const MicroBatchAxis& axis = program_.micro_batch_axis();
    division.outputs.push_back(axis.declared_dims(program_.reg(reg)));
    declared_partial = axis.declared_partial_with_micro_batch(program_.reg(reg));
  }
  division.sharding =
      derive_sharding(rule.view, rule.rule, inputs, division.outputs, declared_partial);
  division.results = division.outputs;
  for (int i = 0; i < std::ssize(division.results); ++i)
    division.results[i].partial = derive_partial(rule.view, rule.rule, division.sharding, i);
  if (op.regions.empty())
    division.call =
        rule.view.definition->kernel(rule.view, factor_splits(rule.rule, division.sharding));
  return division;
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
    for_each_choice(factors[d], [&](const DimFactor& dim) {
      if (!op.division.sharding.factor_axes[dim.factor].empty()) check_part(op, dim, d, index);
    });
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
  const Split held = reg.attr.split(d, reg.type->shape[d] * chunks);
  std::vector<int> axes = declared.axes;  // of ranks; no other changes the parts
  for (int axis :
       program_.micro_batch_axis().axes_of_ranks(op.division.sharding.factor_axes[dim.factor]))
    axes.push_back(axis);
  std::set<std::vector<int64_t>> seen;
  for (const Coordinate& coordinate : program_.coordinates(reg.mesh)) {
    std::vector<int64_t> at;
    for (int axis : axes) at.push_back(coordinate[axis]);
    if (!seen.insert(std::move(at)).second) continue;
    const std::vector<Range> parts = without_empty(
        derive_indices(dim, factor.extent, op.division.sharding,
                       program_.micro_batch_axis().with_micro_batch(op.micro_batch, coordinate)));
    std::vector<Range> own = without_empty(held.ranges_at(coordinate));
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
  const LocalInt& given = step.call->ints[i];
  const auto compare = [&](int64_t a, int64_t b, const Coordinate* coordinate) {
    if (a != b)
      refuse("op '" + step.op + "' calls " + step.call->kernel + " with " + std::to_string(a) +
             " as parameter " + std::to_string(i) +
             (coordinate ? " at " + to_text(*coordinate) : "") + ", where its operator has " +
             std::to_string(b));
  };
  if (given.is_constant() && expected.is_constant())
    return compare(given.constant, expected.constant, nullptr);
  for (const Coordinate& coordinate : program_.coordinates(task.mesh))
    compare(given.at(coordinate),
            expected.at(program_.micro_batch_axis().with_micro_batch(task.micro_batch, coordinate)),
            &coordinate);
}

void OpCheck::check_regions(const DividedOp& op, const KernelStep& step) const {
  check_control(op.op, step);
  std::vector<const DistAttr*> inputs;
  for (RegisterIndex reg : step.inputs) inputs.push_back(&placements_.at(reg).attr);
  const std::vector<RegionPlacements> regions =
      derive_regions(op.op, inputs, op.division.outputs, op.division.results);
  for (size_t r = 0; r < regions.size(); ++r)
    check_region_(*op.op.regions[r], step.control->regions[r], regions[r]);
}

void OpCheck::fill_output(const DividedOp& op, int i, RegisterIndex index) {
  const MicroBatchAxis& axis = program_.micro_batch_axis();
  const Register& reg = program_.reg(index);
  DistAttr attr = op.division.results[i];
  std::vector<int> summed;
  if (axis.is_partial_in(attr)) summed = {op.micro_batch};
  if (axis.is_used_by(attr) && reg.micro_batch.index != op.micro_batch)
    refuse(program_.quoted(index) + " is made in micro-batch " + std::to_string(op.micro_batch) +
           " and declared for another");
  placements_.fill(index, {op.op.outputs[i], std::move(attr), std::move(summed), reg.chunk});
}

}  // namespace tessera
