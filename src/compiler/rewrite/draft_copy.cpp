#include "compiler/rewrite/draft_copy.h"

#include <algorithm>

#include "ir/graph/derivations.h"

namespace tessera {
namespace {

/// The origin with the op that makes the value of a replaced source now.
Origin origin_after(const GraphDraft& draft, const Origin& origin) {
  const Graph& graph = draft.before();
  const auto source = graph.find_op(origin.source);
  if (!source || draft.is_present(*source)) return origin;
  const ValueId old = draft.outputs(*source).front(), now = draft.current(old);
  if (now == old) return origin;
  const OpId maker = draft.producer(now);
  return {maker.index < 0 ? graph.value(now).name : graph.op(maker).name, origin.derivation};
}

/// Does an op of the backward, or the second computation of a forward op, read the second
/// computation of `value`? A stage keeps what it received from another one.
bool reads_second(const GraphDraft& draft, OpId reader, ValueId value) {
  return draft.is_computed_again(value) &&
         draft.stage(reader) == draft.stage(draft.producer(value));
}

/// By op: is it computed where it stands? Not when all its readers read a second computation.
std::vector<bool> computed_in_place(const GraphDraft& draft) {
  const Graph& graph = draft.before();
  std::vector<bool> in_place(graph.ops().size(), false);
  std::vector<bool> is_read(graph.values().size(), false), is_read_again = is_read;
  for (int i = draft.op_count() - 1; i >= 0; --i) {
    if (!draft.is_present({i})) continue;
    const std::vector<ValueId>& outputs = draft.outputs({i});
    const bool is_again =
        std::ranges::any_of(outputs, [&](ValueId value) { return is_read_again[value.index]; });
    in_place[i] = !is_again || std::ranges::any_of(outputs, [&](ValueId value) {
      return is_read[value.index] || draft.is_result(value);
    });
    const bool is_backward = graph.op({i}).role == Role::kBackward;
    for (ValueId input : draft.inputs({i})) {
      const bool reads_again = (is_backward || is_again) && reads_second(draft, {i}, input);
      if (reads_again) is_read_again[input.index] = true;
      if (!reads_again || (in_place[i] && !is_backward)) is_read[input.index] = true;
    }
  }
  return in_place;
}

class DraftCopy {
 public:
  explicit DraftCopy(const GraphDraft& draft)
      : draft_(draft),
        graph_(draft.before()),
        made_{Graph(graph_.operators()), {}, {}, {}},
        in_place_(computed_in_place(draft)),
        first_(graph_.values().size()),
        again_(graph_.values().size()),
        is_again_(graph_.ops().size(), false) {}

  RewrittenGraph make() {
    made_.graph.reserve(graph_.ops().size(), graph_.values().size());
    copy_values();
    for (const Variable& variable : graph_.variables())
      if (variable.next)
        made_.graph.set_next(first_[variable.value.index],
                             first_[draft_.current(*variable.next).index]);
    for (const auto& [name, value] : graph_.outputs())
      made_.graph.add_output(name, first_[draft_.current(value).index]);
    for (int i = 0; i < std::ssize(graph_.values()); ++i)
      if (const ValueId now = draft_.current({i}); now.index != i)
        made_.replaced.emplace(graph_.value({i}).name, graph_.value(now).name);
    return std::move(made_);
  }

 private:
  void copy_values() {
    std::vector<const Variable*> variable_of(graph_.values().size(), nullptr);
    for (const Variable& variable : graph_.variables())
      variable_of[variable.value.index] = &variable;
    for (int i = 0; i < std::ssize(graph_.values()); ++i) {
      const Value& value = graph_.value({i});
      if (value.producer.index >= 0) {
        const bool is_first = graph_.op(value.producer).outputs.front() == ValueId{i};
        if (is_first && in_place_[value.producer.index]) add_in_place(value.producer);
        continue;
      }
      if (const Variable* variable = variable_of[i])
        first_[i] = made_.graph.add_variable(value.name, value.type, variable->initializer,
                                             variable->trainable, variable->origin);
      else
        first_[i] = made_.graph.add_input(value.name, value.type);
      made_.value_before.push_back({i});
    }
  }

  void add_in_place(OpId op) {
    const Op& given = graph_.op(op);
    const bool is_backward = given.role == Role::kBackward;
    if (is_backward) add_again_for(op);
    add(op, given.name, given.role, origin_after(draft_, given.origin), is_backward, first_);
  }

  /// Adds the second computations that the op of the backward needs and that are not there yet, in
  /// the order of the first ones.
  void add_again_for(OpId op) {
    std::vector<OpId> needed, open = {op};
    while (!open.empty()) {
      const OpId reader = open.back();
      open.pop_back();
      for (ValueId input : draft_.inputs(reader)) {
        if (!reads_second(draft_, reader, input)) continue;
        const OpId maker = draft_.producer(input);
        if (is_again_[maker.index]) continue;
        is_again_[maker.index] = true;
        needed.push_back(maker);
        open.push_back(maker);
      }
    }
    std::ranges::sort(needed);
    for (OpId again : needed) add_again(again);
  }

  void add_again(OpId op) {
    const Op& given = graph_.op(op);
    if (in_place_[op.index])
      add(op, made_.graph.unique_name(second_computation(given.name)), Role::kBackward,
          {given.name, std::string(kRecomputed)}, true, again_);
    else
      add(op, given.name, Role::kBackward, origin_after(draft_, given.origin), true, again_);
  }

  void add(OpId op, std::string name, Role role, Origin origin, bool reads_again,
           std::vector<ValueId>& results) {
    const Op& given = graph_.op(op);
    std::vector<ValueId> inputs;
    for (ValueId input : draft_.inputs(op))
      inputs.push_back(reads_again && reads_second(draft_, op, input) ? again_[input.index]
                                                                      : first_[input.index]);
    std::vector<TensorType> types;
    for (ValueId output : given.outputs) types.push_back(graph_.type(output));
    const OpId added =
        made_.graph.add_op(std::move(name), draft_.kind(op), draft_.attributes(op),
                           std::move(inputs), types, role, std::move(origin), given.regions);
    made_.op_before.push_back(op);
    for (size_t i = 0; i < given.outputs.size(); ++i) {
      results[given.outputs[i].index] = made_.graph.op(added).outputs[i];
      made_.value_before.push_back(given.outputs[i]);
    }
  }

  const GraphDraft& draft_;
  const Graph& graph_;
  RewrittenGraph made_;
  std::vector<bool> in_place_;  // by op
  // By value of the graph before: in the graph that is made.
  std::vector<ValueId> first_, again_;
  std::vector<bool> is_again_;  // by op: its second computation is there
};

}  // namespace

RewrittenGraph graph_of(const GraphDraft& draft) {
  return DraftCopy(draft).make();
}

}  // namespace tessera
