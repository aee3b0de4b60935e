#include "placement_check/placement_check.h"

#include <algorithm>
#include <optional>
#include <set>

#include "base/error.h"
#include "ops/control/control.h"
#include "placement_check/chunk_check.h"
#include "placement_check/derive_placement.h"
#include "placement_check/exchange_check.h"
#include "placement_check/symbolic_placements.h"
#include "shard/rules.h"

namespace tessera {
namespace {

/// An op of the serial graph with its judge's rule.
struct OpRule {
  OpView view;
  ShardingRule rule;
};

std::string_view combining_kernel(ReduceOp reduce) {
  switch (reduce) {
    case ReduceOp::kSum: return "binary.add";
    case ReduceOp::kMax: return "binary.max";
    case ReduceOp::kMin: return "binary.min";
    case ReduceOp::kProd: return "binary.mul";
    case ReduceOp::kAny: return "binary.or";
    case ReduceOp::kAll: return "binary.and";
  }
  throw InternalError("unknown reduction");
}

bool begins_as_zero(const Variable& variable) {
  return variable.initializer == Initializer::constant(0);
}

std::vector<PartialAxis> sums_among(std::vector<PartialAxis> partial) {
  std::erase_if(partial, [](const PartialAxis& p) { return p.reduce != ReduceOp::kSum; });
  return partial;
}

/// Where what enters and leaves a region stands, with several micro-batches with time in front.
struct RegionPlacements {
  std::vector<DistAttr> inputs;
  std::vector<DistAttr> outputs;
  bool carries =
      false;  // outputs are left in the places of the first inputs; else they are results
};

class PlacementCheck {
 public:
  PlacementCheck(const Graph& graph, const TaskGraph& tasks, int64_t micro_batches)
      : graph_(graph),
        tasks_(tasks),
        known_(graph, tasks, micro_batches),
        op_rules_(graph.ops().size()) {
    for (const MeshPtr& mesh : tasks.meshes) coordinates_.push_back(sampled_coordinates(*mesh));
  }

  void run() {
    for (const TaskInput& input : tasks_.inputs) start_input(input);
    for (const TaskVariable& variable : tasks_.variables) start_variable(variable);
    follow_tasks();
    check_variables();
    check_results();
  }

  void run_region(const RegionPlacements& region) {
    if (tasks_.variables.size() != region.inputs.size())
      refuse("a region has another number of operands");
    for (size_t i = 0; i < region.inputs.size(); ++i) start_operand(i, region.inputs[i]);
    follow_tasks();
    if (!region.carries && tasks_.results.size() != region.outputs.size())
      refuse("a region has another number of results");
    for (size_t i = 0; i < region.outputs.size(); ++i)
      check_end(
          i,
          region.carries ? known_.last_in_variable(static_cast<int>(i)) : tasks_.results[i].second,
          region.outputs[i]);
  }

 private:
  // ---- registers ----

  const Register& reg_at(RegisterIndex reg) const { return tasks_.registers[reg]; }
  const SymbolicPlacement& at(RegisterIndex reg) const { return known_.at(reg); }
  const std::string& name_of(ValueId value) const { return graph_.value(value).name; }
  std::string text_of(RegisterIndex reg) const { return "'" + reg_at(reg).name + "'"; }

  void start_input(const TaskInput& input) {
    const auto value = graph_.find_value(input.name);
    if (!value || !graph_.is_input(*value))
      refuse("'" + input.name + "' is fed and is no input of the program");
    if (input.type != graph_.type(*value))
      refuse("input '" + input.name + "' is fed as " + to_text(input.type));
    known_.fill(input.value, {*value, known_.declared_dims(reg_at(input.value)), {}});
  }

  void start_variable(const TaskVariable& variable) {
    const auto value = graph_.find_value(variable.name);
    if (!value || !graph_.variable_of(*value))
      refuse("'" + variable.name + "' is kept and is no variable of the program");
    if (reg_at(variable.value).micro_batch.index >= 0)
      refuse("variable '" + variable.name + "' is kept for one micro-batch");
    DistAttr attr = known_.declared_dims(reg_at(variable.value));
    // Zeros everywhere are addends of zero: what begins so may be kept as a sum that is not done.
    if (begins_as_zero(*graph_.variable_of(*value)))
      attr.partial = sums_among(known_.declared_partial(reg_at(variable.value)));
    known_.fill(variable.value, {*value, std::move(attr), {}});
  }

