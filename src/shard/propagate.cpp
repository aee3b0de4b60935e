// Placement propagation: dims of values and factors of ops hand axes to each other until nothing
// changes.
#include "shard/propagate.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "shard/factor_axes.h"

namespace tessera {
namespace {

bool is_prefix(const Axes& shorter, const Axes& longer) {
  return shorter.size() <= longer.size() &&
         std::equal(shorter.begin(), shorter.end(), longer.begin());
}

/// What is known of a tensor; a variable and its next value share one.
struct Slot {
  DistAttr attr;
  bool fixed = false;  // by a mark
  std::string reason;
};

struct OpState {
  OpView view;
  ShardingRule rule;
  const MarkedOp* mark = nullptr;
  OpSharding sharding;
};

class Propagation {
 public:
  Propagation(const Graph& graph, const Meshes& meshes, const std::vector<Mark>& marks,
              const RuleLookup& rules, const RegionEnds* ends = nullptr)
      : graph_(graph),
        is_region_(ends != nullptr),
        has_time_(ends == nullptr && is_time(*meshes.front().mesh, 0)),
        meshes_(meshes),
        rules_(rules),
        stages_(assign_meshes(graph, meshes, marks)),
        marks_(resolve_marks(graph, meshes, stages_, marks, rules_)) {
    make_slots();
    if (ends)
      fix_ends(*ends);
    else
      for (ValueId input : graph_.inputs()) divide_by_micro_batches(home(input));
    for (const Op& op : graph_.ops()) {
      OpView op_view = view(graph_, op);
      ShardingRule rule = rules_(op.kind, op_view);
      note_discovery(op, rule);
      OpSharding sharding = OpSharding::replicated(mesh_of(stages_.ops[ops_.size()]), rule);
      ops_.push_back({std::move(op_view), std::move(rule), nullptr, std::move(sharding)});
    }
    for (const MarkedOp& marked : marks_.ops) ops_[marked.op.index].mark = &marked;
  }

  ShardedGraph run() {
    const int count = static_cast<int>(ops_.size());
    bool changed = true;
    while (changed) {
      changed = false;
      for (int i = 0; i < count; ++i) changed |= spread(i);
      for (int i = count - 1; i >= 0; --i) changed |= spread(i);
      for (size_t i = 0; i < slots_.size(); ++i) changed |= spread_between_meshes(slots_[i]);
    }
    for (int i = 0; i < count; ++i) settle(i);
    for (int i = 0; i < count; ++i) pass_partial(i);
    return result();
  }

 private:
  /// Ops of one kind and rule share a note.
  void note_discovery(const Op& op, const ShardingRule& rule) {
    const std::string what = "brings no rule; discovered by execution: " + rule.discovered;
    if (!rule.discovered.empty() && discovered_.insert(op.kind + " " + what).second)
      notes_.push_back(
          {ShardingNote::Kind::kDiscovered, op.name, op.kind + " '" + op.name + "' " + what});
  }

  void make_slots() {
    slot_of_.resize(graph_.values().size());
    for (int i = 0; i < std::ssize(slot_of_); ++i) slot_of_[i] = i;
    for (const Variable& variable : graph_.variables())
      if (variable.next) slot_of_[variable.next->index] = variable.value.index;
    for (const Value& value : graph_.values()) {
      slots_.emplace_back();
      for (const NamedMesh& mesh : meshes_)
        slots_.back().push_back(
            {DistAttr::replicated(mesh.mesh, value.type.shape.size()), false, ""});
    }
    for (const MarkedValue& marked : marks_.values) {
      if (is_time(*marked.attr.mesh, 0) && marked.attr.uses(0))
        throw UserError("mark '" + marked.mark->pattern + "' (" + marked.mark->origin +
                            ") divides by micro-batches itself",
                        "dim 0 of every input is divided by '" + std::string(kMicroBatchAxis) +
                            "' first, whatever the marks say",
                        "leave '" + std::string(kMicroBatchAxis) + "' out of the mark",
                        ExitCode::kBadConfig);
      // As the mesh sees it for which the mark was read: the next value of a variable may be made
      // on another mesh than the variable is kept on.
      Slot& s = slot(marked.value, stages_.values[marked.value.index]);
      if (s.fixed && !(s.attr == marked.attr))
        throw UserError("two marks place '" + graph_.value(marked.value).name +
                            "' and the variable that it becomes differently",
                        "the state of a step lies alike before and after it: " + to_text(s.attr) +
                            " and " + to_text(marked.attr),
                        "mark only the variable", ExitCode::kBadConfig);
      s = {marked.attr, true, "mark '" + marked.mark->pattern + "' (" + marked.mark->origin + ")"};
    }
  }

