#include "planner/placement/strategies.h"

#include <algorithm>

#include "ir/ops/operator.h"

namespace tessera {
namespace {

class Enumeration {
 public:
  Enumeration(const ShardingRule& rule, const MeshPtr& mesh, const std::vector<bool>& partial,
              const std::vector<std::set<int64_t>>& chunks)
      : rule_(rule), mesh_(mesh), chunks_(chunks), now_(OpSharding::replicated(mesh, rule)) {
    for (int set = 0; set < std::ssize(rule.linear); ++set)
      if (std::all_of(rule.linear[set].begin(), rule.linear[set].end(),
                      [&](int input) { return partial[input]; }))
        sets_.push_back(set);
  }

  std::vector<OpSharding> run() {
    choose(0);
    return std::move(all_);
  }

 private:
  void choose(int axis) {
    if (axis == mesh_->axis_count()) {
      all_.push_back(now_);
      return;
    }
    choose(axis + 1);
    if (mesh_->shape()[axis] == 1) return;
    for (int factor = 0; factor < std::ssize(rule_.factors); ++factor) {
      if (!may_divide(factor, axis)) continue;
      const bool is_new = now_.factor_axes[factor].empty();
      now_.factor_axes[factor].push_back(axis);
      choose(axis + 1);
      if (is_new && !chunks_.empty())
        for (int64_t count : chunks_[factor]) choose_chunks(axis, factor, count);
      now_.factor_axes[factor].pop_back();
    }
    for (int set : sets_) {
      now_.linear.push_back({axis, set});
      choose(axis + 1);
      now_.linear.pop_back();
    }
  }

  /// The first axis of a factor decides on its chunks.
  void choose_chunks(int axis, int factor, int64_t count) {
    if (rule_.factors[factor].extent / count < mesh_->shape()[axis]) return;
    now_.set_chunks(rule_, factor, count);
    choose(axis + 1);
    now_.set_chunks(rule_, factor, 1);
  }

  bool may_divide(int factor, int axis) const {
    int64_t parts = mesh_->shape()[axis] * now_.chunks_of(factor);
    for (int taken : now_.factor_axes[factor]) parts *= mesh_->shape()[taken];
    return rule_.factors[factor].extent >= parts && now_.may_divide(rule_, factor);
  }

  const ShardingRule& rule_;
  const MeshPtr& mesh_;
  const std::vector<std::set<int64_t>>& chunks_;
  std::vector<int> sets_;  // linear ones whose inputs may be partial sums
  OpSharding now_;
  std::vector<OpSharding> all_;
};

}  // namespace

std::vector<bool> may_be_partial(const Graph& graph, const OpRules& rules,
                                 std::vector<bool> partial) {
  partial.resize(graph.values().size(), false);
  for (int i = 0; i < std::ssize(graph.ops()); ++i) {
    const Op& op = graph.ops()[i];
    const ShardingRule& rule = rules[i];
    const bool passes =
        std::any_of(rule.linear.begin(), rule.linear.end(), [&](const std::vector<int>& set) {
          return std::all_of(set.begin(), set.end(),
                             [&](int input) { return partial[op.inputs[input].index]; });
        });
    for (int output = 0; output < std::ssize(op.outputs); ++output) {
      bool reduces = false;
      for (int factor = 0; factor < std::ssize(rule.factors); ++factor)
        reduces |= rule.factors[factor].reduce == ReduceOp::kSum && rule.reduces(factor, output);
      if (passes || reduces) partial[op.outputs[output].index] = true;
    }
  }
  return partial;
}

std::vector<OpSharding> strategies_of(const ShardingRule& rule, const MeshPtr& mesh,
                                      const std::vector<bool>& partial,
                                      const std::vector<std::set<int64_t>>& chunks) {
  return Enumeration(rule, mesh, partial, chunks).run();
}

}  // namespace tessera
