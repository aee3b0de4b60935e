#include "sharding/propagation/candidates.h"

#include <algorithm>

#include "sharding/propagation/mesh_assignment.h"

namespace tessera {
bool is_time(const Mesh& mesh, int axis) {
  return mesh.axes()[axis] == kMicroBatchAxis;
}

bool is_prefix(const Axes& shorter, const Axes& longer) {
  return shorter.size() <= longer.size() &&
         std::equal(shorter.begin(), shorter.end(), longer.begin());
}

bool has_priority(const ShardingCandidate& a, const ShardingCandidate& b) {
  if (a.is_input != b.is_input) return a.is_input;
  if (a.fixed != b.fixed) return a.fixed;
  if (a.bytes != b.bytes) return a.bytes > b.bytes;
  return a.operand < b.operand;
}

void take_chunks(const OpView& op, const ShardingRule& rule, int factor, int64_t chunks,
                 OpSharding& sharding) {
  const size_t f = factor;
  const Axes& axes = sharding.factor_axes[f];
  const FactorKind kind = rule.factors[f].kind;
  const bool in_time = std::any_of(axes.begin(), axes.end(),
                                   [&](int axis) { return is_time(*sharding.mesh, axis); });
  if (axes.empty() || in_time || (kind != FactorKind::kParallel && kind != FactorKind::kReduction))
    return;
  OpSharding chunked = sharding;
  chunked.set_chunks(rule, f, chunks);
  if (!op.definition->kernel || !op.regions.empty()) return;
  const KernelCall call = op.definition->kernel(op, factor_splits(rule, chunked));
  const auto begins_in_chunks = [](const LocalInt& value) {
    return std::any_of(value.terms.begin(), value.terms.end(), [](const LocalInt::Term& term) {
      return term.kind == LocalInt::Term::Kind::kBegin && term.split.chunks > 1;
    });
  };
  if (std::none_of(call.ints.begin(), call.ints.end(), begins_in_chunks))
    sharding = std::move(chunked);
}

bool may_divide_by_micro_batches(const ShardingRule& rule, int factor, int64_t count) {
  const auto has_several = [&](const OperandFactors& operand) {
    return std::any_of(operand.begin(), operand.end(), [&](const DimFactor& dim) {
      const DimFactor* found = find_factor(dim, factor);
      return found && (found->window || found->chunks > 1);
    });
  };
  return rule.factors[factor].extent % count == 0 &&
         std::none_of(rule.inputs.begin(), rule.inputs.end(), has_several) &&
         std::none_of(rule.outputs.begin(), rule.outputs.end(), has_several);
}

int divided_factor(const DimFactor& dim, const OpSharding& sharding) {
  int divided = -1;
  for_each_choice(dim, [&](const DimFactor& choice) {
    if (divided < 0 && !sharding.factor_axes[choice.factor].empty()) divided = choice.factor;
  });
  return divided;
}

bool share_a_factor(const DimFactor& a, const DimFactor& b) {
  const std::vector<DimFactor> choices = choices_of(a);
  return std::any_of(choices.begin(), choices.end(), [&](const DimFactor& choice) {
    return find_factor(b, choice.factor) != nullptr;
  });
}

}  // namespace tessera
