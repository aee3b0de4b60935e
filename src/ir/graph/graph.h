// The serial program: an SSA graph of operators on whole (logical) tensors. It knows no devices,
// meshes or kernels, nor the meaning of its operators, which the catalogue in ops/ defines.
#pragma once

#include <compare>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/tensor/tensor.h"
#include "ir/graph/internal/attributes.h"
#include "ir/graph/internal/name_table.h"

namespace tessera {

/// Index of an op or a value in its graph. Plans, checkpoints and random numbers refer to names,
/// never to these.
struct OpId {
  int index = -1;
  auto operator<=>(const OpId&) const = default;
};
struct ValueId {
  int index = -1;
  auto operator<=>(const ValueId&) const = default;
};

/// The part of the training step that an op belongs to.
enum class Role { kForward, kBackward, kOptimizer };
std::string_view to_text(Role role);  // "forward", "backward", "optimizer"

/// The origin of an op or a variable, for explanations, errors, verification and reports.
struct Origin {
  /// The name of the op or variable that it was derived from; "" when the user wrote it.
  std::string source;
  std::string derivation;  // "gradient", "optimizer", ...; "" when the user wrote it

  bool operator==(const Origin&) const = default;
};

struct Value {
  /// A unique scoped path: the name of its op; further results are "name:1", "name:2".
  std::string name;
  TensorType type;
  OpId producer;            // invalid for inputs and variables
  std::vector<OpId> users;  // in program order, an op once for each operand
};

class Graph;
using GraphPtr = std::shared_ptr<const Graph>;

struct Op {
  std::string name;  // unique scoped path
  std::string kind;  // name in the operator catalogue
  Attributes attributes;
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  Role role = Role::kForward;
  Origin origin;
  /// The regions of While and If: programs that the op runs, each with inputs and outputs and no
  /// variables. ir/ops/control/control.h defines their inputs and results.
  std::vector<GraphPtr> regions = {};
};

/// The value of a variable before the first step. Random values are sampled at step 0 with a key
/// made of the variable's name, so each rank can sample its own part.
struct Initializer {
  enum class Kind { kConstant, kNormal, kUniform };
  Kind kind = Kind::kConstant;
  double a = 0;  // constant: the value; normal: the mean; uniform: the lower limit
  double b = 0;  // normal: the deviation; uniform: the upper limit

  static Initializer constant(double value) { return {Kind::kConstant, value, 0}; }
  static Initializer normal(double mean, double deviation) {
    return {Kind::kNormal, mean, deviation};
  }
  static Initializer uniform(double low, double high) { return {Kind::kUniform, low, high}; }
  bool operator==(const Initializer&) const = default;
};
/// "constant(0.0)", "normal(0.0, 0.02)", "uniform(-1.0, 1.0)".
std::string to_text(const Initializer& initializer);

/// State that persists between steps: it is read as `value` at the start of a step, and is `next`
/// after it.
struct Variable {
  ValueId value;
  std::optional<ValueId> next;  // nullopt: it never changes. It has the type of value
  Initializer initializer;
  bool trainable = true;  // optimizer state and statistics are not
  Origin origin;          // for optimizer state: its parameter
};

class OperatorSet;  // ir/ops/operator_set.h
using OperatorSetPtr = std::shared_ptr<const OperatorSet>;

/// A program in SSA form.
///
///   operators  the user's own operators, in addition to the built-in ones (nullptr: none); this
///              module only stores them
///   invariant  ops are in topological order; names are unique and made of letters, digits and _ .
///              : -
///   threads    several may read at the same time
class Graph {
 public:
  Graph() = default;
  explicit Graph(OperatorSetPtr operators) : operators_(std::move(operators)) {}

  const OperatorSetPtr& operators() const { return operators_; }
  /// Makes space for as many ops and values as a graph of this program will have.
  void reserve(size_t ops, size_t values) {
    ops_.reserve(ops);
    values_.reserve(values);
  }

