#include "lower/derive_placement.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/text.h"

namespace tessera {
namespace {

[[noreturn]] void refuse(const OpView& op, const std::string& what) {
  throw InternalError("placements: op '" + std::string(op.name) + "' " + what);
}

/// "input 0" or "output 1".
struct Operand {
  const char* side;
  size_t index;
  std::string text() const { return std::string(side) + " " + std::to_string(index); }
};

class Derivation {
 public:
  Derivation(const OpView& op, const ShardingRule& rule, const MeshPtr& mesh)
      : op_(op),
        rule_(rule),
        mesh_(*mesh),
        taken_(rule.factors.size()),
        windows_(rule.factors.size()),
        used_(static_cast<size_t>(mesh->axis_count()), false) {
    sharding_ = OpSharding::replicated(mesh, rule);
  }

  void take_dims(const Operand& operand, const DistAttr& attr, const OperandFactors& factors) {
    if (attr.dims.size() != factors.size()) refuse(op_, "has a rule for another number of dims of " + operand.text());
    for (size_t d = 0; d < factors.size(); ++d) {
      const auto& axes = attr.dims[d].axes;
      if (factors[d].factor >= 0) {
        take_factor(operand, static_cast<size_t>(factors[d].factor), axes);
        if (!axes.empty()) take_windows(operand, d, factors[d], attr.dims[d].windows);
      } else if (!axes.empty()) {
        refuse(op_,
               "needs dim " + std::to_string(d) + " of " + operand.text() + " whole, and it is divided over " + axes_text(mesh_, axes));
      }
    }
  }

  void use_axes_once() {
    for (size_t f = 0; f < taken_.size(); ++f) {
      if (!taken_[f]) continue;
      for (int axis : *taken_[f]) use(axis);
      sharding_.factor_axes[f] = *taken_[f];
      if (windows_[f]) sharding_.set_windows(rule_, f, *windows_[f]);
    }
  }

  /// Addends over `axis` go through an op only where it is linear in exactly the operands that are addends.
  void take_addends(int axis, const std::vector<const DistAttr*>& inputs) {
    std::vector<int> addends;
    for (size_t i = 0; i < inputs.size(); ++i) {
      for (const PartialAxis& p : inputs[i]->partial) {
        if (p.axis != axis) continue;
        if (p.reduce != ReduceOp::kSum)
          refuse(op_, "takes input " + std::to_string(i) + " before its " + partial_text(mesh_, {p}) + " is taken");
        addends.push_back(static_cast<int>(i));
      }
    }
    if (addends.empty()) return;
    for (size_t set = 0; set < rule_.linear.size(); ++set) {
      std::vector<int> members = rule_.linear[set];
      std::sort(members.begin(), members.end());
      if (members != addends) continue;
      use(axis);
      sharding_.linear.push_back({axis, static_cast<int>(set)});
      return;
    }
    std::vector<std::string> names;
    for (int i : addends) names.push_back(std::to_string(i));
    refuse(op_, "takes addends over " + axes_text(mesh_, {axis}) + " as input " + join(names, ", ") + " and is not linear in exactly " +
                    (names.size() == 1 ? "that" : "those"));
  }

  OpSharding result() { return std::move(sharding_); }

 private:
  void take_factor(const Operand& operand, size_t factor, const std::vector<int>& axes) {
    const Factor& f = rule_.factors[factor];
    if (f.kind == FactorKind::kWhole && !axes.empty())
      refuse(op_, "needs its factor " + f.name + " whole, and " + operand.text() + " divides it over " + axes_text(mesh_, axes));
    if (taken_[factor] && *taken_[factor] != axes)
      refuse(op_, "has its factor " + f.name + " divided over " + axes_text(mesh_, *taken_[factor]) + " by one operand and over " +
                      axes_text(mesh_, axes) + " by " + operand.text());
    taken_[factor] = axes;
  }

