#include "placement_check/derive_placement.h"

#include <algorithm>
#include <cmath>
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
        chunks_(rule.factors.size()),
        used_(static_cast<size_t>(mesh->axis_count()), false) {
    sharding_ = OpSharding::replicated(mesh, rule);
  }

  /// Dims with one factor speak first: of a dim with several they say which is divided.
  void take_dims(const Operand& operand, const DistAttr& attr, const OperandFactors& factors,
                 bool several) {
    if (attr.dims.size() != factors.size())
      refuse(op_, "has a rule for another number of dims of " + operand.text());
    for (size_t d = 0; d < factors.size(); ++d) {
      const DimSharding& held = attr.dims[d];
      if (factors[d].others.empty() == several) continue;
      if (factors[d].factor < 0 && !held.axes.empty())
        refuse(op_, "needs dim " + std::to_string(d) + " of " + operand.text() +
                        " whole, and it is divided over " + axes_text(mesh_, held.axes));
      const int divided = held.axes.empty() ? -1 : factor_of(operand, d, factors[d], held);
      for (const DimFactor& dim : choices_of(factors[d])) {
        take_factor(operand, static_cast<size_t>(dim.factor),
                    dim.factor == divided ? held.axes : std::vector<int>());
        if (dim.factor != divided) continue;
        take_chunks(operand, d, dim, held.chunks);
        take_windows(operand, d, dim, held.windows);
      }
    }
  }

  void use_axes_once() {
    for (size_t f = 0; f < taken_.size(); ++f) {
      if (!taken_[f]) continue;
      for (int axis : *taken_[f]) use(axis);
      sharding_.factor_axes[f] = *taken_[f];
      if (windows_[f]) sharding_.set_windows(rule_, f, *windows_[f]);
      if (chunks_[f] > 1) sharding_.set_chunks(rule_, f, chunks_[f]);
    }
  }

  /// Addends over `axis` go through an op only where it is linear in exactly the operands that are
  /// addends.
  void take_addends(int axis, const std::vector<const DistAttr*>& inputs) {
    std::vector<int> addends;
    for (size_t i = 0; i < inputs.size(); ++i) {
      for (const PartialAxis& p : inputs[i]->partial) {
        if (p.axis != axis) continue;
        if (p.reduce != ReduceOp::kSum)
          refuse(op_, "takes input " + std::to_string(i) + " before its " +
                          partial_text(mesh_, {p}) + " is taken");
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
    refuse(op_, "takes partial values over " + axes_text(mesh_, {axis}) + " as input " +
                    join(names, ", ") + " and is not linear in exactly " +
                    (names.size() == 1 ? "that" : "those"));
  }

  OpSharding result() { return std::move(sharding_); }

 private:
  void take_factor(const Operand& operand, size_t factor, const std::vector<int>& axes) {
    const Factor& f = rule_.factors[factor];
    if (f.kind == FactorKind::kWhole && !axes.empty())
      refuse(op_, "needs its factor " + f.name + " whole, and " + operand.text() +
                      " divides it over " + axes_text(mesh_, axes));
    if (taken_[factor] && *taken_[factor] != axes)
      refuse(op_, "has its factor " + f.name + " divided over " +
                      axes_text(mesh_, *taken_[factor]) + " by one operand and over " +
                      axes_text(mesh_, axes) + " by " + operand.text());
    taken_[factor] = axes;
  }

  /// Which of its factors a dim is divided by: one that is known to have these axes, else one that
  /// lies exactly so, else the first that could.
  int factor_of(const Operand& operand, size_t d, const DimFactor& dim,
                const DimSharding& held) const {
    const std::vector<DimFactor> choices = choices_of(dim);
    if (choices.size() == 1) return dim.factor;
    const auto lies_so = [&](const DimFactor& choice) {
      if (choice.window)
        return held.chunks == 1 && !held.windows.empty() && held.windows.back() == *choice.window;
      return held.chunks % choice.chunks == 0 &&
             rule_.factors[choice.factor].extent % (held.chunks / choice.chunks) == 0;
    };
    const auto is_exactly_so = [&](const DimFactor& choice) {
      return held.chunks == choice.chunks &&
             held.windows == (choice.window ? std::vector{*choice.window} : std::vector<Window>());
    };
    const auto taken = [&](const DimFactor& choice) { return taken_[choice.factor]; };
    for (const DimFactor& choice : choices)
      if (taken(choice) == held.axes && lies_so(choice)) return choice.factor;
    for (const DimFactor& choice : choices)
      if (!taken(choice) && is_exactly_so(choice)) return choice.factor;
    for (const DimFactor& choice : choices)
      if (!taken(choice) && lies_so(choice)) return choice.factor;
    refuse(op_, "has dim " + std::to_string(d) + " of " + operand.text() + " divided over " +
                    axes_text(mesh_, held.axes) + " as none of its factors is");
  }

  /// The chunks of a dim are those of its factor, and as many of each as the rule has there.
  void take_chunks(const Operand& operand, size_t d, const DimFactor& dim, int64_t held) {
    const auto f = static_cast<size_t>(dim.factor);
    const std::string what = "dim " + std::to_string(d) + " of " + operand.text();
    if (held % dim.chunks != 0 || rule_.factors[f].extent % (held / dim.chunks) != 0)
      refuse(op_, "needs " + what + " in " + std::to_string(dim.chunks) + " chunks of factor " +
                      rule_.factors[f].name + ", and it lies in " + std::to_string(held));
    const int64_t chunks = held / dim.chunks;
    if (chunks_[f] != 0 && chunks_[f] != chunks)
      refuse(op_, "has its factor " + rule_.factors[f].name + " in " + std::to_string(chunks_[f]) +
                      " chunks by one operand and in " + std::to_string(chunks) + " by " +
                      operand.text());
    chunks_[f] = chunks;
  }

  /// A dim holds the windows of its factor, and behind them the one that the rule has there.
  void take_windows(const Operand& operand, size_t d, const DimFactor& dim,
                    std::vector<Window> held) {
    const Factor& f = rule_.factors[dim.factor];
    const std::string what = "dim " + std::to_string(d) + " of " + operand.text();
    if (dim.window && !dim.window->is_identity()) {
      if (held.empty() || held.back() != *dim.window)
        refuse(op_, "needs of " + what + " the window " + to_text(*dim.window) +
                        " of its part of factor " + f.name + ", and it holds " +
                        (held.empty() ? "a plain part" : "the window " + to_text(held.back())));
      held.pop_back();
    }
    if (!held.empty() && f.kind != FactorKind::kParallel)
      refuse(op_,
             "reduces over factor " + f.name + ", of which " + what + " holds parts that overlap");
    auto& known = windows_[dim.factor];
    if (known && *known != held)
      refuse(op_, "has its factor " + f.name + " in one window by one operand and in another by " +
                      operand.text());
    known = std::move(held);
  }

  void use(int axis) {
    if (used_[axis]) refuse(op_, "uses axis " + axes_text(mesh_, {axis}) + " twice");
    used_[axis] = true;
  }

  const OpView& op_;
  const ShardingRule& rule_;
  const Mesh& mesh_;
  std::vector<std::optional<std::vector<int>>>
      taken_;  // by factor: its axes, once an operand says so
  std::vector<std::optional<std::vector<Window>>> windows_;  // by factor, likewise
  std::vector<int64_t> chunks_;                              // by factor, likewise; 0: not known
  std::vector<bool> used_;                                   // by axis
  OpSharding sharding_;
};

bool is_among(const std::vector<int>& list, int index) {
  return std::find(list.begin(), list.end(), index) != list.end();
}

/// Index by index, where the split goes by the ends.
Range indices_seen(const Window& window, const Range& part) {
  const auto first_at = [&](int64_t o) {
    return static_cast<int64_t>(std::ceil(static_cast<double>(window.num * o + window.before) /
                                          static_cast<double>(window.den)));
  };
  const auto last_at = [&](int64_t o) {
    return static_cast<int64_t>(std::floor(static_cast<double>(window.num * o + window.after) /
                                           static_cast<double>(window.den)));
  };
  int64_t first = first_at(part.begin), last = first - 1;
  for (int64_t o = part.begin; o < part.end; ++o) {
    first = std::min(first, first_at(o));
    last = std::max(last, last_at(o));
  }
  const int64_t begin = std::min(std::max<int64_t>(first, 0), window.to);
  return {begin, std::max(begin, std::min(last + 1, window.to))};
}

}  // namespace

