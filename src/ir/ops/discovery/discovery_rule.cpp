// Makes a sharding rule from the findings: the part that a rule can express and that the kernel can
// compute.
#include <algorithm>

#include "ir/ops/detail.h"
#include "ir/ops/discovery/discovery.h"
#include "ir/ops/internal/discovery/discovery_parts.h"

namespace tessera {
namespace {

using detail::OwnedOp;
using Restore = DiscoveredResult::Restore;

/// The reason why a rule cannot express this finding, or "".
std::string what_rules_lack(const DiscoveredFactor& factor) {
  if (factor.halo_before + factor.halo_after > 0)
    return "its parts overlap, and their kernel would make what overlaps, too";
  if (factor.counts_from_part)
    return "its integers count from the part, and only a kernel that is told of its part can do so";
  std::optional<ReduceOp> reduce;
  for (const DiscoveredResult& result : factor.outputs) {
    if (result.restore == Restore::kSame)
      return "a result does not depend on it, and a rule has no such factors";
    if (result.restore != Restore::kReduce) continue;
    if (reduce.value_or(result.reduce) != result.reduce)
      return "its results are restored by different reductions";
    reduce = result.reduce;
  }
  return {};
}

/// Adds a factor and its dims.
void add(ShardingRule& rule, const DiscoveredFactor& found, size_t number) {
  const int factor = detail::add_factor(rule, "f" + std::to_string(number), found.extent);
  const auto put = [&](OperandFactors& operand, const DiscoveredDim& along) {
    DimFactor& dim = operand[along.dim];
    const DimFactor choice{factor, along.unit, {}, along.chunks};
    if (dim.factor < 0)
      dim = choice;
    else
      dim.others.push_back(choice);
  };
  for (size_t i = 0; i < found.inputs.size(); ++i)
    if (found.inputs[i].dim >= 0) put(rule.inputs[i], found.inputs[i]);
  for (size_t o = 0; o < found.outputs.size(); ++o) {
    const DiscoveredResult& result = found.outputs[o];
    if (result.restore == Restore::kJoin) {
      put(rule.outputs[o], result.along);
    } else {
      rule.factors.back().kind = FactorKind::kReduction;
      rule.factors.back().reduce = result.reduce;
    }
  }
}

std::vector<Split> undivided(const ShardingRule& rule) {
  std::vector<Split> splits;
  for (const Factor& factor : rule.factors) splits.push_back({factor.extent, 1, {}});
  return splits;
}

/// The types of the operands of one part of factor `factor`.
std::vector<TensorType> local_types(std::vector<TensorType> types,
                                    const std::vector<OperandFactors>& operands, int factor,
                                    int64_t units) {
  for (size_t i = 0; i < types.size(); ++i)
    for (size_t d = 0; d < operands[i].size(); ++d)
      if (const DimFactor* dim = find_factor(operands[i][d], factor))
        types[i].shape[d] = dim->chunks * units * dim->unit;
  return types;
}

bool same_parameters(const LocalCall& a, const LocalCall& b) {
  return a.kernel == b.kernel && a.ints == b.ints && a.reals == b.reals && a.text == b.text;
}

/// Is the kernel that runs on each part of a factor the kernel of an op as small as the part?
/// Discovery has tried that op.
bool kernel_takes_parts(const OwnedOp& whole, const ShardingRule& rule,
                        const DiscoveredFactor& found) {
  if (!whole.definition->kernel) return true;
  const int factor = static_cast<int>(rule.factors.size()) - 1;
  for (int64_t parts : {2, 3}) {
    std::vector<Split> splits = undivided(rule);
    splits.back().axes = {{0, parts}};
    const KernelCall call = whole.definition->kernel(whole.view(), splits);
    for (int64_t i = 0; i < parts; ++i) {
      const int64_t units = balanced_part(found.extent, parts, i).size();
      OwnedOp part = whole;
      part.inputs = local_types(whole.inputs, rule.inputs, factor, units);
      part.outputs = local_types(whole.outputs, rule.outputs, factor, units);
      if (found.attribute)
        detail::set(part.attributes, *found.attribute,
                    detail::get(whole.attributes, *found.attribute) * units / found.extent);
      std::vector<Split> of_part = undivided(rule);
      of_part.back().extent = units;
      const LocalCall divided = localize(call, {i}, part.inputs, part.outputs);
      if (!same_parameters(divided, localize(whole.definition->kernel(part.view(), of_part), {},
                                             part.inputs, part.outputs)))
        return false;
    }
  }
  return true;
}

}  // namespace

DiscoveredRule discover_rule(const Operator& definition, const OpView& op) {
  const OwnedOp whole = detail::own(definition, op);
  const Discovery discovery = discover(definition, op);
  DiscoveredRule result;
  for (const TensorType& type : whole.inputs) result.rule.inputs.emplace_back(type.shape.size());
  for (const TensorType& type : whole.outputs) result.rule.outputs.emplace_back(type.shape.size());
  if (!discovery.nothing_because.empty()) result.left_whole.push_back(discovery.nothing_because);
  result.rule.linear = discovery.linear;
  for (size_t f = 0; f < discovery.factors.size(); ++f) {
    std::string lack = what_rules_lack(discovery.factors[f]);
    ShardingRule longer = result.rule;
    if (lack.empty()) {
      add(longer, discovery.factors[f], f + 1);
      if (!kernel_takes_parts(whole, longer, discovery.factors[f]))
        lack = "its kernel for a part is not that of an op as small as the part";
    }
    if (lack.empty())
      result.rule = std::move(longer);
    else
      result.left_whole.push_back("factor " + std::to_string(f + 1) + " of " + to_text(discovery) +
                                  ": " + lack);
  }
  result.rule.discovered = to_text(result.rule);
  for (const std::string& reason : result.left_whole)
    result.rule.discovered += "; left whole: " + reason;
  return result;
}

}  // namespace tessera
