#include "planner/presets/stages.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/text/count_text.h"
#include "base/text/text.h"
#include "ir/graph/repeated_layers.h"
#include "ir/ops/operator.h"
#include "planner/placement/search_policy.h"

namespace tessera {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

/// A position between two ops: a cut there.
struct Position {
  int op = 0;                          // ops before it
  double work = 0;                     // of these
  double bytes = 0;                    // of the values that cross
  std::vector<ValueId> crossing = {};  // ascending
};

/// Positions with the work of everything.
struct Line {
  std::vector<Position> positions;
  double total = 0;
};

struct Cuts {
  std::vector<Position> positions;
  double busiest = kNever;
};

std::vector<OpId> forward_ops(const Graph& graph) {
  std::vector<OpId> ops;
  for (int i = 0; i < std::ssize(graph.ops()); ++i)
    if (graph.op({i}).role == Role::kForward) ops.push_back({i});
  return ops;
}

/// The position of the last forward op that reads each value, -1 when none does.
std::vector<int> last_readers(const Graph& graph, const std::vector<OpId>& ops) {
  std::vector<int> last(graph.values().size(), -1);
  for (int i = 0; i < std::ssize(ops); ++i)
    for (ValueId input : graph.op(ops[i]).inputs) last[input.index] = i;
  return last;
}

/// All positions at which the work grows: those between two ops with work.
Line line_of(const Graph& graph, const std::vector<OpId>& ops) {
  const std::vector<int> last = last_readers(graph, ops);
  Line line;
  std::vector<ValueId> live;
  for (int i = 0; i < std::ssize(ops); ++i) {
    const Op& op = graph.op(ops[i]);
    const OpView shape = view(graph, op);
    line.total += shape.definition->work(shape).flops.value();
    std::erase_if(live, [&](ValueId value) { return last[value.index] <= i; });
    for (ValueId output : op.outputs)
      if (last[output.index] > i) live.push_back(output);
    double bytes = 0;
    for (ValueId value : live) bytes += static_cast<double>(byte_size(graph.type(value)).value());
    line.positions.push_back({i + 1, line.total, bytes, live});
  }
  std::erase_if(line.positions, [&](const Position& position) {
    return position.work <= 0 || position.work >= line.total;
  });
  return line;
}

/// The positions whose crossing values include those of no position within `distance` of work.
std::vector<Position> boundaries(const std::vector<Position>& all, double distance) {
  std::map<std::vector<ValueId>, std::vector<double>> known;
  for (const Position& position : all) known[position.crossing].push_back(position.work);
  const auto is_near = [&](const std::vector<ValueId>& values, double work) {
    const auto found = known.find(values);
    return found != known.end() &&
           std::any_of(found->second.begin(), found->second.end(),
                       [&](double other) { return std::abs(other - work) <= distance; });
  };
  std::vector<Position> result;
  for (const Position& position : all) {
    const std::vector<ValueId>& values = position.crossing;
    bool includes = values.size() > kSearchPolicy.cut_subsets;
    for (unsigned set = 1; !includes && set + 1 < 1U << values.size(); ++set) {
      std::vector<ValueId> some;
      for (size_t i = 0; i < values.size(); ++i)
        if (set >> i & 1U) some.push_back(values[i]);
      includes = is_near(some, position.work);
    }
    if (!includes) result.push_back(position);
  }
  return result;
}

/// The work of each stage.
struct StageLimits {
  double smallest = 0, largest = kNever;
};

/// The `cuts` positions with the least cost, in order; nullopt when every choice is forbidden.
///   stage_cost(work, bytes)  of a stage with this work, and the bytes that leave it: at least 0,
///                            and not less for more work
///   combine                  costs of stages: a sum or a maximum
template <class StageCost, class Combine>
std::optional<Cuts> best_cuts(const Line& line, const std::vector<Position>& positions, int cuts,
                              const StageLimits& limits, const StageCost& stage_cost,
                              const Combine& combine) {
  const int count = static_cast<int>(positions.size());
  const auto work_at = [&](int i) { return i < 0 ? 0.0 : positions[i].work; };
  const auto is_allowed = [&](double work) {
    return work >= limits.smallest && work <= limits.largest;
  };
  std::vector<std::vector<double>> best(cuts + 1, std::vector<double>(count, kNever));
  std::vector<std::vector<int>> before(cuts + 1, std::vector<int>(count, -1));
  for (int i = 0; i < count; ++i)
    if (is_allowed(work_at(i))) best[1][i] = stage_cost(work_at(i), positions[i].bytes);
  for (int cut = 2; cut <= cuts; ++cut)
    for (int i = 0; i < count; ++i)
      for (int j = i - 1; j >= 0; --j) {  // stages of more and more work
        const double work = work_at(i) - work_at(j);
        if (work < limits.smallest) continue;
        const double own = stage_cost(work, positions[i].bytes);
        if (work > limits.largest || own > best[cut][i]) break;
        const double cost = combine(best[cut - 1][j], own);
        if (cost > best[cut][i] || cost == kNever) continue;
        best[cut][i] = cost;
        before[cut][i] = j;
      }
  int last = -1;
  double smallest = kNever;
  for (int i = 0; i < count; ++i) {
    const double work = line.total - work_at(i);
    const double cost = is_allowed(work) ? combine(best[cuts][i], stage_cost(work, 0)) : kNever;
    if (cost >= smallest) continue;
    smallest = cost;
    last = i;
  }
  if (last < 0) return std::nullopt;
  Cuts chosen;
  for (int cut = cuts; cut >= 1; last = before[cut--][last])
    chosen.positions.insert(chosen.positions.begin(), positions[last]);
  double begin = 0;
  chosen.busiest = 0;
  for (const Position& position : chosen.positions) {
    chosen.busiest = std::max(chosen.busiest, position.work - begin);
    begin = position.work;
  }
  chosen.busiest = std::max(chosen.busiest, line.total - begin);
  return chosen;
}

/// Is it the name of the op, or of a scope that it is in?
bool has_name(const std::string& op, const std::string& name) {
  return matches(name, op) || matches(name + ".*", op);
}

[[noreturn]] void refuse_layers(const std::string& what, const std::string& why) {
  throw UserError(what, why,
                  "write stage_layers = \"equal\", or one number for each stage, such as "
                  "stage_layers=5+6+6+5",
                  ExitCode::kBadConfig);
}

/// Where each repeated layer begins and ends, by position among the forward ops, in program order.
std::vector<std::pair<int, int>> spans_of_layers(const Graph& graph, const std::vector<OpId>& ops) {
  std::vector<int> position(graph.ops().size(), 0);
  for (int i = 0; i < std::ssize(ops); ++i) position[ops[i].index] = i;
  std::vector<std::pair<int, int>> spans;
  for (const auto& group : find_repeated_layers(graph).groups)
    for (const Layer& layer : group)
      spans.emplace_back(position[layer.ops.front().index], position[layer.ops.back().index] + 1);
  std::sort(spans.begin(), spans.end());
  return spans;
}

/// As many on each stage, and those that are left on stages in the middle.
std::vector<int64_t> equal_layers(int64_t count, int stages) {
  std::vector<int64_t> layers(stages, count / stages);
  const int64_t left = count % stages, first = (stages - left) / 2;
  for (int64_t i = 0; i < left; ++i) ++layers[first + i];
  return layers;
}

[[noreturn]] void refuse_boundary(const std::string& name, const std::string& what,
                                  const std::string& why) {
  throw UserError("the boundary '" + name + "' " + what, why,
                  "give names of ops or layers, such as blocks.0, as `tessera explain` prints them",
                  ExitCode::kBadConfig);
}

std::optional<Cuts> even_cuts(const Line& line, const std::vector<Position>& positions, int cuts) {
  const double smallest = kSearchPolicy.stage_work * line.total / (cuts + 1);
  const auto busiest = best_cuts(
      line, positions, cuts, {smallest, kNever}, [](double work, double) { return work; },
      [](double a, double b) { return std::max(a, b); });
  if (!busiest) return std::nullopt;
  return best_cuts(
      line, positions, cuts, {smallest, kSearchPolicy.cut_slack * busiest->busiest},
      [](double, double bytes) { return bytes; }, [](double a, double b) { return a + b; });
}

[[noreturn]] void refuse_stages(const Line& line, int stages) {
  int fit = stages - 1;
  while (fit > 1 && !even_cuts(line, line.positions, fit - 1)) --fit;
  throw UserError("a pipeline of " + counted(stages, "stage") + " does not fit this network",
                  "it has work for at most " + counted(fit, "stage") +
                      ": each needs an operator with at least a hundredth of an even share",
                  "choose a smaller pp, or another schedule where this one has two stages for each",
                  ExitCode::kBadConfig);
}

}  // namespace

