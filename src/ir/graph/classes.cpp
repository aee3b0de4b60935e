#include "ir/graph/classes.h"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>

namespace tessera {
namespace {

using Signature = std::vector<int64_t>;

struct SignatureHash {
  size_t operator()(const Signature& signature) const {
    uint64_t hash = 0xcbf29ce484222325ULL;  // FNV-1a over the words
    for (int64_t word : signature) hash = (hash ^ static_cast<uint64_t>(word)) * 0x100000001b3ULL;
    return hash ^ (hash >> 32);
  }
};

/// Numbers from 0 on, by first appearance.
template <class Key, class Hash = std::hash<Key>>
class Numbers {
 public:
  int64_t at(Key key) {
    return numbers_.try_emplace(std::move(key), std::ssize(numbers_)).first->second;
  }
  int64_t count() const { return std::ssize(numbers_); }

 private:
  std::unordered_map<Key, int64_t, Hash> numbers_;
};
using Colours = Numbers<Signature, SignatureHash>;

/// A value is used by an op as one of its operands.
struct Use {
  OpId op;
  int operand;
};

std::string text_without_key(const Attributes& attributes) {
  std::string text;
  for (const auto& [name, value] : attributes)
    if (name != kRandomKey) text += name + "=" + to_text(value) + ",";
  return text;
}

/// A region without names: each value is the number of its definition.
std::string text_without_names(const Graph& region) {
  std::string text = "(";
  for (ValueId input : region.inputs())
    text += std::to_string(input.index) + ":" + to_text(region.type(input)) + ",";
  for (const Op& op : region.ops()) {
    text += op.kind + "{" + text_without_key(op.attributes) + "}";
    for (ValueId input : op.inputs) text += " " + std::to_string(input.index);
    for (ValueId output : op.outputs)
      text += " " + std::to_string(output.index) + ":" + to_text(region.type(output));
    for (const GraphPtr& inner : op.regions) text += text_without_names(*inner);
    text += ";";
  }
  for (const auto& [name, value] : region.outputs()) text += " " + std::to_string(value.index);
  return text + ")";
}

class Refinement {
 public:
  explicit Refinement(const Graph& graph) : graph_(graph) {
    find_relations();
    colour_locally();
  }

  Classes run(int depth) {
    Classes classes;
    while (classes.depth < depth && refine()) ++classes.depth;
    classes.is_stable = classes.depth < depth;
    group(ops_, classes.of_op, classes.ops, [](int i) { return OpId{i}; });
    group(values_, classes.of_value, classes.values, [](int i) { return ValueId{i}; });
    return classes;
  }

 private:
  void find_relations() {
    const size_t value_count = graph_.values().size();
    uses_.resize(value_count);
    partner_.resize(value_count);
    is_output_.resize(value_count);
    for (int i = 0; i < std::ssize(graph_.ops()); ++i) {
      const Op& op = graph_.op({i});
      for (int operand = 0; operand < std::ssize(op.inputs); ++operand)
        uses_[op.inputs[operand].index].push_back({OpId{i}, operand});
      source_op_.push_back(graph_.find_op(op.origin.source).value_or(OpId{}));
      source_value_.push_back(graph_.find_value(op.origin.source).value_or(ValueId{}));
    }
    for (const Variable& variable : graph_.variables()) {
      if (!variable.next) continue;
      partner_[variable.value.index] = *variable.next;
      partner_[variable.next->index] = variable.value;
    }
    for (const auto& [name, value] : graph_.outputs()) is_output_[value.index] = true;
  }

  void colour_locally() {
    Numbers<std::string> texts;
    Colours types, op_colours, value_colours;
    std::vector<int64_t> type_of_value;
    for (const Value& value : graph_.values()) {
      Signature signature{static_cast<int64_t>(value.type.dtype)};
      signature.insert(signature.end(), value.type.shape.begin(), value.type.shape.end());
      type_of_value.push_back(types.at(std::move(signature)));
    }
    for (const Op& op : graph_.ops())
      ops_.push_back(op_colours.at(local_signature(op, texts, type_of_value)));
    std::vector<Signature> sources(graph_.values().size(), Signature{0});  // inputs and results
    for (const Variable& variable : graph_.variables())
      sources[variable.value.index] = {1, variable.trainable, texts.at(variable.origin.derivation)};
    for (int i = 0; i < std::ssize(graph_.values()); ++i) {
      Signature& signature = sources[i];
      for (int64_t word : {type_of_value[i], int64_t{graph_.value({i}).producer.index < 0},
                           int64_t{is_output_[i]}, int64_t{partner_[i].index >= 0}})
        signature.push_back(word);
      values_.push_back(value_colours.at(std::move(signature)));
    }
    count_ = op_colours.count() + value_colours.count();
  }

