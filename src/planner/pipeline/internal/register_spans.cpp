#include "planner/pipeline/internal/register_spans.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "ir/ops/operator.h"
#include "ir/ops/operator_set.h"
#include "kernels/bind.h"
#include "sharding/propagation/kernel_price.h"

namespace tessera {
namespace {

/// Each op has two moments: when its operands are exchanged, and when it runs.
int exchange_moment(int op) {
  return 2 * op;
}
int run_moment(int op) {
  return 2 * op + 1;
}

bool is_of_micro_batch(StepPart part) {
  return part != StepPart::kOnce;
}

bool is_partial_on_time(const DistAttr& attr) {
  return attr.is_partial_on(kMicroBatchAxisIndex);
}

/// The placement of the sum over the micro-batches.
DistAttr without_time(DistAttr attr) {
  std::vector<PartialAxis> partial;
  for (const PartialAxis& each : attr.partial)
    if (each.axis != kMicroBatchAxisIndex) partial.push_back(each);
  attr.partial = SharedVector<PartialAxis>(std::move(partial));
  return attr;
}

}  // namespace

class SpanBuilder {
 public:
  SpanBuilder(const Graph& graph, const ShardedGraph& sharded, const StepOps& ops,
              RegisterSpans& made)
      : graph_(graph),
        sharded_(sharded),
        ops_(ops),
        made_(made),
        registers_(graph.values().size()),
        operands_(graph.ops().size()),
        kernel_names_(ops.of_kernels.size()),
        end_of_forward_(ops.unit_count, 0),
        begin_of_backward_(ops.unit_count, run_moment(static_cast<int>(graph.ops().size()))) {
    for (int i = 0; i < std::ssize(graph.ops()); ++i) add_moments(i);
    for (const Variable& variable : graph.variables()) add_variable(variable);
    for (int i = 0; i < std::ssize(graph.ops()); ++i) add_op(i);
    for (int i = 0; i < std::ssize(graph.ops()); ++i) write_over_operand(i);
    for (std::vector<Register>& registers : registers_)
      for (const Register& reg : registers) add_spans(reg);
  }

 private:
  /// Of one placement of a value. Ends are moments; -1: nothing reads it in that part.
  struct Register {
    int item = 0;
    int made_in = 0;  // unit
    int begin = 0;    // moment
    StepPart part = StepPart::kOnce;
    bool is_variable = false, lives_for_a_pass = false, is_sum = false;
    int forward_begin = -1, forward_end = -1;  // readers
    int backward_begin = -1, backward_end = -1;
    int once_end = -1;
    int first_unit = -1, last_unit = -1;  // of readers in the backward
    bool has_late_reader = false;
  };

  void add_moments(int op) {
    const int unit = ops_.units[op];
    RegisterSpans::Sweep& sweep = sweep_of(ops_.parts[op]);
    sweep.moments.push_back({exchange_moment(op), unit, -1});
    sweep.moments.push_back({run_moment(op), unit, ops_.kernels[op]});
    if (ops_.parts[op] == StepPart::kForward)
      end_of_forward_[unit] = run_moment(op);
    else if (is_of_micro_batch(ops_.parts[op]))
      begin_of_backward_[unit] = std::min(begin_of_backward_[unit], exchange_moment(op));
  }

  RegisterSpans::Sweep& sweep_of(StepPart part) {
    switch (part) {
      case StepPart::kForward: return made_.forward_;
      case StepPart::kOnce: return made_.once_;
      default: return made_.backward_;
    }
  }

  int item_of(const TensorType& type, const DistAttr& attr) {
    std::vector<std::pair<DistAttr, int>>& known = items_[to_text(type)];
    for (const auto& [placed, item] : known)
      if (placed == attr) return item;
    made_.items_.push_back({type, attr});
    known.emplace_back(attr, static_cast<int>(made_.items_.size()) - 1);
    return known.back().second;
  }

