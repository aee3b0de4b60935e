#include "compiler/rewrite/internal/recompute_blocks.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "compiler/rewrite/recompute.h"
#include "ir/graph/repeated_layers.h"

namespace tessera {
namespace {

// The strategies of a result, and those of an op of several results.
constexpr int kNotNeeded = 0, kKept = 1, kAgain = 2;
constexpr int kOpAgain = 1;

/// The sum of all costs in their unit: far above the rounding of one, far below what the solver
/// takes.
constexpr double kCostSum = 1e12;

class BlockMaker {
 public:
  BlockMaker(const Graph& graph, const RecomputeTerms& terms)
      : graph_(graph), terms_(terms), block_of_(graph.ops().size(), -1) {
    result_.fixed.assign(*std::ranges::max_element(terms.devices) + 1, 0);
    number_blocks();
    find_computed_once();
    double sum = 0;
    for (OpId op : forward_) sum += terms_.cost[op.index].value();
    result_.seconds_of_cost = sum > 0 ? sum / kCostSum : 1;
  }

  RecomputeBlocks make() {
    for (OpId op : forward_)
      for (ValueId value : graph_.op(op).outputs) place(value);
    for (OpId op : forward_) add(op);
    return std::move(result_);
  }

 private:
  int stage_of(OpId op) const { return terms_.stages[op.index]; }
  bool is_forward(OpId op) const { return graph_.op(op).role == Role::kForward; }

  /// A block is a layer in a stage, or what stands between two layers.
  void number_blocks() {
    const RepeatedLayers layers = find_repeated_layers(graph_);
    std::map<std::tuple<int, int, int>, int> numbers;
    std::set<std::pair<int, int>> seen;
    for (int i = 0; i < std::ssize(graph_.ops()); ++i) {
      if (!is_forward({i})) continue;
      forward_.push_back({i});
      const LayerPlace place = layers.at(OpId{i});
      const std::pair<int, int> layer{place.is_none() ? -1 : place.group.value(),
                                      place.is_none() ? 0 : place.layer.value()};
      if (!place.is_none()) seen.insert(layer);
      const std::tuple key{stage_of({i}), layer.first,
                           place.is_none() ? static_cast<int>(seen.size()) : layer.second};
      block_of_[i] = numbers.emplace(key, static_cast<int>(numbers.size())).first->second;
      if (block_of_[i] < std::ssize(result_.blocks)) continue;
      result_.blocks.push_back({.device = terms_.devices[stage_of({i})]});
    }
    nodes_.resize(result_.blocks.size());
  }

  /// Marks the values that are computed once, and with them their ops.
  void find_computed_once() {
    is_once_ = values_computed_once(graph_);
    may_be_again_.assign(graph_.ops().size(), false);
    for (OpId op : forward_)
      may_be_again_[op.index] = std::ranges::none_of(graph_.op(op).outputs, [&](ValueId value) {
        return is_once_[value.index] ||
               std::ranges::any_of(graph_.value(value).users, [&](OpId user) {
                 return is_forward(user) ? block_of_[user.index] != block_of_[op.index]
                                         : graph_.op(user).role != Role::kBackward;
               });
      });
  }

  /// Must the stage keep the value, whatever is computed again?
  bool is_required(ValueId value, int stage) const {
    const bool is_own_stage = stage_of(graph_.value(value).producer) == stage;
    return (is_own_stage && is_once_[value.index]) ||
           std::ranges::any_of(graph_.value(value).users, [&](OpId user) {
             const Role role = graph_.op(user).role;
             return (role == Role::kBackward && stage_of(user) == stage) ||
                    (role == Role::kOptimizer && is_own_stage);
           });
  }

  /// Decides for each stage that has the value whether it is a decision of a block.
  void place(ValueId value) {
    const OpId producer = graph_.value(value).producer;
    std::set<int> stages{stage_of(producer)};
    for (OpId user : graph_.value(value).users) stages.insert(stage_of(user));
    for (int stage : stages) {
      if (may_be_again_[producer.index] && stage == stage_of(producer)) continue;
      std::set<int> readers;  // blocks
      for (OpId user : graph_.value(value).users)
        if (is_forward(user) && stage_of(user) == stage && may_be_again_[user.index])
          readers.insert(block_of_[user.index]);
      const bool is_fixed = is_required(value, stage) || readers.size() > 1;
      if (is_fixed) result_.fixed[terms_.devices[stage]] += bytes_of(value, stage);
      if (!is_fixed && !readers.empty()) outside_.insert({value.index, *readers.begin()});
    }
  }

