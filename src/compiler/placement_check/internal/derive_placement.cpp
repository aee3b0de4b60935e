#include "compiler/placement_check/internal/derive_placement.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/text/text.h"
#include "compiler/placement_check/internal/refuse.h"
#include "compiler/placement_check/internal/texts.h"

namespace tessera {
namespace {

[[noreturn]] void refuse_op(const OpView& op, const std::string& what) {
  tessera::refuse("op '" + std::string(op.name) + "' " + what);
}

/// The position of an operand, for messages: "input 0" or "output 1".
struct Operand {
  const char* side;
  size_t index;
  std::string text() const { return std::string(side) + " " + std::to_string(index); }
};

/// Collects what the operands of one op say about the division of its factors.
class Derivation {
 public:
  Derivation(const OpView& op, const ShardingRule& rule, const MeshPtr& mesh)
      : op_(op),
        rule_(rule),
        mesh_(*mesh),
        axes_(rule.factors.size()),
        windows_(rule.factors.size()),
        chunks_(rule.factors.size()),
        used_(mesh->axis_count(), false) {
    sharding_ = OpSharding::replicated(mesh, rule);
  }

  /// Reads the dims of an operand that have one factor, or those that have several. Dims with one
  /// factor come first: they decide which factor of a dim with several is divided.
  void read_dims(const Operand& operand, const DistAttr& attr, const OperandFactors& factors,
                 bool several) {
    if (attr.dims.size() != factors.size())
      refuse_op(op_, "has a rule for another number of dims of " + operand.text());
    for (size_t d = 0; d < factors.size(); ++d) {
      const DimSharding& held = attr.dims[d];
      if (factors[d].others.empty() == several) continue;
      if (factors[d].factor < 0 && !held.axes.empty())
        refuse_op(op_, "needs dim " + std::to_string(d) + " of " + operand.text() +
                           " whole, and it is divided over " + axes_text(mesh_, held.axes));
      const int divided = held.axes.empty() ? -1 : factor_of(operand, d, factors[d], held);
      for_each_choice(factors[d], [&](const DimFactor& dim) {
        read_factor(operand, dim.factor, dim.factor == divided ? held.axes : std::vector<int>());
        if (dim.factor != divided) return;
        read_chunks(operand, d, dim, held.chunks);
        read_windows(operand, d, dim, held.windows);
      });
    }
  }

  /// Divides the factors as the dims say.
  void divide_factors() {
    for (size_t f = 0; f < axes_.size(); ++f) {
      if (!axes_[f]) continue;
      for (int axis : *axes_[f]) use(axis);
      sharding_.factor_axes[f] = *axes_[f];
      if (windows_[f]) sharding_.set_windows(rule_, f, *windows_[f]);
      if (chunks_[f] > 1) sharding_.set_chunks(rule_, f, chunks_[f]);
    }
  }

  /// Passes partial values over `axis` through the op. The op must be linear in exactly the
  /// operands that are partial.
  void pass_partial_values(int axis, const std::vector<const DistAttr*>& inputs) {
    const std::vector<int> partial = partial_inputs(axis, inputs);
    if (partial.empty()) return;
    for (int set = 0; set < std::ssize(rule_.linear); ++set) {
      std::vector<int> members = rule_.linear[set];
      std::sort(members.begin(), members.end());
      if (members != partial) continue;
      use(axis);
      sharding_.linear.push_back({axis, set});
      return;
    }
    std::vector<std::string> names;
    for (int i : partial) names.push_back(std::to_string(i));
    refuse_op(op_, "takes partial values over " + axes_text(mesh_, {axis}) + " as input " +
                       join(names, ", ") + " and is not linear in exactly " +
                       (names.size() == 1 ? "that" : "those"));
  }

  /// Zeros are made as the partial sums that they are declared to be: their op has a linear set of
  /// no operand.
  void make_partial_zeros(const std::vector<PartialAxis>& declared) {
    const auto none = std::ranges::find(rule_.linear, std::vector<int>());
    if (none == rule_.linear.end()) return;
    for (const PartialAxis& partial : declared) {
      if (partial.reduce != ReduceOp::kSum) continue;
      use(partial.axis);
      sharding_.linear.push_back({partial.axis, static_cast<int>(none - rule_.linear.begin())});
    }
  }

  OpSharding result() { return std::move(sharding_); }