  /// A dim holds the windows of its factor, and behind them the one that the rule has there.
  void take_windows(const Operand& operand, size_t d, const DimFactor& dim, std::vector<Window> held) {
    const Factor& f = rule_.factors[static_cast<size_t>(dim.factor)];
    const std::string what = "dim " + std::to_string(d) + " of " + operand.text();
    if (dim.window && !dim.window->is_identity()) {
      if (held.empty() || held.back() != *dim.window)
        refuse(op_, "needs of " + what + " the window " + to_text(*dim.window) + " of its part of factor " + f.name + ", and it holds " +
                        (held.empty() ? "a plain part" : "the window " + to_text(held.back())));
      held.pop_back();
    }
    if (!held.empty() && f.kind != FactorKind::kParallel)
      refuse(op_, "reduces over factor " + f.name + ", of which " + what + " holds parts that overlap");
    auto& known = windows_[static_cast<size_t>(dim.factor)];
    if (known && *known != held)
      refuse(op_, "has its factor " + f.name + " in one window by one operand and in another by " + operand.text());
    known = std::move(held);
  }

  void use(int axis) {
    if (used_[static_cast<size_t>(axis)]) refuse(op_, "uses axis " + axes_text(mesh_, {axis}) + " twice");
    used_[static_cast<size_t>(axis)] = true;
  }

  const OpView& op_;
  const ShardingRule& rule_;
  const ProcessMesh& mesh_;
  std::vector<std::optional<std::vector<int>>> taken_;       // by factor: its axes, once an operand says so
  std::vector<std::optional<std::vector<Window>>> windows_;  // by factor, likewise
  std::vector<bool> used_;                                   // by axis
  OpSharding sharding_;
};

bool has_factor(const OperandFactors& operand, size_t factor) {
  return std::any_of(operand.begin(), operand.end(), [&](const DimFactor& dim) { return dim.factor == static_cast<int>(factor); });
}

}  // namespace

OpSharding derive_sharding(const OpView& op, const ShardingRule& rule, const std::vector<const DistAttr*>& inputs,
                           const std::vector<DistAttr>& outputs) {
  ensure(!outputs.empty() && rule.inputs.size() == inputs.size() && rule.outputs.size() == outputs.size(), "a rule is of all operands");
  Derivation derivation(op, rule, outputs.front().mesh);
  for (size_t i = 0; i < inputs.size(); ++i) derivation.take_dims({"input", i}, *inputs[i], rule.inputs[i]);
  for (size_t i = 0; i < outputs.size(); ++i) derivation.take_dims({"output", i}, outputs[i], rule.outputs[i]);
  derivation.use_axes_once();
  for (int axis = 0; axis < outputs.front().mesh->axis_count(); ++axis) derivation.take_addends(axis, inputs);
  return derivation.result();
}

std::vector<PartialAxis> derive_partial(const OpView& op, const ShardingRule& rule, const OpSharding& sharding, int index) {
  std::vector<PartialAxis> partial;
  for (size_t f = 0; f < rule.factors.size(); ++f) {
    const Factor& factor = rule.factors[f];
    if (factor.kind != FactorKind::kReduction && factor.kind != FactorKind::kMaskedReduction) continue;
    if (has_factor(rule.outputs[static_cast<size_t>(index)], f)) continue;
    for (int axis : sharding.factor_axes[f]) partial.push_back({axis, factor.reduce});
  }
  for (const LinearAxis& linear : sharding.linear) partial.push_back({linear.axis, ReduceOp::kSum});
  std::sort(partial.begin(), partial.end(), [](const PartialAxis& a, const PartialAxis& b) { return a.axis < b.axis; });
  for (const PartialAxis& p : partial)
    if (p.reduce != partial.front().reduce) refuse(op, "makes addends of two reductions at once: " + partial_text(*sharding.mesh, partial));
  return partial;
}

std::string axes_text(const ProcessMesh& mesh, const std::vector<int>& axes) {
  std::vector<std::string> names;
  for (int axis : axes) names.push_back(mesh.axes()[static_cast<size_t>(axis)]);
  return names.empty() ? "no axis" : join(names, ", ");
}

std::string partial_text(const ProcessMesh& mesh, const std::vector<PartialAxis>& partial) {
  std::vector<std::string> texts;
  for (const PartialAxis& p : partial) texts.push_back(std::string(to_text(p.reduce)) + " over " + axes_text(mesh, {p.axis}));
  return texts.empty() ? "nothing" : join(texts, ", ");
}

}  // namespace tessera
