#include "training/engine/internal/programs/shared_variables.h"

#include <algorithm>

#include "base/text/name_pattern.h"
#include "base/text/text.h"
#include "sharding/explicit/name_patterns.h"
#include "sharding/explicit/stage_patterns.h"
#include "sharding/propagation/named.h"

namespace tessera {
namespace {

/// The stages of the ops of a graph that training does not have, by op; -1 for other ops, and for
/// those that are connected with no op of training.
class FollowedStages {
 public:
  FollowedStages(const PlacedGraph& main, const Graph& graph)
      : graph_(graph), known_(graph.ops().size(), -1) {
    for (size_t i = 0; i < known_.size(); ++i)
      if (const auto op = main.graph.find_op(graph.ops()[i].name))
        known_[i] = main.sharded.stages.ops[op->index];
  }

  std::vector<int> stages() const {
    std::vector<int> found = known_;
    for (size_t i = 0; i < found.size(); ++i)
      if (known_[i] < 0) found[i] = last_of_operands(i, found);
    for (size_t i = found.size(); i-- > 0;)
      if (found[i] < 0) found[i] = first_of_users(i, found);
    for (size_t i = 0; i < found.size(); ++i)
      if (known_[i] >= 0) found[i] = -1;
    return found;
  }

 private:
  int last_of_operands(size_t op, const std::vector<int>& stages) const {
    int last = -1;
    for (const ValueId input : graph_.ops()[op].inputs)
      if (const OpId producer = graph_.value(input).producer; producer.index >= 0)
        last = std::max(last, stages[producer.index]);
    return last;
  }

  int first_of_users(size_t op, const std::vector<int>& stages) const {
    int first = -1;
    for (const ValueId output : graph_.ops()[op].outputs)
      for (const OpId user : graph_.value(output).users)
        if (const int stage = stages[user.index]; stage >= 0 && (first < 0 || stage < first))
          first = stage;
    return first;
  }

  const Graph& graph_;
  std::vector<int> known_;  // of ops that training has
};

}  // namespace

std::vector<Mark> marks_for(const Graph& graph, const std::vector<Mark>& marks) {
  std::vector<Mark> present;
  for (const Mark& mark : marks) {
    const bool is_tensor = mark.kind == Mark::Kind::kTensor;
    if (is_tensor ? !values_named(graph, mark.pattern).empty() : !ops_named_by(graph, mark).empty())
      present.push_back(mark);
  }
  return present;
}

Mark keep_at(const std::string& name, const DistAttr& attr, const std::string& mesh) {
  Mark mark = shard_tensor(name, to_text(attr), "the training program");
  mark.mesh = mesh;
  return mark;
}

const std::string& owner_mesh(const ShardedGraph& sharded, ValueId value) {
  return sharded.meshes[sharded.stages.values[value.index]].name;
}

std::vector<Mark> with_variables_of(const PlacedGraph& main, const Graph& graph,
                                    std::vector<Mark> marks) {
  const auto is_on_variable = [&](const Mark& mark) {
    const NamePattern pattern(mark.pattern);
    return mark.kind == Mark::Kind::kTensor &&
           std::any_of(graph.variables().begin(), graph.variables().end(),
                       [&](const Variable& variable) {
                         return pattern.matches(graph.value(variable.value).name);
                       });
  };
  std::vector<Mark> kept;
  for (Mark& mark : marks) {
    if (!is_on_variable(mark))
      kept.push_back(std::move(mark));
    else if (mark.copies)
      kept.push_back(copies_live_for(*mark.copies, mark.pattern, mark.origin));
  }
  marks = std::move(kept);
  for (const Variable& variable : graph.variables()) {
    const std::string& name = graph.value(variable.value).name;
    if (const auto value = main.graph.find_value(name))
      marks.push_back(keep_at(name, main.sharded.at(*value), owner_mesh(main.sharded, *value)));
  }
  return marks;
}

std::vector<Mark> with_stages_of(const PlacedGraph& main, const Graph& graph,
                                 std::vector<Mark> marks) {
  const ShardedGraph& sharded = main.sharded;
  if (sharded.meshes.size() == 1) return marks;
  std::vector<std::string> names, stages;
  for (size_t i = 0; i < main.graph.ops().size(); ++i) {
    const Op& op = main.graph.ops()[i];
    if (op.role != Role::kForward) continue;
    names.push_back(op.name);
    stages.push_back(sharded.meshes[sharded.stages.ops[i]].name);
  }
  std::vector<Mark> found;
  for (const PatternDecision& decision : stage_patterns(names, stages))
    for (const std::string& pattern : decision.names)
      for (std::string& name : names_of_pattern(pattern))
        found.push_back(stage(std::move(name), decision.text, "the training program"));
  // The longest pattern that matches decides, as the last mark does.
  std::stable_sort(found.begin(), found.end(), [](const Mark& a, const Mark& b) {
    return a.pattern.size() < b.pattern.size();
  });
  for (Mark& mark : marks_for(graph, found)) marks.push_back(std::move(mark));
  const std::vector<int> followed = FollowedStages(main, graph).stages();
  for (size_t i = 0; i < followed.size(); ++i)
    if (followed[i] >= 0)
      marks.push_back(stage(graph.ops()[i].name, sharded.meshes[followed[i]].name,
                            "the stages of its operands"));
  return marks;
}

}  // namespace tessera
