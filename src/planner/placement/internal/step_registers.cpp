#include "planner/placement/internal/step_registers.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "sharding/reshard/available_placements.h"

namespace tessera {
namespace {

class Lowering {
 public:
  Lowering(const PlacedStep& placed, const MayWriteOver& may_write_over, ReshardPlans& plans)
      : placed_(placed),
        graph_(placed.graph),
        may_write_over_(may_write_over),
        plans_(plans),
        holders_(graph_.values().size()) {}

  StepRegisters run() {
    for (ValueId input : graph_.inputs()) hold(input, *placed_.canonical_placements[input.index]);
    for (const Variable& variable : graph_.variables())
      reg(hold(variable.value, *placed_.canonical_placements[variable.value.index])).is_variable =
          true;
    for (int i = 0; i < std::ssize(graph_.ops()); ++i) run_kernel(OpId{i});
    std::vector<int> next;  // by variable
    for (const Variable& variable : graph_.variables())
      next.push_back(variable.next && *variable.next != variable.value
                         ? get(*variable.next, *placed_.canonical_placements[variable.value.index],
                               Role::kOptimizer)
                         : -1);
    for (const auto& [name, value] : graph_.outputs()) return_result(value);
    for (size_t v = 0; v < next.size(); ++v)
      if (next[v] >= 0) keep_next(holders_[graph_.variables()[v].value.index].front().reg, next[v]);
    return std::move(step_);
  }

 private:
  struct Holder {
    int reg = -1;
    std::optional<Role> only = {};  // the pass for which a copy lives
  };

  StepRegister& reg(int index) { return step_.registers[index]; }
  int last_reader(int index) const { return last_reader_[index]; }

  int hold(ValueId value, const DistAttr& placement) {
    const TensorType& type = graph_.type(value);
    StepRegister made{value.index, &placement,
                      byte_size({type.dtype, placement.largest_shape(type.shape)}).value()};
    step_.registers.push_back(made);
    last_reader_.push_back(-1);
    holders_[value.index].push_back({static_cast<int>(step_.registers.size()) - 1});
    return holders_[value.index].back().reg;
  }

  void add(StepInstruction instruction) {
    const int index = static_cast<int>(step_.instructions.size());
    for (int read : instruction.reads) last_reader_[read] = index;
    for (int written : instruction.writes) reg(written).writer = index;
    step_.instructions.push_back(std::move(instruction));
  }

  void run_kernel(OpId id) {
    const Op& op = graph_.op(id);
    const std::vector<const DistAttr*>& operands = placed_.operands[id.index];
    StepInstruction kernel{id.index, op.role};
    for (size_t k = 0; k < op.inputs.size(); ++k)
      kernel.reads.push_back(get(op.inputs[k], *operands[op.outputs.size() + k], op.role));
    for (size_t k = 0; k < op.outputs.size(); ++k)
      kernel.writes.push_back(hold(op.outputs[k], *operands[k]));
    add(std::move(kernel));
  }

  // ---- what readers take in other placements ----

  std::vector<int> sources_of(ValueId value, const DistAttr& wanted, Role role) {
    std::vector<int> sources;
    for (const Holder& holder : holders_[value.index]) {
      if (holder.only && *holder.only != role) continue;
      if (is_reshardable(graph_.type(value).shape, *reg(holder.reg).placement, wanted))
        sources.push_back(holder.reg);
    }
    return sources;
  }

  std::vector<const DistAttr*> placements_of(const std::vector<int>& registers) {
    std::vector<const DistAttr*> held;
    for (int index : registers) held.push_back(reg(index).placement);
    return held;
  }

  int cheapest_source_of(ValueId value, const DistAttr& wanted, Role role) {
    const std::vector<int> sources = sources_of(value, wanted, role);
    ensure(!sources.empty(), "no placement of '" + graph_.value(value).name + "' becomes another");
    return sources[cheapest_source(plans_, graph_.type(value), placements_of(sources), wanted)];
  }