 private:
  /// The inputs that are partial on `axis`, ascending; all of them are sums.
  std::vector<int> partial_inputs(int axis, const std::vector<const DistAttr*>& inputs) const {
    std::vector<int> partial;
    for (int i = 0; i < std::ssize(inputs); ++i) {
      for (const PartialAxis& p : inputs[i]->partial) {
        if (p.axis != axis) continue;
        if (p.reduce != ReduceOp::kSum)
          refuse_op(op_, "takes input " + std::to_string(i) + " before its " +
                             partial_text(mesh_, {p}) + " is taken");
        partial.push_back(i);
      }
    }
    return partial;
  }

  void read_factor(const Operand& operand, int factor, const std::vector<int>& axes) {
    const Factor& f = rule_.factors[factor];
    if (f.kind == FactorKind::kWhole && !axes.empty())
      refuse_op(op_, "needs its factor " + f.name + " whole, and " + operand.text() +
                         " divides it over " + axes_text(mesh_, axes));
    if (axes_[factor] && *axes_[factor] != axes)
      refuse_op(op_, "has its factor " + f.name + " divided over " +
                         axes_text(mesh_, *axes_[factor]) + " by one operand and over " +
                         axes_text(mesh_, axes) + " by " + operand.text());
    axes_[factor] = axes;
  }

  /// The factor to which the division of a dim belongs: one that is known to have these axes, else
  /// one whose windows and chunks are exactly those of the dim, else the first that allows them.
  int factor_of(const Operand& operand, size_t d, const DimFactor& dim,
                const DimSharding& held) const {
    if (dim.factor >= 0 && dim.others.empty()) return dim.factor;
    const std::vector<DimFactor> choices = choices_of(dim);
    const auto allows_it = [&](const DimFactor& choice) {
      if (choice.window)
        return held.chunks == 1 && !held.windows.empty() && held.windows.back() == *choice.window;
      return held.chunks % choice.chunks == 0 &&
             rule_.factors[choice.factor].extent % (held.chunks / choice.chunks) == 0;
    };
    const auto is_exactly_it = [&](const DimFactor& choice) {
      return held.chunks == choice.chunks &&
             held.windows == (choice.window ? std::vector{*choice.window} : std::vector<Window>());
    };
    const auto known = [&](const DimFactor& choice) { return axes_[choice.factor]; };
    for (const DimFactor& choice : choices)
      if (known(choice) == held.axes && allows_it(choice)) return choice.factor;
    for (const DimFactor& choice : choices)
      if (!known(choice) && is_exactly_it(choice)) return choice.factor;
    for (const DimFactor& choice : choices)
      if (!known(choice) && allows_it(choice)) return choice.factor;
    refuse_op(op_, "has dim " + std::to_string(d) + " of " + operand.text() + " divided over " +
                       axes_text(mesh_, held.axes) + " as none of its factors is");
  }

  /// A dim has the chunks of its factor, times the chunks that the rule has for the dim.
  void read_chunks(const Operand& operand, size_t d, const DimFactor& dim, int64_t held) {
    const int f = dim.factor;
    if (held % dim.chunks != 0 || rule_.factors[f].extent % (held / dim.chunks) != 0)
      refuse_op(op_, "needs dim " + std::to_string(d) + " of " + operand.text() + " in " +
                         std::to_string(dim.chunks) + " chunks of factor " + rule_.factors[f].name +
                         ", and it has " + std::to_string(held));
    const int64_t chunks = held / dim.chunks;
    if (chunks_[f] != 0 && chunks_[f] != chunks)
      refuse_op(op_, "has its factor " + rule_.factors[f].name + " in " +
                         std::to_string(chunks_[f]) + " chunks by one operand and in " +
                         std::to_string(chunks) + " by " + operand.text());
    chunks_[f] = chunks;
  }

  /// A dim has the windows of its factor, and after them the one that the rule has for the dim.
  void read_windows(const Operand& operand, size_t d, const DimFactor& dim,
                    std::vector<Window> held) {
    const Factor& f = rule_.factors[dim.factor];
    const auto what = [&] { return "dim " + std::to_string(d) + " of " + operand.text(); };
    if (dim.window && !dim.window->is_identity()) {
      if (held.empty() || held.back() != *dim.window)
        refuse_op(op_, "needs of " + what() + " the window " + to_text(*dim.window) +
                           " of its part of factor " + f.name + ", and it holds " +
                           (held.empty() ? "a plain part" : "the window " + to_text(held.back())));
      held.pop_back();
    }
    if (!held.empty() && f.kind != FactorKind::kParallel)
      refuse_op(op_, "reduces over factor " + f.name + ", of which " + what() +
                         " holds parts that overlap");
    auto& known = windows_[dim.factor];
    if (known && *known != held)
      refuse_op(op_, "has its factor " + f.name +
                         " in one window by one operand and in another by " + operand.text());
    known = std::move(held);
  }

