#include "compiler/placement_check/internal/boundary_check.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "compiler/placement_check/internal/refuse.h"

namespace tessera {
namespace {

bool begins_as_zero(const Variable& variable) {
  return variable.initializer == Initializer::constant(0);
}

std::vector<PartialAxis> sums_among(std::vector<PartialAxis> partial) {
  std::erase_if(partial, [](const PartialAxis& p) { return p.reduce != ReduceOp::kSum; });
  return partial;
}

}  // namespace

// ---- a step ----

void BoundaryCheck::begin_step() {
  for (const TaskInput& input : program_.tasks().inputs) fill_input(input);
  for (const TaskVariable& variable : program_.tasks().variables) fill_variable(variable);
}

void BoundaryCheck::end_step() const {
  const auto& kept = program_.tasks().variables;
  std::unordered_map<std::string_view, int> kept_by_name;
  for (int i = 0; i < std::ssize(kept); ++i) kept_by_name.emplace(kept[i].name, i);
  for (const Variable& variable : program_.graph().variables()) {
    const std::string& name = program_.name_of(variable.value);
    const auto found = kept_by_name.find(name);
    if (found == kept_by_name.end()) refuse("variable '" + name + "' is not kept");
    check_variable(variable, found->second);
  }
  for (const auto& [name, reg] : program_.tasks().results) check_result(name, reg);
  check_outputs();
}

void BoundaryCheck::fill_input(const TaskInput& input) {
  const Graph& graph = program_.graph();
  const auto value = graph.find_value(input.name);
  if (!value || !graph.is_input(*value))
    refuse("'" + input.name + "' is fed and is not an input of the program");
  if (input.type != graph.type(*value))
    refuse("input '" + input.name + "' is fed as " + to_text(input.type));
  const Register& reg = program_.reg(input.value);
  placements_.fill(input.value, {*value, program_.micro_batch_axis().declared_dims(reg), {}});
}

void BoundaryCheck::fill_variable(const TaskVariable& variable) {
  const Graph& graph = program_.graph();
  const MicroBatchAxis& axis = program_.micro_batch_axis();
  const Register& reg = program_.reg(variable.value);
  const auto value = graph.find_value(variable.name);
  if (!value || !graph.variable_of(*value))
    refuse("'" + variable.name + "' is kept and is not a variable of the program");
  if (reg.micro_batch.index >= 0)
    refuse("variable '" + variable.name + "' is kept for one micro-batch");
  DistAttr attr = axis.declared_dims(reg);
  // A variable whose initial value is zero on every rank may be kept as a partial sum.
  if (begins_as_zero(*graph.variable_of(*value)))
    attr.partial = sums_among(axis.declared_partial(reg));
  placements_.fill(variable.value, {*value, std::move(attr), {}});
}

void BoundaryCheck::check_variable(const Variable& variable, int index) const {
  const std::string& name = program_.name_of(variable.value);
  const TaskVariable& kept = program_.tasks().variables[index];
  const RegisterIndex last = placements_.last_in_variable(index);
  const SymbolicPlacement& placement = placements_.at(last);
  const ValueId wanted = variable.next.value_or(variable.value);
  if (placement.value != wanted)
    refuse("variable '" + name + "' ends the step as '" + program_.name_of(placement.value) +
           "' and is to become '" + program_.name_of(wanted) + "'");
  if (!(program_.reg(last).attr == program_.reg(kept.value).attr))
    refuse("variable '" + name + "' is placed as " + to_text(program_.reg(kept.value).attr) +
           " and its next value as " + to_text(program_.reg(last).attr));
  if (placement.chunk.dim >= 0) refuse("variable '" + name + "' ends the step as a chunk");
  if (program_.micro_batch_axis().is_used_by(placement.attr))
    refuse("variable '" + name + "' ends the step with what one micro-batch made");
}

void BoundaryCheck::check_result(const std::string& name, RegisterIndex reg) const {
  const Graph& graph = program_.graph();
  const bool is_output = std::any_of(graph.outputs().begin(), graph.outputs().end(),
                                     [&](const auto& output) { return output.first == name; });
  if (!is_output) refuse("'" + name + "' is returned and is not an output of the program");
  const SymbolicPlacement& placement = placements_.at(reg);
  const ValueId wanted = graph.output(name);
  if (placement.value != wanted)
    refuse("output '" + name + "' is '" + program_.name_of(wanted) + "' and returns " +
           program_.quoted(reg));
  if (!placement.attr.partial.empty() || program_.micro_batch_axis().is_used_by(placement.attr) ||
      placement.chunk.dim >= 0)
    refuse("output '" + name + "' returns " + program_.quoted(reg) +
           ", which is only a part of it: " + to_text(placement.attr));
}

void BoundaryCheck::check_outputs() const {
  const auto& results = program_.tasks().results;
  for (const auto& [name, value] : program_.graph().outputs()) {
    const bool is_returned =
        std::any_of(results.begin(), results.end(),
                    [&, &output = name](const auto& result) { return result.first == output; });
    if (!is_returned && !is_made_in_rows(value)) refuse("output '" + name + "' is not returned");
  }
}

/// Whether each micro-batch makes its rows of the value: then it is not returned. An input that is
/// fed in rows on one mesh may be fed whole on another.
bool BoundaryCheck::is_made_in_rows(ValueId value) const {
  const MicroBatchAxis& axis = program_.micro_batch_axis();
  return std::any_of(placements_.all().begin(), placements_.all().end(),
                     [&](const SymbolicPlacement& placement) {
                       return placement.value == value && axis.is_used_by(placement.attr) &&
                              !axis.is_partial_in(placement.attr);
                     });
}

// ---- a region ----

void BoundaryCheck::begin_region(const RegionPlacements& region) {
  if (program_.tasks().variables.size() != region.inputs.size())
    refuse("a region has another number of operands");
  for (size_t i = 0; i < region.inputs.size(); ++i) fill_operand(i, region.inputs[i]);
}

void BoundaryCheck::end_region(const RegionPlacements& region) const {
  const auto& results = program_.tasks().results;
  if (!region.carries && results.size() != region.outputs.size())
    refuse("a region has another number of results");
  for (int i = 0; i < std::ssize(region.outputs); ++i)
    check_region_output(i, region.carries ? placements_.last_in_variable(i) : results[i].second,
                        region.outputs[i]);
}

void BoundaryCheck::fill_operand(size_t index, const DistAttr& outside) {
  const MicroBatchAxis& axis = program_.micro_batch_axis();
  const ValueId value = program_.graph().inputs().at(index);
  const RegisterIndex reg = program_.tasks().variables[index].value;
  DistAttr attr = axis.declared_dims(program_.reg(reg));
  attr.partial = outside.partial;
  if (!(attr == outside))
    refuse(program_.quoted(reg) + " is declared " + to_text(attr) +
           " in a region, and the operand is " + to_text(outside));
  std::vector<int> summed;
  if (axis.is_partial_in(attr)) summed = {program_.reg(reg).micro_batch.index};
  placements_.fill(reg, {value, std::move(attr), std::move(summed)});
}

void BoundaryCheck::check_region_output(size_t index, RegisterIndex reg,
                                        const DistAttr& outside) const {
  const auto& [name, wanted] = program_.graph().outputs().at(index);
  const SymbolicPlacement& placement = placements_.at(reg);
  if (placement.value != wanted)
    refuse("a region gives " + program_.quoted(reg) + " as '" + name + "', which is '" +
           program_.name_of(wanted) + "'");
  if (!(placement.attr == outside))
    refuse("a region gives '" + name + "' as " + to_text(placement.attr) + ", and its op has " +
           to_text(outside));
}

}  // namespace tessera