  void add_variable(const Variable& variable) {
    const Value& value = graph_.value(variable.value);
    if (variable.next) next_of_[variable.next->index] = variable.value;
    Register reg;
    reg.item = item_of(value.type, sharded_.at(variable.value));
    reg.made_in = value.users.empty() ? 0 : ops_.units[value.users.front().index];
    reg.is_variable = true;
    registers_[variable.value.index].push_back(reg);
    made_.variables_.push_back({reg.item, reg.made_in});
  }

  void add_op(int index) {
    const Op& op = graph_.op({index});
    const OpView op_view = view(graph_, op);
    const ShardingRule& rule = sharded_.rules[index];
    for (int k = 0; k < std::ssize(op.inputs); ++k)
      if (!graph_.type(op.inputs[k]).shape.empty())
        read(index, op.inputs[k], input_attr(op_view, rule, sharded_.at(OpId{index}), k));
    for (int k = 0; k < std::ssize(op.outputs); ++k)
      if (!graph_.type(op.outputs[k]).shape.empty())
        write(index, op.outputs[k], output_attr(op_view, rule, sharded_.at(OpId{index}), k));
  }

  Register& add_register(ValueId value, const DistAttr& attr, int op, int begin) {
    Register reg;
    reg.item = item_of(graph_.type(value), attr);
    reg.made_in = ops_.units[op];
    reg.begin = begin;
    reg.part = ops_.parts[op];
    return registers_[value.index].emplace_back(reg);
  }

  void write(int op, ValueId value, const DistAttr& attr) {
    if (const auto next = next_of_.find(value.index);
        next != next_of_.end() && attr == sharded_.at(next->second))
      return;  // written over the variable
    add_register(value, attr, op, run_moment(op));
    if (!is_of_micro_batch(ops_.parts[op]) || !is_partial_on_time(attr)) return;
    Register& sum = add_register(value, without_time(attr), op, run_moment(op));
    sum.part = StepPart::kOnce;
    sum.is_sum = true;
    made_.variables_.push_back({sum.item, sum.made_in});
    made_.sums_.push_back({sum.item, sum.made_in});
  }

  void read(int op, ValueId value, const DistAttr& attr) {
    std::vector<Register>& list = registers_[value.index];
    const int item = item_of(graph_.type(value), attr);
    const auto found = std::ranges::find(list, item, &Register::item);
    operands_[op].emplace_back(value, static_cast<int>(found - list.begin()));
    if (found != list.end()) return note_reader(*found, op, run_moment(op));
    // Of a sum over micro-batches, the last register is complete.
    if (!list.empty()) note_reader(list.back(), op, exchange_moment(op));
    Register& reg = add_register(value, attr, op, exchange_moment(op));
    reg.lives_for_a_pass = sharded_.replica_lifetime(value) == ReplicaLifetime::kPass;
    if (!attr.uses(kMicroBatchAxisIndex) && is_of_micro_batch(reg.part) && !reg.lives_for_a_pass) {
      reg.part = StepPart::kOnce;  // a copy for all micro-batches
      made_.variables_.push_back({reg.item, reg.made_in});
      reg.is_variable = true;
    }
    note_reader(reg, op, run_moment(op));
  }

  void note_reader(Register& reg, int op, int moment) {
    const StepPart part = ops_.parts[op];
    if (part == StepPart::kOnce) {
      reg.once_end = std::max(reg.once_end, moment);
    } else if (part == StepPart::kForward) {
      if (reg.forward_begin < 0) reg.forward_begin = exchange_moment(op);
      reg.forward_end = std::max(reg.forward_end, moment);
    } else {
      const int unit = ops_.units[op];
      if (reg.backward_begin < 0) reg.backward_begin = exchange_moment(op);
      reg.backward_end = std::max(reg.backward_end, moment);
      reg.first_unit = reg.first_unit < 0 ? unit : std::min(reg.first_unit, unit);
      reg.last_unit = std::max(reg.last_unit, unit);
      reg.has_late_reader |= part == StepPart::kWeightGradient;
    }
  }