  /// What enters and leaves a region lies as its op has it.
  void fix_ends(const RegionEnds& ends) {
    for (size_t i = 0; i < ends.inputs.size(); ++i)
      home(graph_.inputs()[i]) = {ends.inputs[i], true, "operand " + std::to_string(i)};
    for (size_t i = 0; i < ends.outputs.size(); ++i)
      if (Slot& s = home(graph_.outputs()[i].second); !s.fixed)
        s = {ends.outputs[i], true, "result " + std::to_string(i)};
  }

  bool is_time(const Mesh& mesh, int axis) const { return mesh.axes()[axis] == kMicroBatchAxis; }

  /// The batch is divided by time first, by the mesh inside it.
  void divide_by_micro_batches(Slot& s) {
    if (s.attr.dims.empty() || !is_time(*s.attr.mesh, 0)) return;
    auto& axes = s.attr.dims.front().axes;
    axes.insert(axes.begin(), 0);
    if (s.reason.empty()) s.reason = "micro-batches";
  }

  const MeshPtr& mesh_of(int stage) const { return meshes_[stage].mesh; }
  int stage_of(int op_index) const { return stages_.ops[op_index]; }
  /// A value as the ops of one stage see it.
  Slot& slot(ValueId value, int stage) { return slots_[slot_of_[value.index]][stage]; }
  Slot& home(ValueId value) { return slot(value, stages_.values[slot_of_[value.index]]); }
  Slot& slot_of_operand(int op_index, int index) {
    return slot(operand(graph_.op({op_index}), index), stage_of(op_index));
  }

  /// The same dims, divided by the axes of the same name and size on another mesh. True when a dim
  /// of a copy got an axis.
  bool spread_between_meshes(std::vector<Slot>& copies) {
    bool changed = false;
    for (const Slot& from : copies)
      for (Slot& to : copies) {
        if (&from == &to || to.fixed) continue;
        for (size_t d = 0; d < from.attr.dims.size(); ++d) {
          if (from.attr.dims[d].axes.empty() || !to.attr.dims[d].axes.empty()) continue;
          const auto axes = same_axes(from.attr, d, to.attr);
          if (axes.empty()) continue;
          to.attr.dims[d] = {axes, from.attr.dims[d].unit, {}, from.attr.dims[d].chunks};
          if (to.reason.empty()) to.reason = from.reason + ", on another mesh";
          changed = true;
        }
      }
    return changed;
  }

  /// Empty when `to`'s mesh lacks one of them or uses it already.
  static Axes same_axes(const DistAttr& from, size_t dim, const DistAttr& to) {
    Axes axes;
    for (int axis : from.dims[dim].axes) {
      const std::string& name = from.mesh->axes()[axis];
      const auto found = std::find(to.mesh->axes().begin(), to.mesh->axes().end(), name);
      if (found == to.mesh->axes().end()) return {};
      const int index = static_cast<int>(found - to.mesh->axes().begin());
      if (to.mesh->shape()[index] != from.mesh->shape()[axis] || to.uses(index)) return {};
      axes.push_back(index);
    }
    return axes;
  }

  ValueId operand(const Op& op, int index) const {
    const int inputs = static_cast<int>(op.inputs.size());
    return index < inputs ? op.inputs[index] : op.outputs[index - inputs];
  }
  const OperandFactors& factors_of(const OpState& state, int index) const {
    const int inputs = static_cast<int>(state.rule.inputs.size());
    return index < inputs ? state.rule.inputs[index] : state.rule.outputs[index - inputs];
  }
  int operand_count(const Op& op) const {
    return static_cast<int>(op.inputs.size() + op.outputs.size());
  }

