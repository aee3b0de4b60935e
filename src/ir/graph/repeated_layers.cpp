#include "ir/graph/repeated_layers.h"

#include <algorithm>
#include <map>
#include <queue>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "base/text/text.h"
#include "ir/graph/classes.h"

namespace tessera {
namespace {

constexpr int kMaxPeriods = 64;
/// A smaller block is a layer only when it is all of a scope: two equal ops that follow each other
/// are none.
constexpr int kFewestOps = 3;

/// The scopes around a name: "blocks.0.attn.q" is in {"blocks", "0", "attn"}.
std::vector<std::string> scopes_of(std::string_view name) {
  std::vector<std::string> parts = split_text(name, '.');
  parts.pop_back();
  return parts;
}

int common_count(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  const auto [end, other] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  return static_cast<int>(end - a.begin());
}

/// Positions [begin, end) of the list of forward ops, in which the ops at i and i + period are
/// alike.
struct Run {
  int begin = 0;
  int end = 0;
  int period = 1;

  int size() const { return end - begin; }
  int covered() const { return size() / period * period; }
  bool repeats() const { return size() >= 2 * period; }
};
/// The run that covers most; of these, the one with most repetitions; then the first.
struct CoversLess {
  bool operator()(const Run& a, const Run& b) const {
    return std::tuple(a.covered(), -a.period, -a.begin) <
           std::tuple(b.covered(), -b.period, -b.begin);
  }
};

class LayerFinder {
 public:
  explicit LayerFinder(const Graph& graph) : graph_(graph) {
    for (int i = 0; i < std::ssize(graph.ops()); ++i) {
      if (graph.op({i}).role != Role::kForward) continue;
      forward_.push_back({i});
      scopes_.push_back(scopes_of(graph.op({i}).name));
    }
    is_taken_.assign(forward_.size(), false);
    layers_.of_op.resize(graph.ops().size());
    layers_.of_value.resize(graph.values().size());
  }

  RepeatedLayers run() {
    const Classes alike = classes_of(graph_, 0);
    for (OpId op : forward_) kinds_.push_back(alike.at(op));
    std::priority_queue<Run, std::vector<Run>, CoversLess> runs;
    for (int period : likely_periods())
      for (const Run& run : runs_of(period)) runs.push(run);
    while (!runs.empty()) {
      const Run run = runs.top();
      runs.pop();
      const std::vector<Run> free = free_parts(run);
      if (free.size() == 1 && free.front().size() == run.size())
        take(run);
      else
        for (const Run& part : free)
          if (part.repeats()) runs.push(part);
    }
    sort_groups();
    place_ops_and_values();
    return std::move(layers_);
  }

 private:
  int count() const { return static_cast<int>(forward_.size()); }
  const Op& op_at(int position) const { return graph_.op(forward_[position]); }

  /// The distances at which identical ops follow each other most often. The ops of a layer that
  /// look alike from nearby are told apart by their neighbours.
  std::vector<int> likely_periods() const {
    std::map<int, int> votes;
    for (int depth : {0, kClassDepth}) {
      const Classes classes = classes_of(graph_, depth);
      std::vector<int> last(classes.ops.size(), -1);
      for (int i = 0; i < count(); ++i) {
        int& before = last[classes.at(forward_[i]).value()];
        if (before >= 0) ++votes[i - before];
        before = i;
      }
    }
    std::vector<std::pair<int, int>> ranked;
    for (const auto& [period, vote] : votes) ranked.emplace_back(-vote, period);
    std::sort(ranked.begin(), ranked.end());
    if (std::ssize(ranked) > kMaxPeriods) ranked.resize(kMaxPeriods);
    std::vector<int> periods;
    for (const auto& [vote, period] : ranked) periods.push_back(period);
    return periods;
  }

  std::vector<Run> runs_of(int period) const {
    std::vector<Run> runs;
    int begin = 0;
    for (int i = 0; i + period <= count(); ++i) {
      if (i + period < count() && kinds_[i] == kinds_[i + period]) continue;
      if (const Run run{begin, i + period, period}; run.repeats()) runs.push_back(run);
      begin = i + 1;
    }
    return runs;
  }

  std::vector<Run> free_parts(const Run& run) const {
    std::vector<Run> parts;
    int begin = run.begin;
    for (int i = run.begin; i <= run.end; ++i) {
      if (i < run.end && !is_taken_[i]) continue;
      if (i > begin) parts.push_back({begin, i, run.period});
      begin = i + 1;
    }
    return parts;
  }

  /// The number of scopes that have both the op before `position` and the one there.
  int scopes_across(int position) const {
    if (position == 0 || position == count()) return 0;
    return common_count(scopes_[position - 1], scopes_[position]);
  }

