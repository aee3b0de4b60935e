#include "training/verify/internal/decisions.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace tessera {

DecisionOperands::DecisionOperands(const Graph& serial, const Compiled& compiled)
    : serial_(serial), compiled_(compiled) {
  const StepsOfOps steps = steps_of_ops(compiled.tasks);
  for (const Op& op : serial.ops())
    if (const Decision decision = decision_of(serial, op); !decision.results.empty())
      add_op(op, decision, steps);
}

DecisionOperands::StepsOfOps DecisionOperands::steps_of_ops(const TaskGraph& tasks) {
  StepsOfOps steps;
  for (const Task& task : tasks.tasks)
    for (const KernelStep& step : task.steps)
      if (step.purpose == KernelPurpose::kOp) steps[step.op.text()].push_back(step);
  return steps;
}

const Op* DecisionOperands::find_compiled(const Op& op, const Decision& decision) const {
  const auto result = find_value(compiled_, serial_.value(op.outputs.front()).name);
  if (!result) return nullptr;
  const OpId producer = compiled_.graph.value(*result).producer;
  if (producer.index < 0) return nullptr;
  const Op& found = compiled_.graph.op(producer);
  if (found.kind != op.kind || found.inputs.size() != op.inputs.size()) return nullptr;
  const bool reads_the_same = std::ranges::all_of(decision.operands, [&](int operand) {
    const auto held = find_value(compiled_, serial_.value(op.inputs[operand]).name);
    return held && *held == found.inputs[operand];
  });
  return reads_the_same ? &found : nullptr;
}

void DecisionOperands::add_op(const Op& op, const Decision& decision, const StepsOfOps& all_steps) {
  const Op* compiled = find_compiled(op, decision);
  if (compiled == nullptr) return;
  const auto steps = all_steps.find(compiled->name);
  if (steps == all_steps.end()) return;
  deciding_.push_back(&op);
  for (const KernelStep& step : steps->second)
    for (const int operand : decision.operands)
      add_register(serial_.value(op.inputs[operand]).name, step.inputs[operand]);
}

void DecisionOperands::add_register(const std::string& name, RegisterIndex reg) {
  const auto [found, is_new] = by_name_.try_emplace(name, operands_.end_index());
  if (is_new) operands_.push_back({.name = name, .covered = {}});
  std::vector<OperandIndex>& operands = operands_of_[reg];
  if (operands.empty()) registers_.push_back(reg);
  if (std::ranges::find(operands, found->second) == operands.end())
    operands.push_back(found->second);
}

void DecisionOperands::clear() {
  for (const OperandIndex index : operands_.indices()) {
    Operand& operand = operands_[index];
    const TensorType& type = serial_.value(*serial_.find_value(operand.name)).type;
    ReferenceTensor& whole = values_[operand.name];
    whole.type = type;
    whole.values.assign(static_cast<size_t>(element_count(type.shape)), 0.0);
    operand.covered.assign(whole.values.size(), false);
    operand.is_one_tensor = true;
  }
}

void DecisionOperands::place(const Capture::Whole& part, const std::vector<size_t>& positions,
                             Operand& operand, ReferenceTensor& whole) {
  for (size_t i = 0; i < positions.size(); ++i) {
    if (!part.held.empty() && !part.held[i]) continue;
    const size_t at = positions[i];
    const double value = part.tensor.values[i];
    const bool is_known = operand.covered[at] && whole.values[at] != value &&
                          !(std::isnan(whole.values[at]) && std::isnan(value));
    operand.is_one_tensor = operand.is_one_tensor && !is_known;
    operand.covered[at] = true;
    whole.values[at] = value;
  }
}

void DecisionOperands::add(std::span<const RegisterIndex> registers, const Capture& capture) {
  for (const RegisterIndex index : registers) {
    const Register& reg = compiled_.tasks.registers[index];
    const Capture::Whole part = capture.assemble(index);
    ensure(part.missing.empty(),
           [&] { return "register '" + reg.name + "' was filled on every rank: " + part.missing; });
    const bool is_plain = reg.attr.partial.empty() && !is_partial_of_micro_batches(reg) &&
                          part.copies.empty() && !part.mismatch;
    for (const OperandIndex operand_index : operands_of_.at(index)) {
      Operand& operand = operands_[operand_index];
      ReferenceTensor& whole = values_.at(operand.name);
      if (is_plain)
        place(part, positions_of(reg, whole.type.shape), operand, whole);
      else
        operand.is_one_tensor = false;
    }
  }
}

void DecisionOperands::drop_incomplete() {
  for (const OperandIndex index : operands_.indices()) {
    const Operand& operand = operands_[index];
    const bool is_whole = std::ranges::find(operand.covered, false) == operand.covered.end();
    if (!operand.is_one_tensor || !is_whole) values_.erase(operand.name);
  }
}

int DecisionOperands::place_of(const std::string& value) const {
  return serial_.value(*serial_.find_value(value)).producer.index;
}

void DecisionOperands::drop_from(const std::string& value) {
  std::erase_if(values_, [&](const auto& item) { return place_of(item.first) >= place_of(value); });
}

std::vector<std::string> DecisionOperands::names() const {
  std::vector<std::string> names;
  for (const auto& [name, value] : values_) names.push_back(name);
  std::ranges::stable_sort(names, {}, [&](const std::string& name) { return place_of(name); });
  return names;
}

std::set<std::string> DecisionOperands::decided_results() const {
  std::set<std::string> results;
  for (const Op* op : deciding_) {
    const Decision decision = decision_of(serial_, *op);
    // A result that also depends on other operands follows from these only up to rounding.
    if (decision.operands.size() < op->inputs.size()) continue;
    const bool is_known = std::ranges::all_of(decision.operands, [&](int operand) {
      return values_.contains(serial_.value(op->inputs[operand]).name);
    });
    if (!is_known) continue;
    for (const int result : decision.results)
      results.insert(serial_.value(op->outputs[result]).name);
  }
  return results;
}

}  // namespace tessera