  std::vector<Wish> wishes(int op_index, int factor) {
    const Op& op = graph_.op({op_index});
    const OpState& state = ops_[op_index];
    std::vector<Wish> list;
    for (int i = 0; i < operand_count(op); ++i) {
      const OperandFactors& dims = factors_of(state, i);
      const Slot& s = slot_of_operand(op_index, i);
      for (size_t d = 0; d < dims.size(); ++d) {
        const DimSharding& held = s.attr.dims[d];
        if (held.axes.empty()) continue;
        const DimFactor& dim = choice_for(dims[d], state.rule, held);
        if (dim.factor != factor) continue;
        list.push_back({held.axes, chunks_of_factor(dim, state.rule, held),
                        is_leaf(operand(op, i)) && !s.fixed, i,
                        i < static_cast<int>(op.inputs.size()), s.fixed,
                        byte_size(graph_.type(operand(op, i))).value()});
      }
    }
    std::stable_sort(list.begin(), list.end(), stronger);
    return list;
  }

  /// The op-side sharding that its operands ask for now. The strongest wish of each factor counts,
  /// and longer ones that agree with it.
  OpSharding decide(int op_index) {
    const OpState& state = ops_[op_index];
    if (state.mark) return with_time(op_index, state.mark->sharding);
    OpSharding sharding = OpSharding::replicated(mesh_of(stage_of(op_index)), state.rule);
    std::vector<std::pair<Wish, int>> strongest;
    for (int f = 0; f < std::ssize(state.rule.factors); ++f) {
      if (state.rule.factors[f].kind == FactorKind::kWhole) continue;
      std::vector<Wish> list = wishes(op_index, f);
      if (list.empty()) continue;
      if (lacks_time(op_index, f, list))
        list.front().axes.insert(list.front().axes.begin(), 0);
      // What cannot lie in chunks does not keep the others from it.
      const auto chunked =
          std::find_if(list.begin(), list.end(), [&](const Wish& wish) { return wish.chunks > 1; });
      if (list.front().in_one_piece && chunked != list.end() && chunked->axes == list.front().axes)
        list.front().chunks = chunked->chunks;
      for (const Wish& wish : list)
        if (is_prefix(list.front().axes, wish.axes) && wish.chunks == list.front().chunks)
          list.front().axes = wish.axes;
      strongest.emplace_back(list.front(), f);
    }
    std::stable_sort(strongest.begin(), strongest.end(),
                     [](const auto& a, const auto& b) { return stronger(a.first, b.first); });
    for (const auto& [wish, factor] : strongest) {
      if (!sharding.may_divide(state.rule, factor)) continue;
      for (int axis : wish.axes) {
        if (sharding.uses(axis)) break;
        if (is_time(*sharding.mesh, axis) &&
            !may_be_cut_in_time(state.rule, factor, sharding.mesh->shape()[axis]))
          break;
        sharding.factor_axes[factor].push_back(axis);
      }
      if (wish.chunks > 1) take_chunks(state.view, state.rule, factor, wish.chunks, sharding);
    }
    return sharding;
  }

  // ---- marks and time: marks place ranks, so that whatever the batch divides by micro-batches
  // keeps that beside them ----

  bool starts_with_time(const Axes& axes) const {
    return !axes.empty() && axes.front() == 0 && has_time_;
  }

  bool begins_in_time(const std::vector<Wish>& list) const {
    return std::any_of(list.begin(), list.end(),
                       [&](const Wish& wish) { return starts_with_time(wish.axes); });
  }

  /// Is the strongest wish that of a marked tensor which did not get the micro-batches of another
  /// operand yet?
  bool lacks_time(int op_index, int factor, const std::vector<Wish>& list) {
    const OpState& state = ops_[op_index];
    const Wish& first = list.front();
    return first.fixed && !starts_with_time(first.axes) && begins_in_time(list) &&
           !is_leaf(operand(graph_.op({op_index}), first.operand)) &&
           may_be_cut_in_time(state.rule, factor, mesh_of(stage_of(op_index))->shape()[0]);
  }