  // ---- regions ----

  void start_operand(size_t index, const DistAttr& outside) {
    const ValueId value = graph_.inputs().at(index);
    const RegisterIndex reg = tasks_.variables[index].value;
    DistAttr attr = known_.declared_dims(reg_at(reg));
    attr.partial = outside.partial;
    if (!(attr == outside))
      refuse(text_of(reg) + " is declared " + to_text(attr) + " in a region, and the operand is " +
             to_text(outside));
    std::vector<int> summed;
    if (known_.is_partial_in_time(attr)) summed = {reg_at(reg).micro_batch.index};
    known_.fill(reg, {value, std::move(attr), std::move(summed)});
  }

  void check_end(size_t index, RegisterIndex reg, const DistAttr& outside) const {
    const auto& [name, wanted] = graph_.outputs().at(index);
    if (at(reg).value != wanted)
      refuse("a region gives " + text_of(reg) + " as '" + name + "', which is '" + name_of(wanted) +
             "'");
    if (!(at(reg).attr == outside))
      refuse("a region gives '" + name + "' as " + to_text(at(reg).attr) + ", and its op has " +
             to_text(outside));
  }

  void follow_regions(const Op& op, const KernelStep& step,
                      const std::vector<const DistAttr*>& inputs,
                      const std::vector<DistAttr>& outputs, const OpSharding& sharding) {
    const bool is_loop = op.kind == kWhileKind;
    if (!step.control || (step.control->kind == Control::Kind::kWhile) != is_loop ||
        step.control->regions.size() != op.regions.size())
      refuse("op '" + op.name + "' does not run its regions");
    const int64_t max_iterations =
        op.attributes.has("max_iterations") ? op.attributes.integer("max_iterations") : -1;
    if (is_loop && step.control->max_iterations != max_iterations)
      refuse("op '" + op.name + "' makes another number of iterations");
    RegionPlacements region;
    std::vector<DistAttr> results = outputs;
    for (size_t i = 0; i < results.size(); ++i)
      results[i].partial =
          derive_partial(judged(*graph_.find_op(op.name)).view,
                         judged(*graph_.find_op(op.name)).rule, sharding, static_cast<int>(i));
    // A sum of iterations begins as addends: the first rank has what it began with, the others
    // zeros.
    if (is_loop) region.inputs = results;
    for (size_t i = is_loop ? outputs.size() : 1; i < inputs.size(); ++i)
      region.inputs.push_back(*inputs[i]);
    for (size_t i = 0; i < outputs.size(); ++i)
      if (is_loop && !(*inputs[i] == outputs[i]))
        refuse("op '" + op.name + "' takes " + to_text(*inputs[i]) + " and carries it as " +
               to_text(outputs[i]));
    for (size_t r = 0; r < op.regions.size(); ++r) {
      const bool is_condition = is_loop && r == 0;
      region.carries = is_loop && r == 1;
      region.outputs =
          is_condition ? std::vector{DistAttr::replicated(outputs.front().mesh, 0)} : results;
      PlacementCheck(*op.regions[r], step.control->regions[r], known_.micro_batches())
          .run_region(region);
    }
  }

  // ---- kernels ----

  void follow_tasks() {
    for (TaskId id : tasks_.order) {
      const Task& task = tasks_.tasks[id];
      if (task.kind == Task::Kind::kExchange) follow_exchange(task);
      if (task.kind == Task::Kind::kCopy)
        pass_on(task.inputs.front(), task.outputs.front(), at(task.inputs.front()));
      for (const KernelStep& step : task.steps) follow_step(task, step);
    }
  }

