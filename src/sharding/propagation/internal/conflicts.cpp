#include "sharding/propagation/internal/conflicts.h"

#include <algorithm>

#include "base/error.h"
#include "sharding/propagation/candidates.h"

namespace tessera {
namespace {

/// The operand that uses an axis of this dim, or divides its factor, in another way; preferably a
/// marked one. -1: none.
int rival_of(PropagationState& state, OpId id, int loser, size_t dim) {
  const Axes axes = state.placement_of_operand(id, loser).attr.dims[dim].axes;
  const DimFactor& lost = state.factors_of_operand(id, loser)[dim];
  int rival = -1;
  for (int i = 0; i < state.operand_count(id); ++i) {
    const TensorPlacement& other = state.placement_of_operand(id, i);
    if (i == loser || other.reason.empty() || (rival >= 0 && !other.fixed)) continue;
    bool disagrees =
        std::any_of(axes.begin(), axes.end(), [&](int axis) { return other.attr.uses(axis); });
    const OperandFactors& dims = state.factors_of_operand(id, i);
    for (size_t d = 0; d < dims.size(); ++d)
      disagrees = disagrees || (share_a_factor(dims[d], lost) && !other.attr.dims[d].axes.empty());
    if (disagrees) rival = i;
  }
  return rival;
}

/// " by mark 'x'", or " since op 'y' divides factor m".
std::string divided_text(const TensorPlacement& placed) {
  return (placed.reason.starts_with("op ") ? " since " : " by ") + placed.reason;
}

std::string conflict_text(PropagationState& state, OpId id, int loser, size_t dim) {
  const auto name_of = [&](int index) {
    return "'" + state.graph().value(state.operand(id, index)).name + "'";
  };
  const Op& op = state.graph().op(id);
  const std::string name = name_of(loser);
  const int rival = rival_of(state, id, loser, dim);
  const std::string other =
      rival < 0 ? "the op is divided otherwise"
                : name_of(rival) + divided_text(state.placement_of_operand(id, rival));
  return op.kind + " '" + op.name + "' cannot follow both: " + name + " is divided" +
         divided_text(state.placement_of_operand(id, loser)) + ", " + other + "; " + name +
         " is resharded for this op";
}

/// Does the op not divide this dim by an axis that the unmarked operand has there, since another
/// operand has the axis or divides the factor?
bool is_overruled(PropagationState& state, OpId id, int operand, size_t dim,
                  const DistAttr& needed) {
  const Axes& held = state.placement_of_operand(id, operand).attr.dims[dim].axes;
  const Axes& kept = needed.dims[dim].axes;
  const bool loses_an_axis = std::any_of(held.begin(), held.end(), [&](int axis) {
    return std::find(kept.begin(), kept.end(), axis) == kept.end();
  });
  return loses_an_axis && rival_of(state, id, operand, dim) >= 0;
}

/// Does the operator need the dim whole?
bool is_whole(const ShardingRule& rule, const DimFactor& dim) {
  const std::vector<DimFactor> choices = choices_of(dim);
  return std::all_of(choices.begin(), choices.end(), [&](const DimFactor& choice) {
    return rule.factors[choice.factor].kind == FactorKind::kWhole;
  });
}

}  // namespace

std::string_view to_text(ShardingNote::Kind kind) {
  switch (kind) {
    case ShardingNote::Kind::kConflict: return "conflict";
    case ShardingNote::Kind::kReshard: return "reshard";
    case ShardingNote::Kind::kFallback: return "fallback";
    case ShardingNote::Kind::kDiscovered: return "discovered";
    case ShardingNote::Kind::kPasses: return "passes";
    case ShardingNote::Kind::kWaste: return "waste";
  }
  throw InternalError("unknown kind of note");
}

void note_conflicts(PropagationState& state, OpId id) {
  const Op& op = state.graph().op(id);
  const OpState& decided = state.op(id);
  for (int i = 0; i < std::ssize(op.inputs); ++i) {
    const TensorPlacement& placed = state.placement_of_operand(id, i);
    const DistAttr needed = input_attr(decided.view, decided.rule, decided.sharding, i);
    for (size_t d = 0; d < needed.dims.size(); ++d) {
      const Axes& held = placed.attr.dims[d].axes;
      if (held.empty() || held == needed.dims[d].axes) continue;
      if (is_whole(decided.rule, state.factors_of_operand(id, i)[d])) {
        state.add_note({ShardingNote::Kind::kFallback, op.name,
                        op.kind + " '" + op.name + "' needs dim " + std::to_string(d) + " of '" +
                            state.graph().value(op.inputs[i]).name + "' whole, and it is divided" +
                            divided_text(placed) + ": it falls back to Replicate there"});
      } else if (placed.fixes(d) || is_overruled(state, id, i, d, needed)) {
        const auto kind =
            placed.fixes(d) ? ShardingNote::Kind::kConflict : ShardingNote::Kind::kReshard;
        state.add_note({kind, op.name, conflict_text(state, id, i, d)});
      }
    }
  }
}

}  // namespace tessera
