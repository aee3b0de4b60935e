#include "compiler/rewrite/internal/draft.h"

#include <algorithm>

#include "base/error.h"
#include "base/text/text.h"

namespace tessera {

GraphDraft::GraphDraft(const Graph& graph, RewriteBounds bounds)
    : graph_(graph),
      bounds_(std::move(bounds)),
      dropped_(graph.ops().size(), false),
      readers_(graph.values().size(), 0),
      is_result_(graph.values().size(), false),
      computed_again_(graph.values().size(), false),
      definition_of_(graph.ops().size(), -1) {
  replaced_by_.reserve(graph.values().size());
  for (int i = 0; i < std::ssize(graph.values()); ++i) {
    replaced_by_.push_back({i});
    readers_[i] = static_cast<int>(graph.value({i}).users.size());
  }
  const auto add_result = [&](ValueId value) {
    is_result_[value.index] = true;
    ++readers_[value.index];
  };
  for (const auto& [name, value] : graph.outputs()) add_result(value);
  for (const Variable& variable : graph.variables())
    if (variable.next) add_result(*variable.next);
}

const std::string& GraphDraft::kind(OpId op) const {
  const Definition* given = definition(op);
  return given ? given->kind : graph_.op(op).kind;
}

const Attributes& GraphDraft::attributes(OpId op) const {
  const Definition* given = definition(op);
  return given ? given->attributes : graph_.op(op).attributes;
}

const std::vector<ValueId>& GraphDraft::raw_inputs(OpId op) const {
  const Definition* given = definition(op);
  return given ? given->inputs : graph_.op(op).inputs;
}

const std::vector<ValueId>& GraphDraft::inputs(OpId op) const {
  const std::vector<ValueId>& raw = raw_inputs(op);
  if (std::ranges::all_of(raw, [&](ValueId input) { return current(input) == input; })) return raw;
  std::vector<ValueId>& inputs = resolved_[op.index];
  inputs = raw;
  for (ValueId& input : inputs) input = current(input);
  return inputs;
}

OpView GraphDraft::view(OpId op) const {
  const Op& given = graph_.op(op);
  OpView result{given.name, attributes(op), {}, {}, nullptr, given.regions};
  for (ValueId input : raw_inputs(op)) result.inputs.push_back(graph_.type(input));
  for (ValueId output : given.outputs) result.outputs.push_back(graph_.type(output));
  result.definition = &find_operator(graph_, kind(op));
  return result;
}

ValueId GraphDraft::current(ValueId value) const {
  while (replaced_by_[value.index] != value) value = replaced_by_[value.index];
  return value;
}

bool GraphDraft::may_replace(OpId op) const {
  return !is_kept(op) && std::none_of(outputs(op).begin(), outputs(op).end(),
                                      [&](ValueId value) { return is_result(value); });
}

void GraphDraft::replace(OpId op, const std::vector<ValueId>& by) {
  ensure(is_present(op) && may_replace(op),
         [&] { return "'" + graph_.op(op).name + "' may be replaced"; });
  ensure(by.size() == outputs(op).size(),
         [&] { return "every result of '" + graph_.op(op).name + "' is replaced"; });
  for (size_t i = 0; i < by.size(); ++i) {
    const ValueId value = outputs(op)[i], other = current(by[i]);
    ensure(graph_.type(value) == graph_.type(other) && producer(other) < op, [&] {
      return "'" + graph_.value(other).name + "' can replace '" + graph_.value(value).name + "'";
    });
    changes_.push_back(graph_.value(value).name + " is " + graph_.value(other).name);
    replaced_by_[value.index] = other;
    readers_[other.index] += readers_[value.index];
    readers_[value.index] = 0;
  }
  forget(op);
}

void GraphDraft::redefine(OpId op, std::string kind, Attributes attributes,
                          std::vector<ValueId> inputs) {
  ensure(is_present(op) && !is_kept(op) && outputs(op).size() == 1,
         [&] { return "'" + graph_.op(op).name + "' may be computed in another way"; });
  for (ValueId& input : inputs) {
    input = current(input);
    ensure(producer(input) < op,
           [&] { return "the operands of '" + graph_.op(op).name + "' come before it"; });
    ++readers_[input.index];
  }
  for (ValueId input : raw_inputs(op)) --readers_[current(input).index];
  std::vector<std::string> operands;
  for (ValueId input : inputs) operands.push_back(graph_.value(input).name);
  changes_.push_back(graph_.op(op).name + " = " + kind + "(" + join(operands, ", ") + ")" +
                     (attributes.empty() ? "" : " " + to_text(attributes)));
  definition_of_[op.index] = static_cast<int>(definitions_.size());
  definitions_.push_back({std::move(kind), std::move(attributes), std::move(inputs)});
}

void GraphDraft::drop(OpId op) {
  ensure(is_present(op) && !is_kept(op),
         [&] { return "'" + graph_.op(op).name + "' may be dropped"; });
  for (ValueId value : outputs(op))
    ensure(readers_[value.index] == 0,
           [&] { return "'" + graph_.value(value).name + "' has no readers"; });
  changes_.push_back(graph_.op(op).name + " is dropped");
  forget(op);
}

void GraphDraft::compute_again() {
  for (int i = 0; i < std::ssize(bounds_.recomputed); ++i) {
    if (!bounds_.recomputed[i] || computed_again_[i]) continue;
    const OpId op = graph_.value({i}).producer;
    ensure(graph_.op(op).role == Role::kForward,
           [&] { return "'" + graph_.value({i}).name + "' is the result of a forward op"; });
    if (!is_present(op)) continue;
    changes_.push_back(graph_.value({i}).name + " is computed again");
    computed_again_[i] = true;
  }
}

void GraphDraft::forget(OpId op) {
  for (ValueId input : raw_inputs(op)) --readers_[current(input).index];
  dropped_[op.index] = true;
}

std::vector<std::string> GraphDraft::take_changes() {
  return std::exchange(changes_, {});
}

}  // namespace tessera
