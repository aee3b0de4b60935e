#include "sharding/propagation/op_sharding.h"

#include <algorithm>

#include "base/error.h"
#include "base/text/text.h"

namespace tessera {
namespace {

bool is_reduction(const Factor& factor) {
  return factor.kind == FactorKind::kReduction || factor.kind == FactorKind::kMaskedReduction;
}

template <typename Test>
bool any_dim_of(const ShardingRule& rule, size_t factor, Test test) {
  for (const auto* operands : {&rule.inputs, &rule.outputs})
    for (const OperandFactors& operand : *operands)
      for (const DimFactor& dim : operand)
        if (const DimFactor* found = find_factor(dim, static_cast<int>(factor));
            found && test(*found))
          return true;
  return false;
}

bool is_cut_in_units(const ShardingRule& rule, size_t factor) {
  return any_dim_of(rule, factor,
                    [](const DimFactor& dim) { return dim.unit != 1 || dim.chunks != 1; });
}

bool has_windows(const ShardingRule& rule, size_t factor) {
  return any_dim_of(rule, factor, [](const DimFactor& dim) { return dim.window.has_value(); });
}

/// The unit matters only where a cut of single elements would be at another position.
int64_t canonical_unit(const Split& split) {
  int64_t extent = split.extent;
  for (const AxisPart& axis : split.axes) {
    if (extent % axis.blocks() != 0) return split.unit;
    extent /= axis.blocks();
  }
  return 1;
}

DistAttr operand_attr(const TensorType& type, const OperandFactors& operand,
                      const ShardingRule& rule, const OpSharding& sharding) {
  DistAttr attr = DistAttr::replicated(sharding.mesh, type.shape.size());
  if (std::all_of(sharding.factor_axes.begin(), sharding.factor_axes.end(),
                  [](const std::vector<int>& axes) { return axes.empty(); }))
    return attr;
  const std::vector<Split> factors = factor_splits(rule, sharding);
  for (size_t d = 0; d < operand.size(); ++d)
    for_each_choice(operand[d], [&](const DimFactor& dim) {
      const size_t f = dim.factor;
      if (sharding.factor_axes[f].empty()) return;
      Split split = split_of(dim, factors[f]);
      attr.dims[d] = {sharding.factor_axes[f], canonical_unit(split), std::move(split.windows),
                      split.chunks};
    });
  return attr;
}

void sort_partial(DistAttr& attr) {
  std::sort(attr.partial.begin(), attr.partial.end(),
            [](const PartialAxis& a, const PartialAxis& b) { return a.axis < b.axis; });
}

[[noreturn]] void refuse(const OpView& op, const std::string& what, const std::string& why,
                         const std::string& fix) {
  throw UserError("op '" + std::string(op.name) + "': " + what, why, fix, ExitCode::kBadConfig);
}

const std::string& axis_name(const MeshPtr& mesh, int axis) {
  return mesh->axes()[axis];
}

void take_factor(const OpView& op, const ShardingRule& rule, OpSharding& sharding, int factor,
                 const std::vector<int>& axes) {
  const Factor& f = rule.factors[factor];
  auto& taken = sharding.factor_axes[factor];
  if (f.kind == FactorKind::kWhole && !axes.empty())
    refuse(op, "factor '" + f.name + "' cannot be divided", "the operator needs it whole",
           "leave that dim whole on every axis");
  if (taken == axes) return;
  for (int other = 0; other < std::ssize(rule.factors); ++other)
    if (!sharding.factor_axes[other].empty() && rule.excludes(factor, other))
      refuse(op,
             "its operands divide factors '" + rule.factors[other].name + "' and '" + f.name + "'",
             "both are of one dim, which is divided in one way", "leave one of the two whole");
  if (!taken.empty())
    refuse(op, "its operands divide factor '" + f.name + "' differently",
           "a factor is divided in one way", "give equal axes to the dims of this factor");
  for (int axis : axes)
    if (sharding.uses(axis))
      refuse(op, "axis '" + axis_name(sharding.mesh, axis) + "' is used twice",
             "an axis divides one factor of an op",
             "use another axis, or leave one of the two dims whole");
  taken = axes;
}

/// The factor's windows are those of the operand's dim without the one that the op itself has
/// there.
void take_windows(const OpView& op, const ShardingRule& rule, OpSharding& sharding,
                  const DimFactor& dim, std::vector<Window> windows) {
  if (dim.window && !windows.empty() && windows.back() == *dim.window) windows.pop_back();
  if (windows.empty()) return;
  const size_t f = dim.factor;
  const std::string name = "factor '" + rule.factors[f].name + "'";
  if (rule.factors[f].kind != FactorKind::kParallel)
    refuse(op, "its operands hold overlapping parts of " + name,
           "what overlaps would be reduced twice", "hold parts without windows");
  if (windows.back().to != rule.factors[f].extent)
    refuse(op, "its operands hold windows of " + name + " that are not its own",
           "a window is of the extent of what it divides", "hold parts without windows");
  if (!sharding.windows_of(f).empty() && !std::ranges::equal(sharding.windows_of(f), windows))
    refuse(op, "its operands hold different windows of " + name, "a factor is divided in one way",
           "hold parts without windows");
  if (is_cut_in_units(rule, f))
    refuse(op, "its operands hold windows of " + name + ", which it cuts in units or chunks",
           "a window may end inside one", "hold parts without windows");
  sharding.set_windows(rule, f, std::move(windows));
}

void take_partial(const OpView& op, const ShardingRule& rule, OpSharding& sharding, int axis,
                  const std::vector<DistAttr>& inputs) {
  std::vector<int> partial;
  for (int i = 0; i < std::ssize(inputs); ++i)
    if (inputs[i].is_partial_on(axis)) partial.push_back(i);
  for (int set = 0; set < std::ssize(rule.linear); ++set) {
    if (rule.linear[set] != partial) continue;
    if (sharding.uses(axis)) break;
    sharding.linear.push_back({axis, set});
    return;
  }
  refuse(op,
         "its inputs are partial sums on axis '" + axis_name(sharding.mesh, axis) +
             "' where it is not linear in them",
         "a partial sum may pass only through an op that is linear in exactly the operands that "
         "are partial",
         "reduce them first: Replicate() or Shard(dim)");
}

/// Gives the factors the axes of an operand's dims.
void take_dims(const OpView& op, const ShardingRule& rule, OpSharding& sharding,
               const std::string& operand, const OperandFactors& factors, const DistAttr& attr) {
  for (size_t d = 0; d < factors.size(); ++d) {
    const DimSharding& held = attr.dims[d];
    if (held.axes.empty()) continue;
    if (factors[d].factor < 0)
      refuse(op, "dim " + std::to_string(d) + " of " + operand + " cannot be divided",
             "the operator needs it whole", "leave it whole");
    const DimFactor& dim = choice_for(factors[d], rule, held);
    take_factor(op, rule, sharding, dim.factor, held.axes);
    take_windows(op, rule, sharding, dim, held.windows);
    if (const int64_t chunks = chunks_of_factor(dim, rule, held); chunks > 1)
      sharding.set_chunks(rule, static_cast<size_t>(dim.factor), chunks);
  }
}

/// Makes a value partial over an axis. It comes from a divided reduction, or from a partial
/// operand.
void make_partial(const OpView& op, const ShardingRule& rule, OpSharding& sharding,
                  const PartialAxis& partial) {
  for (int f = 0; f < std::ssize(rule.factors); ++f) {
    const bool reduces =
        is_reduction(rule.factors[f]) && rule.factors[f].reduce == partial.reduce &&
        std::none_of(rule.outputs.begin(), rule.outputs.end(),
                     [&](const OperandFactors& output) { return has_factor(output, f); });
    if (!reduces || !sharding.may_divide(rule, f) || sharding.uses(partial.axis)) continue;
    sharding.factor_axes[f].push_back(partial.axis);
    return;
  }
  if (partial.reduce == ReduceOp::kSum && !rule.linear.empty() && !sharding.uses(partial.axis)) {
    sharding.linear.push_back({partial.axis, 0});
    return;
  }
  refuse(op,
         "its outputs are partial on axis '" + axis_name(sharding.mesh, partial.axis) +
             "' and nothing makes them so",
         "a Partial(" + std::string(to_text(partial.reduce)) +
             ") comes from a divided reduction of that kind, or passes through a linear op",
         "use Replicate() or Shard(dim)");
}

}  // namespace

OpSharding OpSharding::replicated(MeshPtr mesh, const ShardingRule& rule) {
  return {std::move(mesh), std::vector<std::vector<int>>(rule.factors.size()), {}};
}

bool OpSharding::uses(int axis) const {
  for (const auto& axes : factor_axes)
    if (std::find(axes.begin(), axes.end(), axis) != axes.end()) return true;
  return std::any_of(linear.begin(), linear.end(),
                     [&](const LinearAxis& l) { return l.axis == axis; });
}

int64_t OpSharding::chunks_of(size_t factor) const {
  return factor < factor_chunks.size() ? factor_chunks[factor] : 1;
}

bool OpSharding::may_divide(const ShardingRule& rule, int factor) const {
  if (rule.factors[factor].kind == FactorKind::kWhole) return false;
  for (int other = 0; other < std::ssize(factor_axes); ++other)
    if (!factor_axes[other].empty() && rule.excludes(factor, other)) return false;
  return true;
}

void OpSharding::set_chunks(const ShardingRule& rule, size_t factor, int64_t chunks) {
  ensure(chunks >= 1 && rule.factors[factor].extent % chunks == 0, "chunks of a factor are equal");
  ensure(chunks == 1 || (windows_of(factor).empty() && !has_windows(rule, factor)),
         "chunks have no windows");
  factor_chunks.resize(rule.factors.size(), 1);
  factor_chunks[factor] = chunks;
}

const DimFactor& choice_for(const DimFactor& dim, const ShardingRule& rule,
                            const DimSharding& held) {
  if (dim.others.empty()) return dim;
  std::vector<const DimFactor*> choices{&dim};
  for (const DimFactor& other : dim.others) choices.push_back(&other);
  const auto first = [&](const auto& test) {
    const auto found = std::find_if(choices.begin(), choices.end(),
                                    [&](const DimFactor* choice) { return test(*choice); });
    return found == choices.end() ? nullptr : *found;
  };
  const auto is_exact = [&](const DimFactor& choice) {
    return choice.chunks == held.chunks &&
           (choice.window ? held.windows == std::vector{*choice.window} : held.windows.empty());
  };
  if (const DimFactor* exact = first(is_exact)) return *exact;
  if (const DimFactor* chunked =
          first([&](const DimFactor& choice) { return chunks_of_factor(choice, rule, held) > 1; }))
    return *chunked;
  if (const DimFactor* windowed =
          first([](const DimFactor& choice) { return choice.window.has_value(); }))
    return *windowed;
  return dim;
}

int64_t chunks_of_factor(const DimFactor& dim, const ShardingRule& rule, const DimSharding& held) {
  const size_t f = dim.factor;
  if (held.chunks % dim.chunks != 0 || has_windows(rule, f)) return 1;
  const int64_t chunks = held.chunks / dim.chunks;
  return rule.factors[f].extent % chunks == 0 ? chunks : 1;
}

std::span<const Window> OpSharding::windows_of(size_t factor) const {
  if (factor >= factor_windows.size()) return {};
  return factor_windows[factor];
}

void OpSharding::set_windows(const ShardingRule& rule, size_t factor, std::vector<Window> windows) {
  ensure(windows.empty() || rule.factors[factor].kind == FactorKind::kParallel,
         "parts of a reduction do not overlap");
  ensure(windows.empty() || windows.back().to == rule.factors[factor].extent,
         "the last window of a factor is of its extent");
  ensure(windows.empty() || !is_cut_in_units(rule, factor), "what is cut in units has no windows");
  factor_windows.resize(rule.factors.size());
  factor_windows[factor] = std::move(windows);
}

bool OpSharding::operator==(const OpSharding& other) const {
  for (size_t f = 0; f < factor_axes.size(); ++f)
    if (!std::ranges::equal(windows_of(f), other.windows_of(f)) ||
        chunks_of(f) != other.chunks_of(f))
      return false;
  return factor_axes == other.factor_axes && linear == other.linear;
}

DistAttr input_attr(const OpView& op, const ShardingRule& rule, const OpSharding& sharding,
                    int index) {
  DistAttr attr = operand_attr(op.inputs[index], rule.inputs[index], rule, sharding);
  for (const LinearAxis& l : sharding.linear) {
    const auto& set = rule.linear[l.set];
    if (std::find(set.begin(), set.end(), index) != set.end())
      attr.partial.push_back({l.axis, ReduceOp::kSum});
  }
  sort_partial(attr);
  return attr;
}

DistAttr output_attr(const OpView& op, const ShardingRule& rule, const OpSharding& sharding,
                     int index) {
  const OperandFactors& operand = rule.outputs[index];
  DistAttr attr = operand_attr(op.outputs[index], operand, rule, sharding);
  for (int f = 0; f < std::ssize(rule.factors); ++f) {
    if (!rule.reduces(f, index)) continue;
    for (int axis : sharding.factor_axes[f]) attr.partial.push_back({axis, rule.factors[f].reduce});
  }
  for (const LinearAxis& l : sharding.linear) attr.partial.push_back({l.axis, ReduceOp::kSum});
  sort_partial(attr);
  return attr;
}

std::vector<Split> factor_splits(const ShardingRule& rule, const OpSharding& sharding) {
  std::vector<Split> splits;
  for (size_t f = 0; f < rule.factors.size(); ++f) {
    const std::span<const Window> windows = sharding.windows_of(f);
    const int64_t chunks = sharding.chunks_of(f);
    Split split{windows.empty() ? rule.factors[f].extent / chunks : windows.front().from,
                1,
                {},
                {windows.begin(), windows.end()},
                chunks};
    for (int axis : sharding.factor_axes[f]) split.axes.push_back(sharding.mesh->axis_part(axis));
    splits.push_back(std::move(split));
  }
  return splits;
}

OpSharding sharding_for_inputs(const OpView& op, const ShardingRule& rule,
                               const std::vector<DistAttr>& inputs) {
  ensure(inputs.size() == op.inputs.size() && !inputs.empty(), "a placement for each input");
  OpSharding sharding = OpSharding::replicated(inputs.front().mesh, rule);
  for (size_t i = 0; i < inputs.size(); ++i)
    take_dims(op, rule, sharding, "input " + std::to_string(i), rule.inputs[i], inputs[i]);
  for (int axis = 0; axis < sharding.mesh->axis_count(); ++axis)
    if (std::any_of(inputs.begin(), inputs.end(),
                    [&](const DistAttr& a) { return a.is_partial_on(axis); }))
      take_partial(op, rule, sharding, axis, inputs);
  for (int i = 0; i < std::ssize(inputs); ++i)
    if (input_attr(op, rule, sharding, i).placements() != inputs[i].placements())
      refuse(op,
             "input " + std::to_string(i) + " is " + to_text(inputs[i]) +
                 " while the other inputs divide its factors",
             "all operands divide a factor alike",
             "give " + to_text(input_attr(op, rule, sharding, i)));
  return sharding;
}

OpSharding sharding_for_outputs(const OpView& op, const ShardingRule& rule,
                                const std::vector<DistAttr>& outputs) {
  ensure(outputs.size() == op.outputs.size() && !outputs.empty(), "a placement for each output");
  OpSharding sharding = OpSharding::replicated(outputs.front().mesh, rule);
  for (size_t i = 0; i < outputs.size(); ++i)
    take_dims(op, rule, sharding, "output " + std::to_string(i), rule.outputs[i], outputs[i]);
  for (const PartialAxis& p : outputs.front().partial) make_partial(op, rule, sharding, p);
  for (int i = 0; i < std::ssize(outputs); ++i)
    if (const DistAttr made = output_attr(op, rule, sharding, i);
        made.placements() != outputs[i].placements())
      refuse(op,
             "output " + std::to_string(i) + " is " + to_text(outputs[i]) +
                 " while the other outputs divide its factors",
             "all operands divide a factor alike", "give " + to_text(made));
  return sharding;
}

std::vector<Signature> signatures(const OpView& op, const ShardingRule& rule) {
  const auto mesh = std::make_shared<const Mesh>(Shape{2}, std::vector<std::string>{"x"});
  const auto of = [&](const OpSharding& sharding) {
    Signature signature;
    for (int i = 0; i < std::ssize(op.inputs); ++i)
      signature.inputs.push_back(input_attr(op, rule, sharding, i).placements().front());
    for (int i = 0; i < std::ssize(op.outputs); ++i)
      signature.outputs.push_back(output_attr(op, rule, sharding, i).placements().front());
    return signature;
  };
  std::vector<Signature> result;
  for (const bool reductions : {false, true}) {
    for (size_t f = 0; f < rule.factors.size(); ++f) {
      if (rule.factors[f].kind == FactorKind::kWhole || is_reduction(rule.factors[f]) != reductions)
        continue;
      OpSharding sharding = OpSharding::replicated(mesh, rule);
      sharding.factor_axes[f] = {0};
      result.push_back(of(sharding));
    }
  }
  result.push_back(of(OpSharding::replicated(mesh, rule)));
  for (int set = 0; set < std::ssize(rule.linear); ++set) {
    OpSharding sharding = OpSharding::replicated(mesh, rule);
    sharding.linear = {{0, set}};
    result.push_back(of(sharding));
  }
  return result;
}

std::string to_text(const Signature& signature) {
  const auto letter = [](const Placement& p) -> std::string {
    switch (p.kind) {
      case Placement::Kind::kReplicate: return "B";
      case Placement::Kind::kShard: return "S" + std::to_string(p.dim);
      case Placement::Kind::kPartial:
        return p.reduce == ReduceOp::kSum ? "P" : "P(" + std::string(to_text(p.reduce)) + ")";
    }
    throw InternalError("unknown placement");
  };
  const auto list = [&](const std::vector<Placement>& placements) {
    std::vector<std::string> letters;
    for (const Placement& p : placements) letters.push_back(letter(p));
    return join(letters, ",");
  };
  const std::string outputs = list(signature.outputs);
  return "(" + list(signature.inputs) + ")->" +
         (signature.outputs.size() == 1 ? outputs : "(" + outputs + ")");
}

}  // namespace tessera