  /// Where the first layer begins: the borders of the layers lie in the fewest scopes there.
  int first_border(const Run& run) const {
    int best = run.begin, best_scopes = 0, best_borders = 0;
    for (int begin = run.begin; begin < run.begin + run.period; ++begin) {
      int scopes = 0, borders = 0;
      for (int i = begin; i <= run.end; i += run.period, ++borders) scopes += scopes_across(i);
      if (borders < 3) break;
      const int difference = scopes * best_borders - best_scopes * borders;
      if (best_borders != 0 && (difference > 0 || (difference == 0 && borders <= best_borders)))
        continue;
      best = begin;
      best_scopes = scopes;
      best_borders = borders;
    }
    return best;
  }

  /// Makes layers of the run, a group wherever its layers are wired alike.
  void take(const Run& run) {
    std::vector<Layer> layers;
    int end = first_border(run);
    for (int begin = end; begin + run.period <= run.end; begin += run.period) {
      if (!layers.empty() && !are_wired_alike(begin - run.period, begin, run.period))
        add_group(std::exchange(layers, {}));
      layers.push_back({{forward_.begin() + begin, forward_.begin() + begin + run.period}, ""});
      end = begin + run.period;
    }
    std::fill(is_taken_.begin() + run.begin, is_taken_.begin() + end, true);
    add_group(std::move(layers));
  }

  bool are_wired_alike(int first, int second, int size) const {
    std::unordered_map<int, int> there, back;
    const auto match = [&](ValueId a, ValueId b) {
      return there.try_emplace(a.index, b.index).first->second == b.index &&
             back.try_emplace(b.index, a.index).first->second == a.index;
    };
    const auto match_inputs = [&](ValueId a, ValueId b) {
      return is_variable(a) == is_variable(b) && match(a, b);
    };
    for (int i = 0; i < size; ++i) {
      const Op &a = op_at(first + i), &b = op_at(second + i);
      if (!std::equal(a.inputs.begin(), a.inputs.end(), b.inputs.begin(), match_inputs) ||
          !std::equal(a.outputs.begin(), a.outputs.end(), b.outputs.begin(), match))
        return false;
    }
    return true;
  }

  bool is_variable(ValueId value) const {
    return graph_.value(value).producer.index < 0 && !graph_.is_input(value);
  }

  void add_group(std::vector<Layer> layers) {
    if (layers.size() < 2) return;
    std::map<std::string, int> scopes;
    for (Layer& layer : layers) ++scopes[layer.scope = scope_of(layer)];
    const bool have_scopes = scopes.size() == layers.size();
    if (!have_scopes && std::ssize(layers.front().ops) < kFewestOps) return;
    if (!have_scopes)
      for (Layer& layer : layers) layer.scope.clear();
    layers_.groups.emplace_back(std::move(layers));
  }

  void sort_groups() {
    std::sort(layers_.groups.begin(), layers_.groups.end(), [](const auto& a, const auto& b) {
      return a.front().ops.front() < b.front().ops.front();
    });
  }

  std::string scope_of(const Layer& layer) const {
    std::vector<std::string> common = scopes_of(graph_.op(layer.ops.front()).name);
    for (OpId op : layer.ops) common.resize(common_count(common, scopes_of(graph_.op(op).name)));
    return join(common, ".");
  }

  void place_ops_and_values() {
    for (LayerGroupIndex group : layers_.groups.indices())
      for (LayerIndex layer : layers_.groups[group].indices())
        for (OpId op : layers_.groups[group][layer].ops) layers_.of_op[op.index] = {group, layer};
    for (const Variable& variable : graph_.variables()) place_by_users(variable.value);
    for (const Variable& variable : graph_.variables())
      if (const auto parameter = graph_.find_value(variable.origin.source))
        layers_.of_value[variable.value.index] = layers_.at(*parameter);
    for (int i = 0; i < std::ssize(graph_.ops()); ++i) {
      const Op& op = graph_.op({i});
      if (op.role != Role::kForward) layers_.of_op[i] = place_of_source(op.origin.source);
      for (ValueId output : op.outputs) layers_.of_value[output.index] = layers_.of_op[i];
    }
  }

  void place_by_users(ValueId value) {
    std::optional<LayerPlace> place;
    for (OpId user : graph_.value(value).users) {
      if (graph_.op(user).role != Role::kForward) continue;
      if (place && !(*place == layers_.at(user))) return;
      place = layers_.at(user);
    }
    layers_.of_value[value.index] = place.value_or(LayerPlace{});
  }

  LayerPlace place_of_source(const std::string& source) const {
    if (const auto op = graph_.find_op(source)) return layers_.at(*op);
    if (const auto value = graph_.find_value(source)) return layers_.at(*value);
    return {};
  }

  const Graph& graph_;
  std::vector<OpId> forward_;
  std::vector<std::vector<std::string>> scopes_;  // of each forward op
  std::vector<OpClass> kinds_;                    // of each forward op, without neighbours
  std::vector<bool> is_taken_;                    // by forward op: is it in a layer?
  RepeatedLayers layers_;
};

}  // namespace

RepeatedLayers find_repeated_layers(const Graph& graph) {
  return LayerFinder(graph).run();
}

}  // namespace tessera