  /// The register that holds the value as `wanted`: there is one already, or exchanges make it.
  int get(ValueId value, const DistAttr& wanted, Role role) {
    for (const Holder& holder : holders_[value.index])
      if ((!holder.only || *holder.only == role) && *reg(holder.reg).placement == wanted)
        return holder.reg;
    const std::vector<int> sources = sources_of(value, wanted, role);
    if (sources.empty()) {  // a mark makes a partial value of a whole tensor
      const DistAttr whole = without_partial(wanted);
      ensure(!(whole == wanted), "'" + graph_.value(value).name + "' is made before it is read");
      return exchange(value, get(value, whole, role), wanted, role);
    }
    if (const std::optional<DistAttr> first = made_first(value, wanted, role, sources))
      exchange(value, cheapest_source_of(value, *first, role), *first, role);
    return exchange(value, cheapest_source_of(value, wanted, role), wanted, role);
  }

  std::optional<DistAttr> made_first(ValueId value, const DistAttr& wanted, Role role,
                                     const std::vector<int>& sources) {
    const std::vector<OpId>& users = graph_.value(value).users;
    if (users.size() < 2 || placed_.copies[value.index] == ReplicaLifetime::kPass)
      return std::nullopt;
    std::vector<DistAttr> needs;
    for (OpId user : users) {
      const Op& op = graph_.op(user);
      if (op.role != role) continue;
      for (size_t k = 0; k < op.inputs.size(); ++k)
        if (op.inputs[k] == value)
          if (const DistAttr& need = *placed_.operands[user.index][op.outputs.size() + k];
              std::ranges::count(needs, need) == 0)
            needs.push_back(need);
    }
    return choose_intermediate(plans_, graph_.type(value), placements_of(sources), wanted, needs);
  }

  int exchange(ValueId value, int source, const DistAttr& wanted, Role role) {
    const DistAttr& from = *reg(source).placement;
    for (const Exchange& each : plans_.plan(graph_.type(value), from, wanted).exchanges) {
      const int target = hold(value, each.to);
      if (placed_.copies[value.index] == ReplicaLifetime::kPass)
        holders_[value.index].back().only = role;
      add({-1, role, {source}, {target}});
      source = target;
    }
    return source;
  }

  // ---- the end of the step ----

  void return_result(ValueId value) {
    const DistAttr* canonical_placement = placed_.canonical_placements[value.index];
    const DistAttr& made = canonical_placement ? *canonical_placement
                                               : *reg(holders_[value.index].front().reg).placement;
    reg(get(value, without_partial(made), Role::kForward)).is_result = true;
  }

  /// The next value is written to the memory of the variable where no reader of the old value comes
  /// later. Otherwise it is copied there at the end.
  void keep_next(int variable, int next) {
    StepRegister& made = reg(next);
    if (made.is_variable || made.writer < 0 || last_reader(variable) > made.writer) {
      made.is_result = true;
      return;
    }
    made.is_variable =
        last_reader(variable) < made.writer || writes_over(made.writer, variable, next);
    made.is_result = !made.is_variable;
  }

  bool writes_over(int instruction, int operand, int result) const {
    const StepInstruction& kernel = step_.instructions[instruction];
    if (kernel.is_exchange() || kernel.writes.front() != result) return false;
    const auto place = std::ranges::find(kernel.reads, operand) - kernel.reads.begin();
    return may_write_over_[kernel.op][place];
  }

  const PlacedStep& placed_;
  const Graph& graph_;
  const MayWriteOver& may_write_over_;
  ReshardPlans& plans_;
  StepRegisters step_;
  std::vector<int> last_reader_;              // by register
  std::vector<std::vector<Holder>> holders_;  // by value: as given or made first
};

}  // namespace

StepRegisters registers_of(const PlacedStep& placed, const MayWriteOver& may_write_over,
                           ReshardPlans& plans) {
  return Lowering(placed, may_write_over, plans).run();
}

}  // namespace tessera