OpSharding derive_sharding(const OpView& op, const ShardingRule& rule,
                           const std::vector<const DistAttr*>& inputs,
                           const std::vector<DistAttr>& outputs) {
  ensure(!outputs.empty() && rule.inputs.size() == inputs.size() &&
             rule.outputs.size() == outputs.size(),
         "a rule is of all operands");
  Derivation derivation(op, rule, outputs.front().mesh);
  for (const bool several : {false, true}) {
    for (size_t i = 0; i < inputs.size(); ++i)
      derivation.take_dims({"input", i}, *inputs[i], rule.inputs[i], several);
    for (size_t i = 0; i < outputs.size(); ++i)
      derivation.take_dims({"output", i}, outputs[i], rule.outputs[i], several);
  }
  derivation.use_axes_once();
  for (int axis = 0; axis < outputs.front().mesh->axis_count(); ++axis)
    derivation.take_addends(axis, inputs);
  return derivation.result();
}

std::vector<PartialAxis> derive_partial(const OpView& op, const ShardingRule& rule,
                                        const OpSharding& sharding, int index) {
  std::vector<PartialAxis> partial;
  for (size_t f = 0; f < rule.factors.size(); ++f) {
    const Factor& factor = rule.factors[f];
    if (factor.kind != FactorKind::kReduction && factor.kind != FactorKind::kMaskedReduction)
      continue;
    if (has_factor(rule.outputs[index], static_cast<int>(f)) || is_among(factor.made_whole, index))
      continue;
    for (int axis : sharding.factor_axes[f]) partial.push_back({axis, factor.reduce});
  }
  for (const LinearAxis& linear : sharding.linear) partial.push_back({linear.axis, ReduceOp::kSum});
  std::sort(partial.begin(), partial.end(),
            [](const PartialAxis& a, const PartialAxis& b) { return a.axis < b.axis; });
  for (const PartialAxis& p : partial)
    if (p.reduce != partial.front().reduce)
      refuse(op,
             "makes addends of two reductions at once: " + partial_text(*sharding.mesh, partial));
  return partial;
}