  static Signature local_signature(const Op& op, Numbers<std::string>& texts,
                                   const std::vector<int64_t>& type_of_value) {
    std::string text = op.kind + "{" + text_without_key(op.attributes) + "}";
    for (const GraphPtr& region : op.regions) text += text_without_names(*region);
    Signature signature{texts.at(std::move(text)), static_cast<int64_t>(op.role),
                        texts.at(op.origin.derivation), std::ssize(op.inputs)};
    for (const auto* list : {&op.inputs, &op.outputs})
      for (ValueId value : *list) signature.push_back(type_of_value[value.index]);
    return signature;
  }

  /// Compares neighbours at one more step.  returns  false when no class was divided by it
  bool refine() {
    Colours op_colours, value_colours;
    std::vector<int64_t> ops, values;
    for (int i = 0; i < std::ssize(values_); ++i)
      values.push_back(value_colours.at(signature_of_value(i)));
    for (int i = 0; i < std::ssize(ops_); ++i)
      ops.push_back(op_colours.at(signature_of_op(i, values)));
    const int64_t count = op_colours.count() + value_colours.count();
    if (count == count_) return false;
    count_ = count;
    ops_ = std::move(ops);
    values_ = std::move(values);
    return true;
  }

  Signature signature_of_value(int index) const {
    const Value& value = graph_.value({index});
    Signature signature{values_[index]};
    if (value.producer.index >= 0) {
      const std::vector<ValueId>& results = graph_.op(value.producer).outputs;
      signature.push_back(ops_[value.producer.index]);
      signature.push_back(std::find(results.begin(), results.end(), ValueId{index}) -
                          results.begin());
    }
    if (partner_[index].index >= 0) signature.push_back(values_[partner_[index].index]);
    std::vector<std::pair<int64_t, int64_t>> uses;
    for (const Use& use : uses_[index]) uses.emplace_back(ops_[use.op.index], use.operand);
    std::sort(uses.begin(), uses.end());
    for (const auto& [op, operand] : uses) {
      signature.push_back(op);
      signature.push_back(operand);
    }
    return signature;
  }

  Signature signature_of_op(int index, const std::vector<int64_t>& values) const {
    const Op& op = graph_.op({index});
    Signature signature{ops_[index]};
    if (source_op_[index].index >= 0)
      signature.insert(signature.end(), {1, ops_[source_op_[index].index]});
    else if (source_value_[index].index >= 0)
      signature.insert(signature.end(), {2, values[source_value_[index].index]});
    for (const auto* list : {&op.inputs, &op.outputs})
      for (ValueId value : *list) signature.push_back(values[value.index]);
    return signature;
  }

  /// Numbers the classes by their first members.
  template <class Class, class Member, class MakeMember>
  static void group(const std::vector<int64_t>& colours, std::vector<Class>& class_of,
                    IndexedVector<Class, std::vector<Member>>& members, MakeMember make) {
    Numbers<int64_t> numbers;
    for (int i = 0; i < std::ssize(colours); ++i) {
      const Class found(static_cast<int>(numbers.at(colours[i])));
      if (!members.contains(found)) members.resize(found.value() + 1);
      members[found].push_back(make(i));
      class_of.push_back(found);
    }
  }

  const Graph& graph_;
  std::vector<std::vector<Use>> uses_;  // by value
  std::vector<ValueId> partner_;        // by value: of a variable its next value, and the reverse
  std::vector<bool> is_output_;         // by value
  /// By op: what it is derived from, an op or a value.
  std::vector<OpId> source_op_;
  std::vector<ValueId> source_value_;
  std::vector<int64_t> ops_, values_;  // the colours so far
  int64_t count_ = 0;                  // of different colours
};

}  // namespace

Classes classes_of(const Graph& graph, int depth) {
  return Refinement(graph).run(depth);
}

}  // namespace tessera
