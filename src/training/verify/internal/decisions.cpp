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
  deciding_.insert(&op);
  const auto index = static_cast<int>(&op - serial_.ops().data());
  for (const KernelStep& step : steps->second)
    for (const int operand : decision.operands) {
      add_register(op.inputs[operand], step.inputs[operand]);
      operands_[op.inputs[operand]].last_reader = index;
    }
}

void DecisionOperands::add_register(ValueId operand, RegisterIndex reg) {
  std::vector<RegisterIndex>& registers = operands_[operand].registers;
  if (std::ranges::find(registers, reg) == registers.end()) registers.push_back(reg);
}

std::vector<ValueId> DecisionOperands::operands() const {
  std::vector<ValueId> values;
  for (const auto& [value, operand] : operands_) values.push_back(value);
  return values;
}

std::span<const RegisterIndex> DecisionOperands::registers(ValueId operand) const {
  const auto found = operands_.find(operand);
  return found == operands_.end() ? std::span<const RegisterIndex>() : found->second.registers;
}

void DecisionOperands::clear() {
  values_.clear();
  dropped_.reset();
}

namespace {

/// A tensor of a plan, put together from registers.
class Assembled {
 public:
  explicit Assembled(const TensorType& type)
      : tensor_{type, std::vector<double>(static_cast<size_t>(element_count(type.shape)), 0.0)},
        covered_(tensor_.values.size(), false) {}

  void place(const Capture::Whole& part, const std::vector<size_t>& positions) {
    for (size_t i = 0; i < positions.size(); ++i) {
      if (!part.held.empty() && !part.held[i]) continue;
      const size_t at = positions[i];
      const double value = part.tensor.values[i], other = tensor_.values[at];
      const bool differs =
          covered_[at] && other != value && !(std::isnan(other) && std::isnan(value));
      is_one_tensor_ = is_one_tensor_ && !differs;
      covered_[at] = true;
      tensor_.values[at] = value;
    }
  }

  bool is_whole() const {
    return is_one_tensor_ && std::ranges::find(covered_, false) == covered_.end();
  }
  ReferenceTensor take() { return std::move(tensor_); }

 private:
  ReferenceTensor tensor_;
  std::vector<bool> covered_;  // by element: has a register given it?
  bool is_one_tensor_ = true;
};

}  // namespace

void DecisionOperands::read(ValueId operand, const Capture& capture) {
  if (dropped_ && position(operand) >= *dropped_) return;
  Assembled whole(serial_.type(operand));
  for (const RegisterIndex index : operands_.at(operand).registers) {
    const Register& reg = compiled_.tasks.registers[index];
    const Capture::Whole part = capture.assemble(index);
    ensure(part.missing.empty(),
           [&] { return "register '" + reg.name + "' was filled on every rank: " + part.missing; });
    const bool is_plain = reg.attr.partial.empty() && !is_partial_of_micro_batches(reg) &&
                          part.copies.empty() && !part.mismatch;
    if (!is_plain) return;
    whole.place(part, positions_of(reg, serial_.type(operand).shape));
  }
  if (whole.is_whole()) values_.insert_or_assign(serial_.value(operand).name, whole.take());
}

int DecisionOperands::position(ValueId value) const {
  return serial_.value(value).producer.index;
}

void DecisionOperands::drop_from(ValueId operand) {
  dropped_ = position(operand);
  std::erase_if(values_, [&](const auto& item) {
    return position(*serial_.find_value(item.first)) >= *dropped_;
  });
}

void DecisionOperands::release_after(OpId op) {
  std::erase_if(values_, [&](const auto& item) {
    return operands_.at(*serial_.find_value(item.first)).last_reader <= op.index;
  });
}

bool DecisionOperands::decides(const Op& op, ValueId result) const {
  if (!deciding_.contains(&op)) return false;
  const Decision decision = decision_of(serial_, op);
  // A result that also depends on other operands follows from these only up to rounding.
  if (decision.operands.size() < op.inputs.size()) return false;
  const bool is_known = std::ranges::all_of(decision.operands, [&](int operand) {
    return values_.contains(serial_.value(op.inputs[operand]).name);
  });
  return is_known &&
         std::ranges::any_of(decision.results, [&](int i) { return op.outputs[i] == result; });
}

}  // namespace tessera
