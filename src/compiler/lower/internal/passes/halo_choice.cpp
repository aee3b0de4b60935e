#include "compiler/lower/internal/passes/halo_choice.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "ir/ops/operator_set.h"
#include "kernels/bind.h"
#include "sharding/propagation/named.h"

namespace tessera {
namespace {

constexpr int kMaxLayers = 64;  // of a chain

/// What a reader wants of a value.
struct Need {
  DistAttr attr;
  OpId reader;
};

/// An op that was widened, and how it was divided before.
struct Widened {
  OpId op;
  OpSharding before;
  std::vector<ValueId> lacking;  // operands that it now has to get from others
};

/// What a chain has come to.
struct ConvolutionChain {
  std::vector<Widened> ops;
  double saved = 0;       // seconds; negative: lost
  double at_stake = 0;    // of all exchanges that it has met
  double extra_work = 0;  // of ops, in seconds
};

bool is_local(const Shape& shape, const DistAttr& made, const DistAttr& needed) {
  const ReshardKind kind = classify(shape, made, needed);
  return kind == ReshardKind::kNone ||
         (kind == ReshardKind::kSlice && needed.partial == made.partial);
}

/// May the factor be divided by windows, wherever it occurs?
bool may_have_windows(const ShardingRule& rule, size_t factor) {
  if (rule.factors[factor].kind != FactorKind::kParallel) return false;
  for (const auto* operands : {&rule.inputs, &rule.outputs})
    for (const OperandFactors& operand : *operands)
      for (const DimFactor& dim : operand)
        if (const DimFactor* found = find_factor(dim, static_cast<int>(factor));
            found && (found->unit != 1 || found->chunks != 1 || !dim.others.empty()))
          return false;
  return true;
}

/// Can the op, divided so, read windows of its inputs? The window of a dim comes from the rule or
/// from its factor.
bool may_read_windows(const ShardingRule& rule, const OpSharding& sharding) {
  const auto is_windowed = [](const DimFactor& dim) {
    return dim.window.has_value() ||
           std::any_of(dim.others.begin(), dim.others.end(),
                       [](const DimFactor& other) { return other.window.has_value(); });
  };
  return !sharding.factor_windows.empty() ||
         std::any_of(rule.inputs.begin(), rule.inputs.end(), [&](const OperandFactors& input) {
           return std::any_of(input.begin(), input.end(), is_windowed);
         });
}

bool any_may_read_windows(const ShardedGraph& sharded) {
  for (size_t op = 0; op < sharded.ops.size(); ++op)
    if (may_read_windows(sharded.rules[op], sharded.ops[op])) return true;
  return false;
}

bool is_in_time(const DistAttr& attr, const std::vector<int>& axes) {
  return std::any_of(axes.begin(), axes.end(),
                     [&](int axis) { return attr.mesh->axes()[axis] == kMicroBatchAxis; });
}

bool is_added_in_time(const DistAttr& attr) {
  return std::any_of(attr.partial.begin(), attr.partial.end(),
                     [&](const PartialAxis& p) { return is_in_time(attr, {p.axis}); });
}

class HaloChoice {
 public:
  HaloChoice(const Graph& graph, ShardedGraph sharded, const std::vector<Mark>& marks,
             const HaloOptions& options)
      : graph_(graph),
        sharded_(std::move(sharded)),
        options_(options),
        is_kept_(graph.ops().size(), false) {
    for (const Op& op : graph.ops()) views_.push_back(view(graph, op));
    for (int i = 0; i < static_cast<int>(is_kept_.size()); ++i)
      is_kept_[i] = has_reason_to_stay({i});
    for (const Mark& mark : marks)
      if (!mark.placement.empty()) keep_marked(mark);
    for (const auto& [name, value] : graph.outputs()) keep(value);
    for (const Variable& variable : graph.variables())
      if (variable.next) keep(*variable.next);
  }

  ShardedGraph run() {
    for (int i = static_cast<int>(graph_.ops().size()) - 1; i >= 0; --i)
      for (ValueId value : graph_.op({i}).outputs)
        if (has_halo(value)) choose(value);
    return std::move(sharded_);
  }