  /// A marked op, run by micro-batch where an operand has them.
  OpSharding with_time(int op_index, OpSharding sharding) {
    const OpState& state = ops_[op_index];
    for (size_t f = 0; f < state.rule.factors.size() && !sharding.uses(0); ++f) {
      const int factor = static_cast<int>(f);
      Axes& axes = sharding.factor_axes[f];
      const bool is_plain = sharding.windows_of(f).empty() && sharding.chunks_of(f) == 1;
      if (!is_plain || !begins_in_time(wishes(op_index, factor)) ||
          !may_be_cut_in_time(state.rule, factor, sharding.mesh->shape()[0]) ||
          (axes.empty() && !sharding.may_divide(state.rule, factor)))
        continue;
      axes.insert(axes.begin(), 0);
    }
    return sharding;
  }

  /// True when a marked tensor that is made in the step got micro-batches from the op.
  bool spread_time(int op_index, int index, Slot& s) {
    const OpState& state = ops_[op_index];
    if (!has_time_ || s.attr.uses(0) || is_leaf(operand(graph_.op({op_index}), index)))
      return false;
    const OperandFactors& dims = factors_of(state, index);
    for (size_t d = 0; d < dims.size(); ++d) {
      const int factor = divided_factor(dims[d], state.sharding);
      DimSharding& held = s.attr.dims[d];
      if (factor < 0 || !starts_with_time(state.sharding.factor_axes[factor]) ||
          !held.windows.empty() || held.chunks > 1)
        continue;
      held.axes.insert(held.axes.begin(), 0);
      return true;
    }
    return false;
  }

  /// Gives the op's axes to the dims of its open operands. True when a dim got one.
  bool spread(int op_index) {
    const Op& op = graph_.op({op_index});
    OpState& state = ops_[op_index];
    state.sharding = decide(op_index);
    bool changed = false;
    for (int i = 0; i < operand_count(op); ++i) {
      Slot& s = slot_of_operand(op_index, i);
      if (s.fixed) {
        changed |= spread_time(op_index, i, s);
        continue;
      }
      const OperandFactors& dims = factors_of(state, i);
      for (size_t d = 0; d < dims.size(); ++d) {
        const int factor = divided_factor(dims[d], state.sharding);
        if (factor < 0) continue;
        const Axes& axes = state.sharding.factor_axes[factor];
        if (axes.size() <= s.attr.dims[d].axes.size() || !is_prefix(s.attr.dims[d].axes, axes))
          continue;
        if (std::any_of(axes.begin() + static_cast<std::ptrdiff_t>(s.attr.dims[d].axes.size()),
                        axes.end(), [&](int axis) { return s.attr.uses(axis); }))
          continue;
        const DistAttr wanted = i < static_cast<int>(op.inputs.size())
                                    ? input_attr(state.view, state.rule, state.sharding, i)
                                    : output_attr(state.view, state.rule, state.sharding,
                                                  i - static_cast<int>(op.inputs.size()));
        const DimSharding& asked = wanted.dims[d];
        const bool in_chunks = asked.chunks > 1 && !is_leaf(operand(op, i));
        if (!s.attr.dims[d].axes.empty() && s.attr.dims[d].chunks != (in_chunks ? asked.chunks : 1))
          continue;
        // Windows are an op's own: the tensor is divided plainly by the same axes, and each op gets
        // its halo by an exchange.
        s.attr.dims[d] = {
            asked.axes,
            asked.windows.empty() && (in_chunks || asked.chunks == 1) ? asked.unit : 1,
            {},
            in_chunks ? asked.chunks : 1};
        if (s.reason.empty())
          s.reason = "op '" + op.name + "' divides factor " + state.rule.factors[factor].name +
                     (state.mark ? " (marked)" : "");
        changed = true;
      }
    }
    return changed;
  }

  /// Inputs and variables lie in one piece a rank, as loaders and checkpoints know them.
  bool is_leaf(ValueId value) const {
    return graph_.value({slot_of_[value.index]}).producer.index < 0;
  }

  void settle(int op_index) {
    OpState& state = ops_[op_index];
    state.sharding = decide(op_index);
    if (!state.mark) report(op_index);
  }