  void use(int axis) {
    if (used_[axis]) refuse_op(op_, "uses axis " + axes_text(mesh_, {axis}) + " twice");
    used_[axis] = true;
  }

  const OpView& op_;
  const ShardingRule& rule_;
  const Mesh& mesh_;
  // By factor; none, and 0 chunks, until an operand determines it.
  std::vector<std::optional<std::vector<int>>> axes_;
  std::vector<std::optional<std::vector<Window>>> windows_;
  std::vector<int64_t> chunks_;
  std::vector<bool> used_;  // by axis
  OpSharding sharding_;
};

bool is_among(const std::vector<int>& list, int index) {
  return std::find(list.begin(), list.end(), index) != list.end();
}

/// a / b, rounded down.
///   requires  b >= 1
int64_t quotient_below(int64_t a, int64_t b) {
  return a / b - (a % b < 0 ? 1 : 0);
}

/// The indices that a window relates to `part`, one index of the part after the other.
Range indices_seen(const Window& window, const Range& part) {
  const auto first_at = [&](int64_t o) {
    return -quotient_below(-(window.num * o + window.before), window.den);
  };
  const auto last_at = [&](int64_t o) {
    return quotient_below(window.num * o + window.after, window.den);
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
                           const std::vector<DistAttr>& outputs,
                           const std::vector<PartialAxis>& declared_partial) {
  ensure(!outputs.empty() && rule.inputs.size() == inputs.size() &&
             rule.outputs.size() == outputs.size(),
         "a sharding rule names all operands");
  Derivation derivation(op, rule, outputs.front().mesh);
  for (const bool several : {false, true}) {
    for (size_t i = 0; i < inputs.size(); ++i)
      derivation.read_dims({"input", i}, *inputs[i], rule.inputs[i], several);
    for (size_t i = 0; i < outputs.size(); ++i)
      derivation.read_dims({"output", i}, outputs[i], rule.outputs[i], several);
  }
  derivation.divide_factors();
  for (int axis = 0; axis < outputs.front().mesh->axis_count(); ++axis)
    derivation.pass_partial_values(axis, inputs);
  derivation.make_partial_zeros(declared_partial);
  return derivation.result();
}

std::vector<PartialAxis> derive_partial(const OpView& op, const ShardingRule& rule,
                                        const OpSharding& sharding, int index) {
  std::vector<PartialAxis> partial;
  for (int f = 0; f < std::ssize(rule.factors); ++f) {
    const Factor& factor = rule.factors[f];
    if (factor.kind != FactorKind::kReduction && factor.kind != FactorKind::kMaskedReduction)
      continue;
    if (has_factor(rule.outputs[index], f) || is_among(factor.made_whole, index)) continue;
    for (int axis : sharding.factor_axes[f]) partial.push_back({axis, factor.reduce});
  }
  for (const LinearAxis& linear : sharding.linear) partial.push_back({linear.axis, ReduceOp::kSum});
  std::sort(partial.begin(), partial.end(),
            [](const PartialAxis& a, const PartialAxis& b) { return a.axis < b.axis; });
  for (const PartialAxis& p : partial)
    if (p.reduce != partial.front().reduce)
      refuse_op(op, "makes partial values of two reductions at once: " +
                        partial_text(*sharding.mesh, partial));
  return partial;
}

std::vector<Range> derive_indices(const DimFactor& dim, int64_t extent, const OpSharding& sharding,
                                  const Coordinate& coordinate) {
  const int f = dim.factor;
  const std::span<const Window> windows = sharding.windows_of(f);
  const int64_t chunk = extent / sharding.chunks_of(f);
  Range part{0, windows.empty() ? chunk : windows.front().from};
  for (int axis : sharding.factor_axes[f]) {
    const Range inner = sharding.mesh->axis_part(axis).part(part.size(), coordinate[axis]);
    part = {part.begin + inner.begin, part.begin + inner.end};
  }
  for (const Window& window : windows) part = indices_seen(window, part);
  if (dim.window) return {indices_seen(*dim.window, part)};
  // Each chunk of the dim contains all of the factor, which has chunks of its own.
  std::vector<Range> parts;
  for (int64_t i = 0; i < dim.chunks; ++i)
    for (int64_t begin = 0; begin < extent; begin += chunk)
      parts.push_back({(i * extent + begin + part.begin) * dim.unit,
                       (i * extent + begin + part.end) * dim.unit});
  return parts;
}

}  // namespace tessera