  void follow_step(const Task& task, const KernelStep& step) {
    for (RegisterIndex reg : step.inputs)
      if (at(reg).value.index < 0)
        refuse("'" + step.op + "' reads " + text_of(reg) + " before anything fills it");
    const auto op = graph_.find_op(step.op);
    if (op && has_operands(*op, step) && !adds_micro_batches_of_its_name(step))
      return follow_op(task, step, *op);
    if (!op && step.call.kernel == "take_chunk") return follow_take(step);
    if (!op && step.call.kernel == "join_chunks") return follow_join(step);
    if (adds_micro_batches_of_its_name(step) || (!op && step.op.ends_with(".sum")))
      return follow_sum(step);
    if (step.call.kernel == "copy" && (step.op.ends_with(".next") || step.op.ends_with(".before")))
      return follow_copy(step);
    if (!op) refuse("'" + step.op + "' is no op of the program");
    refuse_operands(*op, step);
  }

  bool has_operands(OpId id, const KernelStep& step) const {
    const Op& op = graph_.op(id);
    return std::equal(op.inputs.begin(), op.inputs.end(), step.inputs.begin(), step.inputs.end(),
                      [&](ValueId value, RegisterIndex reg) { return at(reg).value == value; });
  }

  [[noreturn]] void refuse_operands(OpId id, const KernelStep& step) const {
    const Op& op = graph_.op(id);
    if (op.inputs.size() != step.inputs.size())
      refuse("op '" + op.name + "' takes " + std::to_string(op.inputs.size()) +
             " operands and is given " + std::to_string(step.inputs.size()));
    for (size_t i = 0; i < op.inputs.size(); ++i)
      if (at(step.inputs[i]).value != op.inputs[i])
        refuse("op '" + op.name + "' takes '" + name_of(op.inputs[i]) + "' as input " +
               std::to_string(i) + " and is given " + text_of(step.inputs[i]) + ", which holds '" +
               name_of(at(step.inputs[i]).value) + "'");
    throw InternalError("placements: the operands of '" + op.name + "' differ somewhere");
  }

  const OpRule& judged(OpId id) {
    auto& slot = op_rules_[id.index];
    if (!slot) {
      const Op& op = graph_.op(id);
      OpView op_view = view(graph_, op);
      ShardingRule rule = rules_(op.kind, op_view);
      slot.emplace(OpRule{std::move(op_view), std::move(rule)});
    }
    return *slot;
  }

  void follow_op(const Task& task, const KernelStep& step, OpId id) {
    const Op& op = graph_.op(id);
    const auto& [op_view, rule] = judged(id);
    if (step.outputs.size() != op.outputs.size())
      refuse("op '" + op.name + "' has another number of results");
    std::vector<const DistAttr*> inputs;
    std::vector<DistAttr> outputs;
    for (RegisterIndex reg : step.inputs) {
      check_micro_batch(step, reg, task.micro_batch);
      inputs.push_back(&at(reg).attr);
    }
    for (RegisterIndex reg : step.outputs) outputs.push_back(known_.declared_dims(reg_at(reg)));
    const OpSharding sharding = derive_sharding(op_view, rule, inputs, outputs);
    const bool by_micro_batch = known_.has_time() && sharding.uses(kTime);
    if (by_micro_batch != (task.micro_batch >= 0))
      refuse("op '" + op.name + "' is run " +
             (task.micro_batch < 0 ? "once a step" : "in one micro-batch") +
             " and its operands are " +
             (by_micro_batch ? "of one micro-batch" : "made once a step"));
    check_chunks(op, rule, tasks_, step);
    for (size_t i = 0; i < step.inputs.size(); ++i)
      check_parts(op, rule, sharding, rule.inputs[i], step.inputs[i], task.micro_batch);
    for (size_t i = 0; i < step.outputs.size(); ++i)
      check_parts(op, rule, sharding, rule.outputs[i], step.outputs[i], task.micro_batch);
    if (op.regions.empty())
      check_call(step, op_view.definition->kernel(op_view, factor_splits(rule, sharding)), task);
    else
      follow_regions(op, step, inputs, outputs, sharding);
    for (size_t i = 0; i < step.outputs.size(); ++i) {
      outputs[i].partial = derive_partial(op_view, rule, sharding, static_cast<int>(i));
      std::vector<int> summed;
      if (known_.is_partial_in_time(outputs[i])) summed = {task.micro_batch};
      if (known_.uses_time(outputs[i]) &&
          reg_at(step.outputs[i]).micro_batch.index != task.micro_batch)
        refuse(text_of(step.outputs[i]) + " is made in micro-batch " +
               std::to_string(task.micro_batch) + " and declared for another");
      known_.fill(step.outputs[i], {op.outputs[i], std::move(outputs[i]), std::move(summed),
                                    reg_at(step.outputs[i]).chunk});
    }
  }

