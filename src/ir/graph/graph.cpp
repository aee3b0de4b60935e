#include "ir/graph/graph.h"

#include <algorithm>
#include <iterator>

#include "base/error.h"
#include "base/random.h"
#include "base/text/text.h"

namespace tessera {
namespace {

bool is_legal_name(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](unsigned char letter) {
    return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
           (letter >= '0' && letter <= '9') || letter == '_' || letter == '.' || letter == '-' ||
           letter == ':';
  });
}

/// The variable of `value` among `variables`, whose values ascend; their end when it is none.
template <class Variables>
auto find_variable(Variables& variables, ValueId value) {
  const auto found = std::lower_bound(
      variables.begin(), variables.end(), value,
      [](const Variable& variable, ValueId wanted) { return variable.value < wanted; });
  return found != variables.end() && found->value == value ? found : variables.end();
}

}  // namespace

std::string_view to_text(Role role) {
  switch (role) {
    case Role::kForward: return "forward";
    case Role::kBackward: return "backward";
    case Role::kOptimizer: return "optimizer";
  }
  throw InternalError("unknown role");
}

std::string to_text(const Initializer& initializer) {
  switch (initializer.kind) {
    case Initializer::Kind::kConstant: return "constant(" + double_text(initializer.a) + ")";
    case Initializer::Kind::kNormal:
      return "normal(" + double_text(initializer.a) + ", " + double_text(initializer.b) + ")";
    case Initializer::Kind::kUniform:
      return "uniform(" + double_text(initializer.a) + ", " + double_text(initializer.b) + ")";
  }
  throw InternalError("unknown initializer");
}

ValueId Graph::add_value(const std::string& name, const TensorType& type, OpId producer) {
  ensure(is_legal_name(name), [&] { return "'" + name + "' is not a name"; });
  const int index = static_cast<int>(values_.size());
  ensure(value_names_.add(name, values_), [&] { return "the name '" + name + "' is taken"; });
  values_.push_back({name, type, producer, {}});
  return {index};
}

ValueId Graph::add_input(const std::string& name, const TensorType& type) {
  inputs_.push_back(add_value(name, type, {}));
  return inputs_.back();
}

ValueId Graph::add_variable(const std::string& name, const TensorType& type,
                            const Initializer& initializer, bool trainable, Origin origin) {
  const ValueId value = add_value(name, type, {});
  variables_.push_back({value, std::nullopt, initializer, trainable, std::move(origin)});
  return value;
}

OpId Graph::add_op(std::string name, std::string kind, Attributes attributes,
                   std::vector<ValueId> inputs, const std::vector<TensorType>& outputs, Role role,
                   Origin origin, std::vector<GraphPtr> regions) {
  const OpId id{static_cast<int>(ops_.size())};
  ensure(!find_op(name), [&] { return "the name '" + name + "' is taken"; });
  for (ValueId input : inputs) {
    ensure(input.index >= 0 && input.index < std::ssize(values_),
           [&] { return "an operand of '" + name + "' does not exist"; });
    values_[input.index].users.push_back(id);
  }
  Op op{std::move(name),   std::move(kind),   std::move(attributes), std::move(inputs), {}, role,
        std::move(origin), std::move(regions)};
  op.outputs.reserve(outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i)
    op.outputs.push_back(
        add_value(i == 0 ? op.name : op.name + ":" + std::to_string(i), outputs[i], id));
  ops_.push_back(std::move(op));
  op_names_.add(ops_.back().name, ops_);
  return id;
}

void Graph::add_output(const std::string& name, ValueId value) {
  outputs_.emplace_back(name, value);
}

void Graph::remove_output(const std::string& name) {
  const auto erased =
      std::erase_if(outputs_, [&](const auto& output) { return output.first == name; });
  ensure(erased > 0, [&] { return "the graph has no output '" + name + "'"; });
}

void Graph::set_next(ValueId variable, ValueId next) {
  const auto found = find_variable(variables_, variable);
  ensure(found != variables_.end(),
         [&] { return "'" + value(variable).name + "' is not a variable"; });
  ensure(type(variable) == type(next),
         [&] { return "the next value of '" + value(variable).name + "' has another type"; });
  found->next = next;
}

const Variable* Graph::variable_of(ValueId value) const {
  const auto found = find_variable(variables_, value);
  return found == variables_.end() ? nullptr : &*found;
}

bool Graph::is_input(ValueId value) const {
  return std::ranges::binary_search(inputs_, value);
}

std::optional<ValueId> Graph::find_value(std::string_view name) const {
  const std::optional<int> index = value_names_.find(name, values_);
  return index ? std::optional(ValueId{*index}) : std::nullopt;
}

std::optional<OpId> Graph::find_op(std::string_view name) const {
  const std::optional<int> index = op_names_.find(name, ops_);
  return index ? std::optional(OpId{*index}) : std::nullopt;
}

ValueId Graph::output(std::string_view name) const {
  for (const auto& [output_name, value] : outputs_)
    if (output_name == name) return value;
  throw InternalError("the graph has no output '" + std::string(name) + "'");
}

std::string Graph::unique_name(const std::string& name) const {
  const auto taken = [&](const std::string& candidate) {
    return find_op(candidate) || find_value(candidate);
  };
  if (!taken(name)) return name;
  for (int i = 1;; ++i) {
    std::string candidate = name + "_" + std::to_string(i);
    if (!taken(candidate)) return candidate;
  }
}

void verify(const Graph& graph) {
  std::vector<std::vector<OpId>> users(graph.values().size());
  for (int index = 0; index < std::ssize(graph.ops()); ++index) {
    const Op& op = graph.op({index});
    for (ValueId input : op.inputs) {
      ensure(graph.value(input).producer.index < index, [&] {
        return "'" + op.name + "' uses '" + graph.value(input).name + "' before it is made";
      });
      users[input.index].push_back({index});
    }
    for (ValueId output : op.outputs)
      ensure(graph.value(output).producer == OpId{index}, [&] {
        return "'" + op.name + "' does not make its result '" + graph.value(output).name + "'";
      });
    for (const GraphPtr& region : op.regions) {
      ensure(region && region->variables().empty(),
             [&] { return "a region of '" + op.name + "' has variables of its own"; });
      verify(*region);
    }
  }
  for (size_t i = 0; i < users.size(); ++i)
    ensure(users[i] == graph.values()[i].users,
           [&] { return "the users of '" + graph.values()[i].name + "' are not complete"; });
  for (const Variable& variable : graph.variables())
    if (variable.next)
      ensure(graph.type(variable.value) == graph.type(*variable.next),
             [&] { return "next of '" + graph.value(variable.value).name + "' has another type"; });
}

uint64_t fingerprint(const Graph& graph) {
  return stable_hash(to_text(graph));
}

int64_t parameter_count(const Graph& graph) {
  int64_t count = 0;
  for (const Variable& variable : graph.variables())
    if (variable.trainable) count += element_count(graph.type(variable.value).shape);
  return count;
}

Bytes parameter_bytes(const Graph& graph) {
  Bytes bytes{0};
  for (const Variable& variable : graph.variables())
    if (variable.trainable) bytes += byte_size(graph.type(variable.value));
  return bytes;
}

}  // namespace tessera
