#include "planner/placement/internal/fusion/fusion.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/error.h"
#include "planner/placement/internal/fusion/loops.h"

namespace tessera {
namespace {

/// The graph of groups. It has no cycle: a group has a higher level than those that it reads.
class Grouping {
 public:
  explicit Grouping(const Graph& graph) : graph_(graph) {
    const int count = static_cast<int>(graph.ops().size());
    for (int i = 0; i < count; ++i) {
      const Op& op = graph.ops()[i];
      loops_.push_back(loops_of(graph, op));
      of_op_.push_back(i);
      members_.push_back({i});
      shapes_.push_back(fused_loops(graph, loops_, {i}).value_or(FusedLoops{}));
    }
    level_.resize(count, 0);
    marks_.resize(count, 0);
  }

  FusionGroups run() {
    for (bool has_merged = true; has_merged;) {
      has_merged = false;
      for (int i = 0; i < std::ssize(of_op_); ++i) {
        if (i == leveled_) add_level();
        for (ValueId input : graph_.ops()[i].inputs)
          if (const int producer = graph_.value(input).producer.index; producer >= 0)
            has_merged |= merge(of_op_[producer], of_op_[i]);
      }
    }
    return result();
  }

 private:
  /// Later ops get their levels when earlier ones are merged, or each merge would raise all of
  /// them.
  void add_level() {
    for (int producer : producers_of(leveled_))
      level_[leveled_] = std::max(level_[leveled_], level_[producer] + 1);
    ++leveled_;
  }

  /// The groups of what an op reads.
  std::vector<int> producers_of(int op) const {
    std::vector<int> list;
    for (ValueId input : graph_.ops()[op].inputs)
      if (const int producer = graph_.value(input).producer.index; producer >= 0)
        list.push_back(of_op_[producer]);
    return list;
  }

  /// Makes one group of a group and one that reads it, when one kernel may compute both.
  bool merge(int from, int to) {
    const auto role = [&](int group) { return graph_.ops()[members_[group].front()].role; };
    if (from == to || role(from) != role(to)) return false;
    std::pair<size_t, size_t>& refused = refused_[{from, to}];
    const std::pair sizes(members_[from].size(), members_[to].size());
    if (refused == sizes) return false;
    refused = sizes;
    std::vector<int> ops;
    std::ranges::merge(members_[from], members_[to], std::back_inserter(ops));
    std::optional<FusedLoops> shape = fused_loops(graph_, loops_, ops);
    if (!shape || is_reached_around(from, to)) return false;
    for (int op : members_[from]) of_op_[op] = to;
    members_[from].clear();
    members_[to] = std::move(ops);
    shapes_[to] = *std::move(shape);
    raise_readers_of(to);
    return true;
  }

  bool has_reader_beside(int from, int to) const {
    for (int op : members_[from])
      for (ValueId output : graph_.ops()[op].outputs)
        for (OpId user : graph_.value(output).users)
          if (of_op_[user.index] != from && of_op_[user.index] != to) return true;
    return false;
  }

  /// Does a path from one group to another lead through a third one? Only groups between their
  /// levels are on it.
  bool is_reached_around(int from, int to) {
    if (!has_reader_beside(from, to)) return false;
    ++mark_;
    std::vector<int> open{to};
    while (!open.empty()) {
      const int group = open.back();
      open.pop_back();
      for (int op : members_[group])
        for (int producer : producers_of(op)) {
          if (producer == from && group != to) return true;
          if (producer == from || producer == to || level_[producer] <= level_[from] ||
              std::exchange(marks_[producer], mark_) == mark_)
            continue;
          open.push_back(producer);
        }
    }
    return false;
  }

  void raise_readers_of(int merged) {
    std::vector<int> open{merged};
    while (!open.empty()) {
      const int group = open.back();
      open.pop_back();
      for (int op : members_[group])
        for (ValueId output : graph_.ops()[op].outputs)
          for (OpId user : graph_.value(output).users) {
            const int reader = of_op_[user.index];
            if (user.index >= leveled_ || reader == group || level_[reader] > level_[group])
              continue;
            level_[reader] = level_[group] + 1;
            open.push_back(reader);
          }
    }
  }

  FusionGroups result() const {
    FusionGroups result;
    result.of_op.resize(of_op_.size());
    for (int i = 0; i < std::ssize(of_op_); ++i) {
      const int group = of_op_[i];
      if (members_[group].front() != i) continue;
      const FusionGroupIndex index(static_cast<int>(result.groups.size()));
      FusionGroup made{{}, shapes_[group].kind, shapes_[group].reason};
      for (int op : members_[group]) {
        made.ops.push_back(OpId{op});
        result.of_op[op] = index;
      }
      result.groups.push_back(std::move(made));
    }
    return result;
  }

  const Graph& graph_;
  std::vector<OpLoops> loops_;
  std::vector<int> of_op_;  // the group of each op
  std::vector<std::vector<int>> members_;
  std::vector<FusedLoops> shapes_;
  std::vector<int> level_;  // by group
  int leveled_ = 0;         // ops that have one
  /// Sizes of two groups that were not merged. Nothing else that is merged changes that.
  std::map<std::pair<int, int>, std::pair<size_t, size_t>> refused_;
  std::vector<int> marks_;  // by group: the last search that has visited it
  int mark_ = 0;
};

}  // namespace

FusionGroups fusion_groups(const Graph& graph) {
  return Grouping(graph).run();
}

std::string to_text(const Graph& graph, const FusionGroup& group) {
  std::string text(to_text(group.kind));
  text += ":";
  for (OpId op : group.ops) text += " " + graph.op(op).name;
  return text;
}

}  // namespace tessera