  /// What lies in one micro-batch is used in that one.
  void check_micro_batch(const KernelStep& step, RegisterIndex reg, int micro_batch) const {
    const SymbolicPlacement& operand = at(reg);
    if (known_.uses_time(operand.attr) && !known_.is_partial_in_time(operand.attr) &&
        reg_at(reg).micro_batch.index != micro_batch)
      refuse("op '" + step.op + "' of micro-batch " + std::to_string(micro_batch) + " reads " +
             text_of(reg) + " of micro-batch " + std::to_string(reg_at(reg).micro_batch.index));
    if (known_.is_partial_in_time(operand.attr) && operand.summed != std::vector{micro_batch})
      refuse("op '" + step.op + "' of micro-batch " + std::to_string(micro_batch) + " reads " +
             text_of(reg) + ", which has the addends of other micro-batches");
  }

  /// Does an operand hold the indices of its factors that this rank has?
  void check_parts(const Op& op, const ShardingRule& rule, const OpSharding& sharding,
                   const OperandFactors& factors, RegisterIndex index, int micro_batch) const {
    for (size_t d = 0; d < factors.size(); ++d)
      for (const DimFactor& dim : choices_of(factors[d]))
        if (!sharding.factor_axes[dim.factor].empty())
          check_part(op, rule.factors[dim.factor], sharding, dim, d, index, micro_batch);
  }

  void check_part(const Op& op, const Factor& factor, const OpSharding& sharding,
                  const DimFactor& dim, size_t d, RegisterIndex index, int micro_batch) const {
    const Register& reg = reg_at(index);
    const DimSharding& declared = reg.attr.dims[d];
    const bool in_parts_of_time =
        reg.micro_batch.index >= 0 && reg.micro_batch.dim == static_cast<int>(d);
    const bool is_plain =
        declared.windows.empty() && !dim.window && declared.chunks == 1 && !in_parts_of_time;
    if (is_plain && declared.unit == dim.unit) return;
    // A chunk lies in the parts of the whole.
    const int64_t chunks = reg.chunk.dim == static_cast<int>(d) ? reg.chunk.count : 1;
    const Split held =
        reg.attr.split(static_cast<int>(d), reg.type.shape[static_cast<int>(d)] * chunks);
    for (const Coordinate& coordinate : coordinates_[reg.mesh]) {
      const std::vector<Range> parts =
          derive_indices(dim, factor.extent, sharding, known_.in_time(micro_batch, coordinate));
      std::vector<Range> own = held.ranges_at(coordinate);
      if (in_parts_of_time)
        for (Range& range : own)
          range = {range.begin + reg.micro_batch.begin, range.end + reg.micro_batch.begin};
      if (own != parts)
        refuse("op '" + op.name + "' has indices " + text_of(parts) + " of factor " + factor.name +
               " at " + to_text(coordinate) + " and dim " + std::to_string(d) + " of " +
               text_of(index) + " holds " + text_of(own));
    }
  }

  static std::string text_of(const std::vector<Range>& ranges) {
    std::string text;
    for (const Range& range : ranges)
      text += (text.empty() ? "[" : " and [") + std::to_string(range.begin) + ", " +
              std::to_string(range.end) + ")";
    return text;
  }