  /// Says which marked divisions the op could not follow.
  void report(int op_index) {
    const Op& op = graph_.op({op_index});
    const OpState& state = ops_[op_index];
    for (int i = 0; i < std::ssize(op.inputs); ++i) {
      const ValueId value = operand(op, i);
      const Slot& s = slot_of_operand(op_index, i);
      const DistAttr needed = input_attr(state.view, state.rule, state.sharding, i);
      for (size_t d = 0; d < needed.dims.size(); ++d) {
        const Axes& has = s.attr.dims[d].axes;
        if (has.empty() || has == needed.dims[d].axes) continue;
        const DimFactor& dim = factors_of(state, i)[d];
        const std::vector<DimFactor> choices = choices_of(dim);
        const bool whole =
            std::all_of(choices.begin(), choices.end(), [&](const DimFactor& choice) {
              return state.rule.factors[choice.factor].kind == FactorKind::kWhole;
            });
        if (whole) {
          notes_.push_back({ShardingNote::Kind::kFallback, op.name,
                            op.kind + " '" + op.name + "' needs dim " + std::to_string(d) +
                                " of '" + graph_.value(value).name + "' whole, which " + s.reason +
                                " divides: it falls back to Replicate there"});
        } else if (s.fixed) {
          notes_.push_back({ShardingNote::Kind::kConflict, op.name, conflict_text(op_index, i, d)});
        }
      }
    }
  }

  std::string conflict_text(int op_index, int loser, size_t dim) {
    const Op& op = graph_.op({op_index});
    const Slot& s = slot_of_operand(op_index, loser);
    const std::string name = "'" + graph_.value(operand(op, loser)).name + "'";
    const int rival = rival_of(op_index, loser, dim);
    const std::string other = rival < 0 ? "the op is divided otherwise"
                                        : "'" + graph_.value(operand(op, rival)).name + "' by " +
                                              slot_of_operand(op_index, rival).reason;
    return op.kind + " '" + op.name + "' cannot follow both: " + name + " is divided by " +
           s.reason + ", " + other + "; " + name + " is resharded for this op";
  }

  /// The operand that uses an axis of this dim, or divides its factor, otherwise; a marked one
  /// rather than another. -1: none.
  int rival_of(int op_index, int loser, size_t dim) {
    const Op& op = graph_.op({op_index});
    const OpState& state = ops_[op_index];
    const Axes& axes = slot_of_operand(op_index, loser).attr.dims[dim].axes;
    int rival = -1;
    for (int i = 0; i < operand_count(op); ++i) {
      const Slot& candidate = slot_of_operand(op_index, i);
      if (i == loser || candidate.reason.empty() || (rival >= 0 && !candidate.fixed)) continue;
      bool disagrees = std::any_of(axes.begin(), axes.end(),
                                   [&](int axis) { return candidate.attr.uses(axis); });
      const OperandFactors& dims = factors_of(state, i);
      for (size_t d = 0; d < dims.size(); ++d)
        disagrees = disagrees || (share_a_factor(dims[d], factors_of(state, loser)[dim]) &&
                                  !candidate.attr.dims[d].axes.empty());
      if (disagrees) rival = i;
    }
    return rival;
  }

  // ---- partial sums ----

  DistAttr made(ValueId value) {
    const OpId producer = graph_.value(value).producer;
    const OpState& state = ops_[producer.index];
    const auto& outputs = graph_.op(producer).outputs;
    const int index =
        static_cast<int>(std::find(outputs.begin(), outputs.end(), value) - outputs.begin());
    return output_attr(state.view, state.rule, state.sharding, index);
  }

  /// Does a region take it as addends?
  bool is_addend_of_region(ValueId value, int axis) {
    const auto& partial = home(value).attr.partial;
    return is_region_ && graph_.is_input(value) &&
           std::find(partial.begin(), partial.end(), PartialAxis{axis, ReduceOp::kSum}) !=
               partial.end();
  }

  /// May this value stay a sum of addends until its only user?
  bool may_stay_partial(ValueId value, int axis) {
    const Value& v = graph_.value(value);
    if (is_addend_of_region(value, axis)) return v.users.size() == 1;
    if (v.producer.index < 0 || v.users.size() != 1 || home(value).fixed ||
        home(value).attr.uses(axis))
      return false;
    if (stage_of(v.producer.index) != stage_of(v.users.front().index))
      return false;                                          // it is summed before it travels
    if (slot_of_[value.index] != value.index) return false;  // the next value of a variable
    for (const auto& [name, output] : graph_.outputs())
      if (output == value) return false;
    const auto partial = made(value).partial;
    return std::find(partial.begin(), partial.end(), PartialAxis{axis, ReduceOp::kSum}) !=
           partial.end();
  }