  int64_t bytes_of(ValueId value, int stage) const {
    return terms_.kept_bytes(value, stage).value();
  }
  solver::Cost cost_of(OpId op) const {
    return std::max<solver::Cost>(
        1, std::llround(terms_.cost[op.index].value() / result_.seconds_of_cost));
  }

  int32_t add_node(int block, RecomputeBlock::Node node) {
    result_.blocks[block].nodes.push_back(std::move(node));
    return static_cast<int32_t>(result_.blocks[block].nodes.size()) - 1;
  }

  /// A node of the result `value` in the block of its op.
  int32_t add_result(OpId op, ValueId value, bool is_only) {
    const solver::Cost unless_required = is_required(value, stage_of(op)) ? solver::kForbidden : 0;
    const int32_t node =
        add_node(block_of_[op.index], {.op = is_only ? op : OpId{-1},
                                       .costs = {unless_required, 0, is_only ? cost_of(op) : 0},
                                       .usages = {0, bytes_of(value, stage_of(op)), 0}});
    nodes_[block_of_[op.index]][value.index] = node;
    return node;
  }

  /// Forbids pairs of strategies of two nodes.
  template <class Forbids>
  void add_edge(int block, int32_t a, int32_t b, const Forbids& forbids) {
    RecomputeBlock& made = result_.blocks[block];
    std::vector<solver::Cost> costs;
    for (int s = 0; s < std::ssize(made.nodes[a].costs); ++s)
      for (int t = 0; t < std::ssize(made.nodes[b].costs); ++t)
        costs.push_back(forbids(s, t) ? solver::kForbidden : 0);
    made.edges.push_back({a, b, std::move(costs)});
  }

  void add(OpId op) {
    if (!may_be_again_[op.index]) return;
    const int block = block_of_[op.index];
    const std::vector<ValueId>& outputs = graph_.op(op).outputs;
    add_outside_operands(op);
    int32_t node = -1;
    int again = kAgain;
    if (outputs.size() == 1) {
      node = add_result(op, outputs.front(), true);
    } else {
      node = add_node(block, {.op = op, .costs = {0, cost_of(op)}, .usages = {0, 0}});
      again = kOpAgain;
      for (ValueId output : outputs)
        add_edge(block, add_result(op, output, false), node, [](int result, int of_op) {
          return (result == kAgain && of_op != kOpAgain) || (result == kKept && of_op == kOpAgain);
        });
    }
    std::set<int32_t> operands;
    for (ValueId input : graph_.op(op).inputs)
      if (const auto found = nodes_[block].find(input.index); found != nodes_[block].end())
        operands.insert(found->second);
    for (int32_t operand : operands)
      add_edge(block, node, operand,
               [again](int s, int t) { return s == again && t == kNotNeeded; });
  }

  /// Nodes of operands from outside that the block decides about.
  void add_outside_operands(OpId op) {
    const int block = block_of_[op.index];
    for (ValueId input : graph_.op(op).inputs) {
      if (!outside_.contains({input.index, block}) || nodes_[block].contains(input.index)) continue;
      nodes_[block][input.index] =
          add_node(block, {.costs = {0, 0}, .usages = {0, bytes_of(input, stage_of(op))}});
    }
  }

  const Graph& graph_;
  const RecomputeTerms& terms_;
  RecomputeBlocks result_;
  std::vector<OpId> forward_;
  std::vector<int> block_of_;                  // by op
  std::vector<bool> is_once_;                  // by value
  std::vector<bool> may_be_again_;             // by op
  std::set<std::pair<int, int>> outside_;      // value, block that decides about it
  std::vector<std::map<int, int32_t>> nodes_;  // by block: node of a value
};

}  // namespace

bool RecomputeBlock::is_identical(const RecomputeBlock& other) const {
  return device == other.device &&
         std::ranges::equal(nodes, other.nodes,
                            [](const Node& a, const Node& b) {
                              return a.costs == b.costs && a.usages == b.usages &&
                                     (a.op.index < 0) == (b.op.index < 0);
                            }) &&
         std::ranges::equal(edges, other.edges, [](const Edge& a, const Edge& b) {
           return a.a == b.a && a.b == b.b && a.costs == b.costs;
         });
}

RecomputeBlocks recompute_blocks(const Graph& graph, const RecomputeTerms& terms) {
  return BlockMaker(graph, terms).make();
}

}  // namespace tessera