std::vector<int> even_stages(const Graph& graph, int stages) {
  const std::vector<OpId> ops = forward_ops(graph);
  std::vector<int> result(ops.size(), 0);
  if (stages == 1) return result;
  const Line line = line_of(graph, ops);
  const auto any = even_cuts(line, line.positions, stages - 1);
  if (!any) refuse_stages(line, stages);
  const auto even = even_cuts(line, boundaries(line.positions, line.total / stages), stages - 1);
  const Cuts& cuts =
      even && even->busiest <= kSearchPolicy.cut_unevenness * any->busiest ? *even : *any;
  for (const Position& position : cuts.positions)
    for (size_t i = position.op; i < result.size(); ++i) ++result[i];
  return result;
}

std::vector<int> stages_after(const Graph& graph, const std::vector<std::string>& names) {
  const std::vector<OpId> ops = forward_ops(graph);
  std::vector<int> stages(ops.size(), 0);
  int before = 0;
  for (const std::string& name : names) {
    int after = 0;
    for (int i = 0; i < std::ssize(ops); ++i)
      if (has_name(graph.op(ops[i]).name, name)) after = i + 1;
    if (after == 0)
      refuse_boundary(name, "has no op after which a stage ends",
                      "no op of the forward has this name, or begins with it and a dot");
    if (after == std::ssize(ops))
      refuse_boundary(name, "leaves no op for the next stage",
                      "it is the name of the last op of the forward");
    if (after <= before)
      refuse_boundary(name, "does not lie after the boundary before it",
                      "boundaries are in the order in which the ops run");
    std::fill(stages.begin() + after, stages.end(), stages[after] + 1);
    before = after;
  }
  return stages;
}