 private:
  // ---- what stays as it is ----

  bool has_reason_to_stay(OpId id) const {
    const Op& op = graph_.op(id);
    return !op.regions.empty() || !view_of(id).definition->kernel || op.kind == "random_uniform";
  }

  void keep_marked(const Mark& mark) {
    if (mark.kind == Mark::Kind::kTensor)
      for (ValueId value : values_named(graph_, mark.pattern)) keep(value);
    else
      for (OpId op : ops_named_by(graph_, mark)) is_kept_[op.index] = true;
  }

  void keep(ValueId value) {
    if (const OpId producer = graph_.value(value).producer; producer.index >= 0)
      is_kept_[producer.index] = true;
  }

  // ---- placements ----

  const OpView& view_of(OpId op) const { return views_[op.index]; }
  const ShardingRule& rule_of(OpId op) const { return sharded_.rules[op.index]; }
  DistAttr input_of(OpId op, int index) const {
    return input_attr(view_of(op), rule_of(op), sharded_.at(op), index);
  }

  /// As it is made; inputs and variables have their canonical placement.
  DistAttr made(ValueId value) const {
    const OpId producer = graph_.value(value).producer;
    if (producer.index < 0) return sharded_.at(value);
    const auto& outputs = graph_.op(producer).outputs;
    const auto index = std::find(outputs.begin(), outputs.end(), value) - outputs.begin();
    return output_attr(view_of(producer), rule_of(producer), sharded_.at(producer),
                       static_cast<int>(index));
  }

  /// By the readers in program order, each different one once.
  std::vector<Need> needs(ValueId value) const {
    std::vector<Need> list;
    OpId last;
    for (OpId reader : graph_.value(value).users) {
      if (reader == last) continue;
      last = reader;
      const auto& inputs = graph_.op(reader).inputs;
      for (size_t i = 0; i < inputs.size(); ++i) {
        if (inputs[i] != value) continue;
        Need need{input_of(reader, static_cast<int>(i)), reader};
        if (std::none_of(list.begin(), list.end(),
                         [&](const Need& other) { return is_same(other.attr, need.attr); }))
          list.push_back(std::move(need));
      }
    }
    return list;
  }

  static bool is_same(const DistAttr& a, const DistAttr& b) { return a.mesh == b.mesh && a == b; }

  /// The first reader that needs a window of which others hold a part.
  std::optional<Need> halo_of(ValueId value) const {
    const DistAttr lies = made(value);
    for (Need& need : needs(value))
      if (need.attr.has_windows() && need.attr.mesh == lies.mesh &&
          !is_local(graph_.type(value).shape, lies, need.attr))
        return std::move(need);
    return std::nullopt;
  }
  bool has_halo(ValueId value) const { return halo_of(value).has_value(); }

  bool is_enough_for_all(ValueId value) const {
    const DistAttr lies = made(value);
    const std::vector<Need> list = needs(value);
    return std::all_of(list.begin(), list.end(), [&](const Need& need) {
      return need.attr.mesh == lies.mesh && is_local(graph_.type(value).shape, lies, need.attr);
    });
  }

  // ---- widening ----

  /// The division under which `op`, divided as it is except for windows, makes `target`; none when
  /// there is no such.
  std::optional<OpSharding> that_makes(OpId op, int output, const DistAttr& target) const {
    const ShardingRule& rule = rule_of(op);
    OpSharding sharding = sharded_.at(op);
    const DistAttr plain = output_attr(view_of(op), rule, sharding, output);
    if (plain.mesh != target.mesh || !plain.partial.empty() || !target.partial.empty())
      return std::nullopt;
    for (size_t d = 0; d < target.dims.size(); ++d) {
      const DimSharding& wanted = target.dims[d];
      const DimFactor& dim = rule.outputs[output][d];
      if (wanted == plain.dims[d]) continue;
      if (dim.factor < 0 || wanted.windows.empty() || wanted.axes.empty() ||
          is_in_time(target, wanted.axes))
        return std::nullopt;
      const auto f = static_cast<size_t>(dim.factor);
      if (sharding.factor_axes[f] != wanted.axes || !sharding.windows_of(f).empty() ||
          sharding.chunks_of(f) != 1 || !may_have_windows(rule, f) ||
          wanted.windows.back().to != rule.factors[f].extent)
        return std::nullopt;
      sharding.set_windows(rule, f, wanted.windows);
    }
    if (!(output_attr(view_of(op), rule, sharding, output) == target)) return std::nullopt;
    return sharding;
  }