  /// Is the kernel called as the operator calls it for these factors?
  void check_call(const KernelStep& step, const KernelCall& expected, const Task& task) const {
    const KernelCall& call = step.call;
    if (call.kernel != expected.kernel || call.text != expected.text ||
        call.ints.size() != expected.ints.size())
      refuse("op '" + step.op + "' is " + expected.kernel + " \"" + expected.text +
             "\" and calls " + call.kernel + " \"" + call.text + "\"");
    if (call.reals != expected.reals)
      refuse("op '" + step.op + "' calls " + call.kernel + " with other numbers than its operator");
    for (size_t i = 0; i < call.ints.size(); ++i) check_parameter(step, i, expected.ints[i], task);
  }

  void check_parameter(const KernelStep& step, size_t i, const LocalInt& expected,
                       const Task& task) const {
    const LocalInt& given = step.call.ints[i];
    const auto differ = [&](int64_t a, int64_t b, const std::string& where) {
      if (a != b)
        refuse("op '" + step.op + "' calls " + step.call.kernel + " with " + std::to_string(a) +
               " as parameter " + std::to_string(i) + where + ", where its operator has " +
               std::to_string(b));
    };
    if (given.is_constant() && expected.is_constant())
      return differ(given.constant, expected.constant, "");
    for (const Coordinate& coordinate : coordinates_[task.mesh])
      differ(given.at(coordinate), expected.at(known_.in_time(task.micro_batch, coordinate)),
             " at " + to_text(coordinate));
  }

  // ---- sums over micro-batches, and copies ----

  /// "y.sum" of two addends of y: it may be the name of an op, too.
  bool adds_micro_batches_of_its_name(const KernelStep& step) const {
    if (step.inputs.size() != 2 || step.inputs[0] == step.inputs[1]) return false;
    const SymbolicPlacement &a = at(step.inputs[0]), &b = at(step.inputs[1]);
    return a.value == b.value && known_.is_partial_in_time(a.attr) &&
           known_.is_partial_in_time(b.attr) && step.op == name_of(a.value) + ".sum";
  }

  void follow_sum(const KernelStep& step) {
    if (step.inputs.size() != 2 || step.outputs.size() != 1)
      refuse("'" + step.op + "' adds two to one");
    const SymbolicPlacement &a = at(step.inputs[0]), &b = at(step.inputs[1]);
    if (a.chunk.dim >= 0 || b.chunk.dim >= 0) refuse("'" + step.op + "' adds chunks");
    if (a.value != b.value || step.op != name_of(a.value) + ".sum")
      refuse("'" + step.op + "' adds " + text_of(step.inputs[0]) + " and " +
             text_of(step.inputs[1]) + ", which are not its addends");
    if (!known_.is_partial_in_time(a.attr) || !(a.attr == b.attr))
      refuse("'" + step.op + "' adds '" + to_text(a.attr) + "' and '" + to_text(b.attr) +
             "', which are not addends of micro-batches alike");
    const ReduceOp reduce = SymbolicPlacements::over_time(a.attr).reduce;
    if (step.call.kernel != combining_kernel(reduce) || !step.call.ints.empty() ||
        !step.call.reals.empty())
      refuse("'" + step.op + "' takes the " + std::string(to_text(reduce)) +
             " over micro-batches and calls " + step.call.kernel);
    SymbolicPlacement sum{a.value, a.attr, {}};
    std::merge(a.summed.begin(), a.summed.end(), b.summed.begin(), b.summed.end(),
               std::back_inserter(sum.summed));
    const auto twice = std::adjacent_find(sum.summed.begin(), sum.summed.end());
    if (twice != sum.summed.end())
      refuse("'" + step.op + "' adds the addend of micro-batch " + std::to_string(*twice) +
             " twice");
    if (static_cast<int64_t>(sum.summed.size()) == known_.micro_batches()) {
      sum.attr.partial = known_.without_time(std::move(sum.attr.partial));
      sum.summed.clear();
    }
    pass_on(step.inputs[0], step.outputs[0], std::move(sum));
  }

  void follow_copy(const KernelStep& step) {
    if (step.inputs.size() != 1 || step.outputs.size() != 1)
      refuse("'" + step.op + "' copies one to one");
    pass_on(step.inputs[0], step.outputs[0], at(step.inputs[0]));
  }