namespace {

/// Where the stage ends of which the ops from `begin` on to `end` are, if casts of a precision that
/// only later ops read are of the next stage: fewer bytes cross then, and the backward casts again
/// where it reads.
int without_casts_for_others(const Graph& graph, std::span<const OpId> ops, int begin, int end) {
  const auto is_read = [&](const Op& cast) {
    return std::ranges::any_of(ops.subspan(begin, end - begin), [&](OpId op) {
      const std::vector<ValueId>& inputs = graph.op(op).inputs;
      return std::ranges::find(inputs, cast.outputs.front()) != inputs.end();
    });
  };
  while (end > begin + 1) {
    const Op& last = graph.op(ops[end - 1]);
    if (last.kind != "cast" || last.origin.derivation != "precision" || is_read(last)) break;
    --end;
  }
  return end;
}

}  // namespace

std::vector<int> stages_of_layers(const Graph& graph, std::vector<int64_t> layers, int stages) {
  const std::vector<OpId> ops = forward_ops(graph);
  const std::vector<std::pair<int, int>> repeated = spans_of_layers(graph, ops);
  const auto count = static_cast<int64_t>(repeated.size());
  if (layers.empty()) layers = equal_layers(count, stages);
  if (std::ssize(layers) != stages)
    refuse_layers("stage_layers has the layers of " + counted(std::ssize(layers), "stage"),
                  "there are " + counted(stages, "stage") + ": pp times chunks");
  if (std::accumulate(layers.begin(), layers.end(), int64_t{0}) != count)
    refuse_layers("stage_layers has " +
                      counted(std::accumulate(layers.begin(), layers.end(), int64_t{0}), "layer"),
                  "this network repeats " + counted(count, "layer"));
  std::vector<int> result(ops.size(), 0);
  int64_t done = 0;
  int before = 0;
  for (int stage = 1; stage < stages; ++stage) {
    done += layers[stage - 1];
    const int end = count == 0 ? 0 : done > 0 ? repeated[done - 1].second : repeated[0].first;
    const int begin = without_casts_for_others(graph, ops, before, end);
    if (begin <= before || begin >= std::ssize(ops))
      refuse_layers("stage_layers leaves a stage without ops",
                    "only the first and the last stage may have no layers, where they have other "
                    "ops");
    std::fill(result.begin() + begin, result.end(), stage);
    before = begin;
  }
  return result;
}

std::vector<int64_t> layers_of_stages(const Graph& graph, const std::vector<int>& stages,
                                      int count) {
  std::vector<int64_t> layers(count, 0);
  for (const auto& [begin, end] : spans_of_layers(graph, forward_ops(graph)))
    ++layers.at(stages.at(begin));
  return layers;
}

std::vector<bool> ops_named(const Graph& graph, const std::string& name, const std::string& key) {
  std::vector<bool> is_named;
  for (const OpId op : forward_ops(graph)) is_named.push_back(has_name(graph.op(op).name, name));
  if (std::ranges::count(is_named, true) == 0)
    throw UserError(key + " names '" + name + "', which no op of the forward has",
                    "no op of the forward has this name, or begins with it and a dot",
                    "give names of ops or layers, such as blocks.0, as `tessera explain` prints "
                    "them",
                    ExitCode::kBadConfig);
  return is_named;
}

std::vector<int> stage_boundaries(const Graph& graph, int stages) {
  const Line line = line_of(graph, forward_ops(graph));
  std::vector<Position> found =
      boundaries(line.positions, line.total / std::max(stages, kSearchPolicy.cut_parts));
  if (std::ssize(found) < stages - 1) found = line.positions;
  std::vector<int> ops;
  for (const Position& position : found) ops.push_back(position.op);
  return ops;
}

}  // namespace tessera