  /// Divides the producer of `value` by the windows of a reader, so that all readers of all its
  /// results have what they need.
  std::optional<Widened> widen(ValueId value) {
    const OpId op = graph_.value(value).producer;
    if (op.index < 0 || is_kept_[op.index]) return std::nullopt;
    const auto& outputs = graph_.op(op).outputs;
    const auto output =
        static_cast<int>(std::find(outputs.begin(), outputs.end(), value) - outputs.begin());
    OpSharding& sharding = sharded_.ops[op.index];
    const OpSharding before = sharding;
    for (const Need& need : needs(value)) {
      if (!need.attr.has_windows()) continue;
      std::optional<OpSharding> wide = that_makes(op, output, need.attr);
      if (!wide) continue;
      sharding = std::move(*wide);
      if (std::all_of(outputs.begin(), outputs.end(),
                      [&](ValueId made) { return is_enough_for_all(made); }))
        return Widened{op, before, lacking_operands(op)};
      sharding = before;
    }
    return std::nullopt;
  }

  std::vector<ValueId> lacking_operands(OpId op) const {
    std::vector<ValueId> lacking;
    const auto& inputs = graph_.op(op).inputs;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const DistAttr needed = input_of(op, static_cast<int>(i));
      if (needed.has_windows() &&
          !is_local(graph_.type(inputs[i]).shape, made(inputs[i]), needed) &&
          std::find(lacking.begin(), lacking.end(), inputs[i]) == lacking.end())
        lacking.push_back(inputs[i]);
    }
    return lacking;
  }

  // ---- prices, in seconds ----

  double exchange_time(const TensorType& type, const DistAttr& from, const DistAttr& to) {
    // Partial values of micro-batches are accumulated as they are computed, and a mark makes a
    // tensor partial without an exchange: neither is priced here.
    if (is_added_in_time(from) || is_added_in_time(to) ||
        (from.partial.empty() && !to.partial.empty()))
      return 0;
    const auto key =
        std::tuple{from.mesh.get(), to.mesh.get(), to_text(type, from) + " -> " + to_text(to)};
    if (const auto known = exchange_times_.find(key); known != exchange_times_.end())
      return known->second;
    const CostModel& cost = options_.cost;
    Price sum;
    for (const Exchange& exchange :
         plan_reshard(type, from, to, {cost.links, options_.all_reduce})) {
      const Bytes copied = byte_size({type.dtype, exchange.to.largest_shape(type.shape)});
      sum += price(type, exchange, cost.links) + copy_price(copied, 0, cost.device);
    }
    return exchange_times_[key] = sum.estimate.value();
  }

  double exchanges_time(ValueId value) {
    const DistAttr lies = made(value);
    double seconds = 0;
    for (const Need& need : needs(value))
      if (!is_same(need.attr, lies)) seconds += exchange_time(graph_.type(value), lies, need.attr);
    return seconds;
  }

  static TensorType largest(const TensorType& type, const DistAttr& attr) {
    return {type.dtype, attr.largest_shape(type.shape)};
  }