  void pass_partial(int op_index) {
    OpState& state = ops_[op_index];
    if (state.mark) return;
    const Op& op = graph_.op({op_index});
    int64_t in_elements = 0, out_elements = 0;
    for (const TensorType& type : state.view.outputs)
      out_elements = std::max(out_elements, element_count(type.shape));
    for (int axis = 0; axis < state.sharding.mesh->axis_count(); ++axis) {
      // What is added up over micro-batches is added up at once: each op after it runs once a step.
      // In a region it cannot be.
      if (state.sharding.uses(axis) || (is_time(*state.sharding.mesh, axis) && !is_region_))
        continue;
      for (int set = 0; set < std::ssize(state.rule.linear); ++set) {
        const auto& members = state.rule.linear[set];
        in_elements = 0;
        bool all = true;
        for (int i = 0; i < std::ssize(op.inputs); ++i) {
          const bool member = std::find(members.begin(), members.end(), i) != members.end();
          all = all && member == may_stay_partial(op.inputs[i], axis);
          if (member)
            in_elements = std::max(in_elements, element_count(state.view.inputs[i].shape));
        }
        if (!all || members.empty() || out_elements > in_elements) continue;
        state.sharding.linear.push_back({axis, set});
        for (int i : members) stay_partial(op.inputs[i], axis);
        break;
      }
    }
  }

  void stay_partial(ValueId value, int axis) {
    auto& partial = home(value).attr.partial;
    if (home(value).attr.is_partial_on(axis)) return;
    partial.push_back({axis, ReduceOp::kSum});
    std::sort(partial.begin(), partial.end(),
              [](const PartialAxis& a, const PartialAxis& b) { return a.axis < b.axis; });
  }

  ShardedGraph result() {
    ShardedGraph sharded;
    sharded.meshes = meshes_;
    sharded.stages = stages_;
    for (int i = 0; i < std::ssize(graph_.values()); ++i) {
      sharded.values.push_back(home({i}).attr);
      sharded.value_reasons.push_back(home({i}).reason);
    }
    for (OpState& state : ops_) {
      sharded.ops.push_back(std::move(state.sharding));
      sharded.rules.push_back(std::move(state.rule));
    }
    sharded.notes = std::move(notes_);
    return sharded;
  }

  const Graph& graph_;
  const bool is_region_;
  const bool has_time_;  // and may spread it: in a region that is done
  Meshes meshes_;
  RuleCache rules_;
  MeshAssignment stages_;
  ResolvedMarks marks_;
  std::vector<int> slot_of_;
  std::vector<std::vector<Slot>> slots_;  // by value and stage
  std::vector<OpState> ops_;
  std::vector<ShardingNote> notes_;
  std::set<std::string> discovered_;  // by kind and rule, as the notes say it
};

}  // namespace

ShardedGraph propagate(const Graph& graph, const Meshes& meshes, const std::vector<Mark>& marks,
                       const RuleLookup& rules) {
  return Propagation(graph, meshes, marks, rules).run();
}

ShardedGraph propagate(const Graph& graph, MeshPtr mesh, const std::vector<Mark>& marks,
                       const RuleLookup& rules) {
  return propagate(graph, one_mesh(std::move(mesh)), marks, rules);
}

ShardedGraph propagate_region(const Graph& region, MeshPtr mesh, const RegionEnds& ends) {
  return Propagation(region, one_mesh(std::move(mesh)), {}, catalogue_rule, &ends).run();
}

std::string print_placements(const Graph& graph, const ShardedGraph& sharded) {
  std::string text;
  for (int i = 0; i < std::ssize(graph.values()); ++i)
    text += graph.value({i}).name + " " + to_text(graph.type({i}), sharded.of(ValueId{i})) + "\n";
  return text;
}

}  // namespace tessera
