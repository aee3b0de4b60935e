// A serial graph that passes rewrite: values are replaced, ops are dropped or computed differently.
// The draft records these decisions beside the graph and makes one new graph at the end.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "ir/graph/graph.h"
#include "ir/ops/operator.h"

namespace tessera {

/// What a rewrite has to respect beside the graph itself.
struct RewriteBounds {
  /// By op: the stage (mesh) that computes it. Empty: all ops are on one.
  std::vector<int> stages;
  /// By op: must it stay as it is, because a mark names it or one of its results? Empty: none must.
  std::vector<bool> kept;
  /// By value: does the pass "recompute" let the backward compute it again, instead of keeping it?
  /// Only results of forward ops. Empty: none is (compiler/rewrite/recompute.h).
  std::vector<bool> recomputed = {};
};

/// The graph after a rewrite, and the way back to the graph before it.
struct RewrittenGraph {
  Graph graph;
  std::vector<OpId> op_before;        // by op of `graph`
  std::vector<ValueId> value_before;  // by value of `graph`
  /// By name of a removed value that another one replaces: the name of that one in `graph`.
  std::map<std::string, std::string, std::less<>> replaced;
};

/// A graph and the changes that passes have made to it so far. Ids are those of the graph before.
/// Every function describes the graph with the changes.
///
///   invariant  an operand comes before its readers; inputs, variables, outputs and the next values
///              of variables are those of the graph before; no op gets another name or another
///              result type; an op that computes a value again is called NAME.recompute
///   threads    one caller at a time
class GraphDraft {
 public:
  /// `graph` outlives the draft.
  explicit GraphDraft(const Graph& graph, RewriteBounds bounds = {});

  const Graph& before() const { return graph_; }
  /// The ops of the graph before, with those that were dropped.
  int op_count() const { return static_cast<int>(graph_.ops().size()); }
  bool is_present(OpId op) const { return !dropped_[op.index]; }

  const std::string& kind(OpId op) const;
  const Attributes& attributes(OpId op) const;
  /// The reference holds until the next call of replace or redefine.
  const std::vector<ValueId>& inputs(OpId op) const;
  const std::vector<ValueId>& outputs(OpId op) const { return graph_.op(op).outputs; }
  OpView view(OpId op) const;

  /// The value that readers of `value` read: itself, or the one that replaces it.
  ValueId current(ValueId value) const;
  /// The present op that makes it; invalid for inputs and variables.
  OpId producer(ValueId value) const { return graph_.value(current(value)).producer; }
  /// Operands of present ops that are this value. An output and a next value count as one each.
  int readers(ValueId value) const { return readers_[value.index]; }
  /// Is it an output of the program or the next value of a variable?
  bool is_result(ValueId value) const { return is_result_[value.index]; }
  bool is_kept(OpId op) const { return !bounds_.kept.empty() && bounds_.kept[op.index]; }
  /// May another value replace the results of the op? Not when it is kept, or makes a result.
  bool may_replace(OpId op) const;
  int stage(OpId op) const { return bounds_.stages.empty() ? 0 : bounds_.stages[op.index]; }

  /// Readers of the results of `op` read the values `by` instead, and `op` is dropped.
  ///   requires  may_replace(op); one value for each result, of its type, from before `op`
  void replace(OpId op, const std::vector<ValueId>& by);
  /// Computes the one result of `op` in another way.
  ///   requires  not is_kept(op); the inputs come before it
  void redefine(OpId op, std::string kind, Attributes attributes, std::vector<ValueId> inputs);
  ///   requires  not is_kept(op); its results have no readers
  void drop(OpId op);

  /// Of the values that RewriteBounds::recomputed names and whose ops are present: ops of the
  /// backward read a second computation of them, where they are on the stage that makes them.
  /// Another stage has received them, and keeps them.
  void compute_again();
  bool is_computed_again(ValueId value) const { return computed_again_[value.index]; }

  /// The lines "NAME ..." that the changes since the last call are, in order.
  std::vector<std::string> take_changes();

 private:
  struct Definition {
    std::string kind;
    Attributes attributes;
    std::vector<ValueId> inputs;
  };
  const Definition* definition(OpId op) const {
    return definition_of_[op.index] < 0 ? nullptr : &definitions_[definition_of_[op.index]];
  }
  const std::vector<ValueId>& raw_inputs(OpId op) const;
  void forget(OpId op);

  const Graph& graph_;
  RewriteBounds bounds_;
  std::vector<bool> dropped_;         // by op
  std::vector<ValueId> replaced_by_;  // by value; itself when nothing replaces it
  std::vector<int> readers_;          // by value
  std::vector<bool> is_result_;       // by value
  std::vector<bool> computed_again_;  // by value
  std::vector<int> definition_of_;    // by op: index in definitions_; -1: that of the graph before
  std::deque<Definition> definitions_;                              // references to them stay
  mutable std::unordered_map<int, std::vector<ValueId>> resolved_;  // inputs by index of the op
  std::vector<std::string> changes_;
};

}  // namespace tessera