  double work_time(OpId op) const {
    const OpView& op_view = view_of(op);
    const OpSharding& sharding = sharded_.at(op);
    std::vector<TensorType> inputs, outputs;
    for (size_t i = 0; i < op_view.inputs.size(); ++i)
      inputs.push_back(largest(op_view.inputs[i], input_of(op, static_cast<int>(i))));
    for (size_t i = 0; i < op_view.outputs.size(); ++i)
      outputs.push_back(largest(op_view.outputs[i],
                                output_attr(op_view, rule_of(op), sharding, static_cast<int>(i))));
    const KernelCall call =
        op_view.definition->kernel(op_view, factor_splits(rule_of(op), sharding));
    const LocalWork work = work_of(localize(call, sharding.mesh->largest_shard_coordinate(),
                                            std::move(inputs), std::move(outputs)),
                                   own_kernels(graph_).get());
    return compute_price(work, options_.cost.device).estimate.value();
  }

  /// Of all operands of an op, each once.
  double exchanges_around(OpId id) {
    const Op& op = graph_.op(id);
    std::vector<ValueId> operands = op.inputs;
    operands.insert(operands.end(), op.outputs.begin(), op.outputs.end());
    std::sort(operands.begin(), operands.end());
    operands.erase(std::unique(operands.begin(), operands.end()), operands.end());
    double seconds = 0;
    for (ValueId value : operands) seconds += exchanges_time(value);
    return seconds;
  }

  // ---- chains ----

  void choose(ValueId value) {
    const std::string reader = "'" + graph_.op(halo_of(value)->reader).name + "'";
    ConvolutionChain chain;
    size_t kept = 0;
    double best_variant = 0;
    std::vector<ValueId> frontier{value};
    for (int layer = 0; layer < kMaxLayers && !frontier.empty(); ++layer) {
      frontier = extend(chain, frontier);
      const bool is_best = options_.form == HaloForm::kRecompute || chain.saved > best_variant;
      if (is_best) {
        kept = chain.ops.size();
        best_variant = chain.saved;
      }
      // No exchange that was met could still pay for that.
      if (options_.form == HaloForm::kAuto && chain.extra_work > chain.at_stake) break;
    }
    for (; chain.ops.size() > kept; chain.ops.pop_back())
      sharded_.ops[chain.ops.back().op.index] = std::move(chain.ops.back().before);
    for (const Widened& widened : chain.ops)
      for (ValueId made_wide : graph_.op(widened.op).outputs)
        settle(made_wide, "its halo for op " + reader + " is computed");
    if (chain.ops.empty()) settle(value, "its halo for op " + reader + " is exchanged");
  }

  /// One layer more.  returns  what that lacks
  std::vector<ValueId> extend(ConvolutionChain& chain, const std::vector<ValueId>& frontier) {
    std::vector<ValueId> next;
    for (ValueId value : frontier) {
      const OpId op = graph_.value(value).producer;
      if (op.index < 0 || is_kept_[op.index]) continue;
      const double work = work_time(op), exchanges = exchanges_around(op);
      std::optional<Widened> widened = widen(value);
      if (!widened) continue;
      const double extra = work_time(op) - work;
      chain.saved += exchanges - exchanges_around(op) - extra;
      chain.extra_work += extra;
      chain.at_stake += exchanges;
      for (ValueId operand : widened->lacking)
        if (std::find(next.begin(), next.end(), operand) == next.end()) next.push_back(operand);
      chain.ops.push_back(std::move(*widened));
    }
    return next;
  }

  void settle(ValueId value, const std::string& text) {
    const auto i = static_cast<size_t>(value.index);
    if (const DistAttr lies = made(value); lies.has_windows()) sharded_.values[i] = lies;
    std::string& reason = sharded_.value_reasons[i];
    reason += (reason.empty() ? "" : "; ") + text;
  }

  const Graph& graph_;
  ShardedGraph sharded_;
  const HaloOptions& options_;
  std::vector<OpView> views_;
  std::vector<bool> is_kept_;  // by op
  std::map<std::tuple<const Mesh*, const Mesh*, std::string>, double> exchange_times_;
};

}  // namespace

ShardedGraph choose_halos(const Graph& graph, ShardedGraph sharded, const std::vector<Mark>& marks,
                          const HaloOptions& options) {
  if (options.form == HaloForm::kExchange || !any_may_read_windows(sharded)) return sharded;
  return HaloChoice(graph, std::move(sharded), marks, options).run();
}

}  // namespace tessera