  // ---- chunks ----

  void follow_take(const KernelStep& step) {
    if (step.inputs.size() != 1 || step.outputs.size() != 1)
      refuse("'" + step.op + "' takes one chunk of one tensor");
    SymbolicPlacement standing = at(step.inputs[0]);
    if (standing.chunk.dim >= 0)
      refuse("'" + step.op + "' takes a chunk of the chunk " + text_of(step.inputs[0]));
    standing.chunk = reg_at(step.outputs[0]).chunk;
    if (standing.chunk.dim < 0)
      refuse("'" + step.op + "' makes " + text_of(step.outputs[0]) + ", which is declared whole");
    check_chunk_call(step, reg_at(step.inputs[0]), standing.chunk, {standing.chunk.index});
    pass_on(step.inputs[0], step.outputs[0], std::move(standing));
  }

  /// Chunk 0, 1, 2, ... of one tensor.
  void follow_join(const KernelStep& step) {
    if (step.inputs.empty() || step.outputs.size() != 1)
      refuse("'" + step.op + "' joins chunks to one tensor");
    SymbolicPlacement standing = at(step.inputs.front());
    Chunk wanted = standing.chunk;
    if (wanted.dim < 0 || wanted.count != static_cast<int64_t>(step.inputs.size()))
      refuse("'" + step.op + "' joins " + std::to_string(step.inputs.size()) + " of " +
             std::to_string(wanted.count) + " chunks");
    for (size_t i = 0; i < step.inputs.size(); ++i) {
      const SymbolicPlacement& chunk = at(step.inputs[i]);
      wanted.index = static_cast<int64_t>(i);
      if (chunk.value != standing.value || !(chunk.attr == standing.attr) ||
          chunk.summed != standing.summed || !(chunk.chunk == wanted) ||
          reg_at(step.inputs[i]).micro_batch != reg_at(step.outputs[0]).micro_batch)
        refuse("'" + step.op + "' takes " + text_of(step.inputs[i]) + " as chunk " +
               std::to_string(i) + " of '" + name_of(standing.value) + "'");
    }
    check_chunk_call(step, reg_at(step.outputs[0]), wanted, {});
    standing.chunk = {};
    pass_on(step.inputs.front(), step.outputs[0], std::move(standing));
  }

  /// The target lies as the source does.
  void pass_on(RegisterIndex source, RegisterIndex target, SymbolicPlacement standing) {
    DistAttr declared = known_.declared_dims(reg_at(target));
    declared.partial = standing.attr.partial;
    if (!(declared == standing.attr))
      refuse(text_of(target) + " is declared " + to_text(reg_at(target).attr) + " and is made of " +
             text_of(source) + ", which is " + to_text(reg_at(source).attr));
    known_.fill(target, std::move(standing));
  }

  // ---- exchanges ----

  void follow_exchange(const Task& task) {
    const RegisterIndex source = task.inputs.front(), target = task.outputs.front();
    const Register &from = reg_at(source), &to = reg_at(target);
    const std::string what = "exchange '" + task.name + "' ";
    if (at(source).value.index < 0)
      refuse(what + "reads " + text_of(source) + " before anything fills it");
    if (!(task.exchange.from == from.attr))
      refuse(what + "takes " + text_of(source) + " for " + to_text(task.exchange.from) +
             ", and it is " + to_text(from.attr));
    if (!(task.exchange.to == to.attr))
      refuse(what + "makes " + to_text(task.exchange.to) + ", and " + text_of(target) +
             " is declared " + to_text(to.attr));
    if (from.type != to.type || from.micro_batch != to.micro_batch)
      refuse(what + "puts one micro-batch in the place of another");
    check_exchange(from.type.shape, task);
    SymbolicPlacement standing = at(source);
    DistAttr attr = known_.declared_dims(to);
    attr.partial = known_.declared_partial(to);
    if (known_.is_partial_in_time(standing.attr))
      attr.partial.insert(attr.partial.begin(), SymbolicPlacements::over_time(standing.attr));
    standing.attr = std::move(attr);
    known_.fill(target, std::move(standing));
  }