std::vector<Range> derive_indices(const DimFactor& dim, int64_t extent, const OpSharding& sharding,
                                  const Coordinate& coordinate) {
  const auto f = static_cast<size_t>(dim.factor);
  const std::span<const Window> windows = sharding.windows_of(f);
  const int64_t chunk = extent / sharding.chunks_of(f);
  Range part{0, windows.empty() ? chunk : windows.front().from};
  for (int axis : sharding.factor_axes[f]) {
    const Range inner = balanced_part(part.size(), sharding.mesh->shape()[axis], coordinate[axis]);
    part = {part.begin + inner.begin, part.begin + inner.end};
  }
  for (const Window& window : windows) part = indices_seen(window, part);
  if (dim.window) return {indices_seen(*dim.window, part)};
  // Each chunk of the dim has all of the factor, which has chunks of its own.
  std::vector<Range> parts;
  for (int64_t i = 0; i < dim.chunks; ++i)
    for (int64_t begin = 0; begin < extent; begin += chunk)
      parts.push_back({(i * extent + begin + part.begin) * dim.unit,
                       (i * extent + begin + part.end) * dim.unit});
  return parts;
}

std::string axes_text(const Mesh& mesh, const std::vector<int>& axes) {
  std::vector<std::string> names;
  for (int axis : axes) names.push_back(mesh.axes()[axis]);
  return names.empty() ? "no axis" : join(names, ", ");
}

std::string partial_text(const Mesh& mesh, const std::vector<PartialAxis>& partial) {
  std::vector<std::string> texts;
  for (const PartialAxis& p : partial)
    texts.push_back(std::string(to_text(p.reduce)) + " over " + axes_text(mesh, {p.axis}));
  return texts.empty() ? "nothing" : join(texts, ", ");
}

}  // namespace tessera