  /// A value that is given anew at every step: data, labels, the learning rate, the step.
  ValueId add_input(const std::string& name, const TensorType& type);
  ValueId add_variable(const std::string& name, const TensorType& type,
                       const Initializer& initializer, bool trainable = true, Origin origin = {});
  /// Appends an op with the given result types. Its name must be free: see unique_name().
  ///   throws  InternalError when the name is used or an operand does not exist
  OpId add_op(std::string name, std::string kind, Attributes attributes,
              std::vector<ValueId> inputs, const std::vector<TensorType>& outputs,
              Role role = Role::kForward, Origin origin = {}, std::vector<GraphPtr> regions = {});
  /// Names a result of the program, such as "loss".
  void add_output(const std::string& name, ValueId value);
  /// Removes an output. The value stays in the graph.
  ///   throws  InternalError when no output has this name
  void remove_output(const std::string& name);
  /// Sets the next value of a variable.  throws  InternalError when the types differ
  void set_next(ValueId variable, ValueId next);

  const std::vector<Op>& ops() const { return ops_; }
  const std::vector<Value>& values() const { return values_; }
  const Op& op(OpId id) const { return ops_.at(id.index); }
  const Value& value(ValueId id) const { return values_.at(id.index); }
  const TensorType& type(ValueId id) const { return value(id).type; }
  const std::vector<ValueId>& inputs() const { return inputs_; }
  const std::vector<Variable>& variables() const { return variables_; }
  const std::vector<std::pair<std::string, ValueId>>& outputs() const { return outputs_; }

  /// The variable that `value` reads; nullptr when it reads none.
  const Variable* variable_of(ValueId value) const;
  bool is_input(ValueId value) const;
  std::optional<ValueId> find_value(std::string_view name) const;
  std::optional<OpId> find_op(std::string_view name) const;
  /// The output called `name`.  throws  InternalError when there is none
  ValueId output(std::string_view name) const;
  /// `name`, or name_1, name_2, ... when it is taken.
  std::string unique_name(const std::string& name) const;

 private:
  ValueId add_value(const std::string& name, const TensorType& type, OpId producer);

  OperatorSetPtr operators_;
  std::vector<Op> ops_;
  std::vector<Value> values_;
  std::vector<ValueId> inputs_;
  std::vector<Variable> variables_;
  std::vector<std::pair<std::string, ValueId>> outputs_;
  NameTable value_names_, op_names_;
};

/// The text form: one line for each input, variable, op and output, in program order. parse_graph
/// parses it.
///
///     input x: f32[8,16]
///     variable w: f32[16,4] = normal(0.0, 0.02)
///     y = dot_general(x, w) {spec="mk,kn->mn"}: f32[8,4]
///     y.grad.b = dot_general(x, dy) {spec="..."}: f32[16,4] @backward <- gradient y
///     output loss = y
///     next w = w.sgd
///
/// An op of several results lists their types: `a = attention(q, k, v) {...}: f32[1,2,2,4],
/// f32[1,2,2]`; its second result is `a:1`. The regions of an op follow it, each a graph between
/// `region` and `end`:
///
///     h = while(h0) {carried=1}: f32[4]
///       region
///         input h.condition.h0: f32[4]
///         ...
///         output predicate = h.condition.compare
///       end
std::string to_text(const Graph& graph);
/// The line of one op in the text form.
std::string to_text(const Graph& graph, OpId op);
/// Parses the text form. It names operators and does not define them, so the caller passes the
/// user's own operators again.
///   throws  UserError (65) with the line when the text is malformed
Graph parse_graph(std::string_view text, OperatorSetPtr operators = nullptr);

/// Checks the invariants of a graph: operands before uses, unique names, complete lists of users,
/// next values of the variable's type. It also checks regions, which have no variables.
///   throws  InternalError that names the first fault
void verify(const Graph& graph);

/// The number of elements of the trainable variables.
int64_t parameter_count(const Graph& graph);
Bytes parameter_bytes(const Graph& graph);

/// A hash of the text form, which plans and checkpoints store. Of the user's own operators it
/// contains only the names.
uint64_t fingerprint(const Graph& graph);

}  // namespace tessera