  /// Equal exchanges are judged once.
  void check_exchange(const Shape& shape, const Task& task) {
    const Exchange& exchange = task.exchange;
    const MeshIndex sender_mesh = reg_at(task.inputs.front()).mesh;
    if (!checked_exchanges_
             .insert(to_text(shape) + to_text(exchange.from) + std::to_string(sender_mesh.value()) +
                     to_text(exchange.to) + std::to_string(task.mesh.value()))
             .second)
      return;
    check_ends(exchange);
    for (const Coordinate& coordinate : coordinates_[task.mesh]) {
      const Rank receiver = exchange.to.mesh->rank_at(coordinate);
      check_pulls(shape, exchange, receiver, pulls(shape, exchange, receiver));
    }
  }

  // ---- the end of a step ----

  void check_variables() const {
    for (const Variable& variable : graph_.variables()) {
      const std::string& name = name_of(variable.value);
      const auto kept = std::find_if(tasks_.variables.begin(), tasks_.variables.end(),
                                     [&](const TaskVariable& v) { return v.name == name; });
      if (kept == tasks_.variables.end()) refuse("variable '" + name + "' is not kept");
      const RegisterIndex last =
          known_.last_in_variable(static_cast<int>(kept - tasks_.variables.begin()));
      const ValueId wanted = variable.next.value_or(variable.value);
      if (at(last).value != wanted)
        refuse("variable '" + name + "' ends the step as '" + name_of(at(last).value) +
               "' and is to become '" + name_of(wanted) + "'");
      if (!(reg_at(last).attr == reg_at(kept->value).attr))
        refuse("variable '" + name + "' lies as " + to_text(reg_at(kept->value).attr) +
               " and its next value as " + to_text(reg_at(last).attr));
      if (at(last).chunk.dim >= 0) refuse("variable '" + name + "' ends the step as a chunk");
      if (known_.uses_time(at(last).attr))
        refuse("variable '" + name + "' ends the step with what one micro-batch made");
    }
  }

  void check_results() const {
    for (const auto& [name, reg] : tasks_.results) {
      const bool known =
          std::any_of(graph_.outputs().begin(), graph_.outputs().end(),
                      [&, &result = name](const auto& output) { return output.first == result; });
      if (!known) refuse("'" + name + "' is handed out and is no output of the program");
      const ValueId wanted = graph_.output(name);
      if (at(reg).value != wanted)
        refuse("output '" + name + "' is '" + name_of(wanted) + "' and hands out " + text_of(reg));
      if (!at(reg).attr.partial.empty() || known_.uses_time(at(reg).attr) || at(reg).chunk.dim >= 0)
        refuse("output '" + name + "' hands out " + text_of(reg) +
               ", which is only a part of it: " + to_text(at(reg).attr));
    }
    for (const auto& [name, value] : graph_.outputs()) {
      const bool given =
          std::any_of(tasks_.results.begin(), tasks_.results.end(),
                      [&, &output = name](const auto& result) { return result.first == output; });
      if (!given && !is_made_in_rows(value)) refuse("output '" + name + "' is not handed out");
    }
  }

  /// Then it is not handed out; an input may be fed whole besides, on another mesh.
  bool is_made_in_rows(ValueId value) const {
    return std::any_of(known_.all().begin(), known_.all().end(),
                       [&](const SymbolicPlacement& standing) {
                         return standing.value == value && known_.uses_time(standing.attr) &&
                                !known_.is_partial_in_time(standing.attr);
                       });
  }

  const Graph& graph_;
  const TaskGraph& tasks_;
  SymbolicPlacements known_;
  IndexedVector<MeshIndex, std::vector<Coordinate>>
      coordinates_;                           // where parts and parameters are compared
  std::vector<std::optional<OpRule>> op_rules_;  // by op
  RuleCache rules_{catalogue_rule};
  std::set<std::string> checked_exchanges_;
};

}  // namespace

void check_placements(const Graph& graph, const TaskGraph& tasks, int64_t micro_batches) {
  PlacementCheck(graph, tasks, micro_batches).run();
}

}  // namespace tessera