  /// The moment of the last reader; nullptr when the register is not free after the op.
  int* last_moment(Register& reg, int op) {
    const bool is_read_later = reg.once_end >= 0;
    switch (ops_.parts[op]) {
      case StepPart::kForward:
        return is_read_later || reg.backward_end >= 0 ? nullptr : &reg.forward_end;
      case StepPart::kOnce:
        return !reg.is_sum && (reg.forward_end >= 0 || reg.backward_end >= 0) ? nullptr
                                                                              : &reg.once_end;
      default: return is_read_later ? nullptr : &reg.backward_end;
    }
  }

  const std::string& kernel_name(int op) {
    std::optional<std::string>& name = kernel_names_[ops_.kernels[op]];
    if (!name) name = undivided_kernel(view(graph_, graph_.op({op})), sharded_.rules[op]);
    return *name;
  }

  void write_over_operand(int index) {
    const Op& op = graph_.op({index});
    if (op.outputs.empty() || registers_[op.outputs.front().index].empty()) return;
    const Register& result = registers_[op.outputs.front().index].front();
    std::vector<int> inputs;
    for (ValueId input : op.inputs) inputs.push_back(input.index);
    for (const auto& [value, at] : operands_[index]) {
      Register& operand = registers_[value.index][at];
      int* last = last_moment(operand, index);
      if (operand.item != result.item || operand.is_variable || graph_.is_input(value) || !last ||
          *last != run_moment(index) || kernel_name(index).empty() ||
          !may_write_over(kernel_name(index), inputs, value.index, own_.get()))
        continue;
      *last = exchange_moment(index);
      return;
    }
  }

  void add_span(RegisterSpans::Sweep& sweep, RegisterSpans::Span span) {
    if (span.begin <= span.end) sweep.by_begin.push_back(span);
  }

  void add_spans(const Register& reg) {
    if (reg.is_variable) return;
    if (reg.part == StepPart::kOnce) return add_once(reg);
    if (reg.lives_for_a_pass) {
      if (reg.forward_begin >= 0)
        add_span(made_.forward_, {reg.item, -1, reg.forward_begin, reg.forward_end});
      if (reg.backward_begin >= 0)
        add_span(made_.backward_, {reg.item, -1, reg.backward_begin, reg.backward_end});
      return;
    }
    const bool is_kept = reg.part == StepPart::kForward && reg.backward_end >= 0;
    if (reg.has_late_reader && reg.part != StepPart::kWeightGradient)
      made_.late_.push_back({reg.item, std::max(reg.first_unit, reg.made_in)});
    if (is_kept)
      add_kept(reg);
    else if (reg.part == StepPart::kForward)
      add_span(made_.forward_, {reg.item, -1, reg.begin, std::max(reg.begin, reg.forward_end)});
    else
      add_span(made_.backward_, {reg.item, -1, reg.begin, std::max(reg.begin, reg.backward_end)});
  }

  void add_kept(const Register& reg) {
    const int unit = std::max(reg.first_unit, reg.made_in);
    made_.kept_.push_back({reg.item, unit});
    for (int later = unit + 1; later <= reg.last_unit; ++later)
      made_.arriving_.push_back({reg.item, later});
    add_span(made_.forward_, {reg.item, -1, reg.begin, std::max(reg.begin, end_of_forward_[unit])});
    const int freed = std::max(begin_of_backward_[unit], reg.backward_end + 1);
    const int last = run_moment(static_cast<int>(graph_.ops().size()));
    add_span(made_.backward_, {reg.item, unit, freed, last, -1});
  }

  void add_once(const Register& reg) {
    if (reg.is_sum) {
      const int last = run_moment(static_cast<int>(graph_.ops().size()));
      add_span(made_.once_, {reg.item, reg.made_in, reg.once_end + 1, last, -1});
    } else if (reg.forward_end >= 0 || reg.backward_end >= 0) {
      made_.variables_.push_back({reg.item, reg.made_in});
    } else {
      add_span(made_.once_, {reg.item, reg.made_in, reg.begin, std::max(reg.begin, reg.once_end)});
    }
  }

  const Graph& graph_;
  const ShardedGraph& sharded_;
  const StepOps& ops_;
  RegisterSpans& made_;
  const std::shared_ptr<const KernelSet> own_ = own_kernels(graph_);
  std::vector<std::vector<Register>> registers_;                // by value
  std::vector<std::vector<std::pair<ValueId, int>>> operands_;  // by op: value and register
  std::vector<std::optional<std::string>> kernel_names_;        // by kernel
  std::map<int, ValueId> next_of_;                              // by next value: its variable
  std::vector<int> end_of_forward_, begin_of_backward_;         // by unit: moments
  std::map<std::string, std::vector<std::pair<DistAttr, int>>> items_;  // by type
};

RegisterSpans::RegisterSpans(const Graph& graph, const ShardedGraph& sharded, StepOps ops)
    : units_(ops.unit_count) {
  SpanBuilder(graph, sharded, ops, *this);
  for (Sweep* sweep : {&forward_, &backward_, &once_}) {
    sweep->by_end = sweep->by_begin;
    std::ranges::stable_sort(sweep->by_begin, {}, &Span::begin);
    std::ranges::stable_sort(sweep->by_end, {}, &Span::end);
  }
}

std::vector<double> RegisterSpans::peaks(const Sweep& sweep, std::span<const double> item_bytes,
                                         std::span<const Bytes> workspaces) const {
  std::vector<double> maximum(units_, 0), of_unit(units_, 0);
  double of_all = 0;
  const auto add = [&](const Span& span, int sign) {
    (span.unit < 0 ? of_all : of_unit[span.unit]) += sign * span.sign * item_bytes[span.item];
  };
  auto begin = sweep.by_begin.begin(), end = sweep.by_end.begin();
  for (const Moment& moment : sweep.moments) {
    for (; begin != sweep.by_begin.end() && begin->begin <= moment.at; ++begin) add(*begin, 1);
    for (; end != sweep.by_end.end() && end->end < moment.at; ++end) add(*end, -1);
    const double workspace =
        moment.kernel < 0 ? 0 : static_cast<double>(workspaces[moment.kernel].value());
    maximum[moment.unit] =
        std::max(maximum[moment.unit], of_all + of_unit[moment.unit] + workspace);
  }
  return maximum;
}

std::vector<UnitBytes> RegisterSpans::bytes(const MeshPtr& timed,
                                            std::span<const Bytes> workspaces) const {
  std::vector<double> item_bytes;
  for (const Item& item : items_) {
    DistAttr attr = item.attr;
    attr.mesh = timed;
    const TensorType largest{item.type.dtype, attr.largest_shape(item.type.shape)};
    item_bytes.push_back(static_cast<double>(byte_size(largest).value()));
  }
  std::vector<UnitBytes> units(units_);
  const auto add = [&](const std::vector<Held>& list, double UnitBytes::* bytes) {
    for (const Held& held : list) units[held.unit].*bytes += item_bytes[held.item];
  };
  add(variables_, &UnitBytes::variables);
  add(sums_, &UnitBytes::sums);
  add(kept_, &UnitBytes::kept);
  add(arriving_, &UnitBytes::arriving);
  add(late_, &UnitBytes::late);
  const std::vector<double> forward = peaks(forward_, item_bytes, workspaces),
                            backward = peaks(backward_, item_bytes, workspaces),
                            once = peaks(once_, item_bytes, workspaces);
  for (int unit = 0; unit < units_; ++unit) {
    units[unit].passing = std::max(forward[unit] - units[unit].kept, backward[unit]);
    units[unit].once = once[unit];
  }
  return units;
}

}  // namespace tessera
