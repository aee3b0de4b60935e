#include "sharding/propagation/marks.h"

#include <algorithm>
#include <charconv>
#include <map>

#include "base/error.h"
#include "base/text/text.h"
#include "ir/graph/derivations.h"
#include "sharding/propagation/module_marks.h"
#include "sharding/propagation/named.h"

namespace tessera {
namespace {

std::string quoted(const Mark& mark) {
  return "'" + mark.pattern + "' (" + mark.origin + ")";
}

/// Removes brackets. Several placements of one operand are in brackets, since commas separate the
/// operands of an op: (dp: Shard(0), tp: Partial(sum)).
std::string_view without_brackets(std::string_view text) {
  text = trim(text);
  return text.starts_with("(") && text.ends_with(")") ? trim(text.substr(1, text.size() - 2))
                                                      : text;
}

DistAttr parse_one(std::string_view given, const MeshPtr& mesh, const TensorType& type) {
  const std::string_view text = without_brackets(given);
  const int rank = type.shape.size();
  DistAttr attr = text.starts_with("[")    ? parse_dist_attr(text, type.shape, mesh)
                  : text.starts_with("P(") ? parse_spec(text, mesh, rank)
                                           : parse_placements(text, mesh, rank);
  check_divisions(attr, type.shape);
  return attr;
}

OpenSpec parse_tensor(std::string_view given, const MeshPtr& mesh, const TensorType& type) {
  const std::string_view text = without_brackets(given);
  const int rank = type.shape.size();
  if (!text.starts_with("P(")) return {parse_one(text, mesh, type), {}};
  OpenSpec spec = parse_open_spec(text, mesh, rank);
  check_divisions(spec.attr, type.shape);
  return spec;
}

/// Adds the mark and its target to an error about a placement.
template <typename Read>
auto with_context(const Mark& mark, const std::string& thing, const Read& read) {
  try {
    return read();
  } catch (const UserError& error) {
    refuse_config("mark " + quoted(mark) + " does not fit " + thing + ": " + error.what_happened(),
                  error.why(), error.fix());
  }
}

std::vector<int64_t> read_parts(std::string_view item) {
  std::vector<int64_t> parts;
  if (!item.starts_with("(") || !item.ends_with(")"))
    refuse_config("'" + std::string(item) + "' is not a list of parts", "parts look like (4,1)",
                  "write one count a dim");
  for (const std::string& word : split_text(item.substr(1, item.size() - 2), ',')) {
    const std::string_view count = trim(word);
    if (count.empty()) continue;
    int64_t value = 0;
    const auto [end, error] = std::from_chars(count.data(), count.data() + count.size(), value);
    if (error != std::errc{} || end != count.data() + count.size() || value < 1)
      refuse_config("'" + word + "' is not a number of parts", "parts look like (4,1)",
                    "write one count a dim, 1 for a whole one");
    parts.push_back(value);
  }
  return parts;
}

/// Parses ((4,1),(1,1)). The counts are the numbers of parts of each factor; its axes are then
/// chosen once for all operands.
OpSharding read_operand_parts(std::string_view text, const OpView& op, const ShardingRule& rule,
                              const MeshPtr& mesh) {
  const std::vector<std::string> items =
      split_outside_brackets(text.substr(1, text.size() - 2), ',');
  if (items.size() != op.inputs.size())
    refuse_config("it places " + std::to_string(items.size()) + " inputs",
                  "the op has " + std::to_string(op.inputs.size()), "write one placement an input");
  std::vector<int64_t> factor_parts(rule.factors.size(), 0);
  for (size_t i = 0; i < items.size(); ++i) {
    const std::vector<int64_t> parts = read_parts(items[i]);
    if (parts.size() != rule.inputs[i].size())
      refuse_config("'" + items[i] + "' does not fit input " + std::to_string(i) + " " +
                        to_text(op.inputs[i]),
                    "each dim has one count", "write 1 for a whole dim");
    for (size_t d = 0; d < parts.size(); ++d) {
      const int factor = choice_for(rule.inputs[i][d], rule, {}).factor;
      if (factor < 0 || rule.factors[factor].kind == FactorKind::kWhole) {
        if (parts[d] != 1)
          refuse_config(
              "dim " + std::to_string(d) + " of input " + std::to_string(i) + " cannot be divided",
              "the operator needs it whole", "write 1 there");
        continue;
      }
      int64_t& known = factor_parts[factor];
      if (known != 0 && known != parts[d])
        refuse_config("factor '" + rule.factors[factor].name + "' is cut into " +
                          std::to_string(known) + " and into " + std::to_string(parts[d]) +
                          " parts",
                      "all operands divide a factor alike", "give both dims the same count");
      known = parts[d];
    }
  }
  for (int64_t& parts : factor_parts) parts = std::max<int64_t>(parts, 1);
  const DistAttr by_factor = from_parts(mesh, factor_parts);
  OpSharding sharding = OpSharding::replicated(mesh, rule);
  for (size_t f = 0; f < rule.factors.size(); ++f) sharding.factor_axes[f] = by_factor.dims[f].axes;
  return sharding;
}

OpSharding read_operands(std::string_view text, const OpView& op, const ShardingRule& rule,
                         const MeshPtr& mesh) {
  const std::string_view trimmed = trim(text);
  if (trimmed.starts_with("((")) return read_operand_parts(trimmed, op, rule, mesh);
  if (!trimmed.starts_with("[") || !trimmed.ends_with("]"))
    refuse_config("'" + std::string(trimmed) + "' does not place the inputs of an op",
                  "an op needs a placement for each input",
                  "write [P(\"dp\"), P(None,\"tp\")] or ((4,1),(1,1))");
  std::vector<DistAttr> attrs;
  const std::vector<std::string> items =
      split_outside_brackets(trimmed.substr(1, trimmed.size() - 2), ',');
  if (items.size() != op.inputs.size())
    refuse_config("it places " + std::to_string(items.size()) + " inputs",
                  "the op has " + std::to_string(op.inputs.size()), "write one placement an input");
  for (size_t i = 0; i < items.size(); ++i)
    attrs.push_back(parse_one(items[i], mesh, op.inputs[i]));
  return sharding_for_inputs(op, rule, attrs);
}

/// The resolved marks, to be found by what they place.
struct MarkTable {
  ResolvedMarks marks;
  std::map<int, size_t> values, ops;  // by value and by op: its index in the marks
};

/// Places a value by a text of the mark.
void resolve_tensor(const Graph& graph, const MeshPtr& mesh, const Mark& mark,
                    std::string_view placement, ValueId value, MarkTable& table) {
  const Value& v = graph.value(value);
  const std::string thing = "tensor '" + v.name + "' " + to_text(v.type);
  OpenSpec spec = with_context(mark, thing, [&] { return parse_tensor(placement, mesh, v.type); });
  DistAttr& attr = spec.attr;
  if (graph.is_input(value) && !attr.dims.empty() && attr.dims.front().chunks > 1)
    refuse_config("mark " + quoted(mark) + " divides the rows of '" + v.name + "' in chunks",
                  "a rank gets consecutive rows of a batch",
                  "write the axis without a number of chunks");
  if (!attr.partial.empty() && !may_be_partial(graph, value))
    refuse_config(
        "mark " + quoted(mark) + " makes '" + v.name + "' partial",
        "an input cannot be partial; a variable can be a partial sum only if it is initialized to "
        "zero",
        "use Replicate() or Shard(dim)");
  const auto [known, is_new] = table.values.emplace(value.index, table.marks.values.size());
  if (!is_new) {
    const MarkedValue& other = table.marks.values[known->second];
    if (other.attr == attr && other.open == spec.open) return;
    refuse_config("two marks place '" + v.name + "' differently",
                  "mark " + quoted(*other.mark) + " says " +
                      to_text(OpenSpec{other.attr, other.open}) + ", mark " + quoted(mark) +
                      " says " + to_text(spec),
                  "remove one of them, or narrow its pattern");
  }
  table.marks.values.push_back({value, std::move(attr), &mark, std::move(spec.open)});
}

/// The two sides of "[inputs] -> [results]"; "" for a side that is not there.
struct Sides {
  std::string inputs, results;
};

Sides sides_of(const Mark& mark) {
  const size_t arrow = mark.placement.find("->");
  if (arrow == std::string::npos) return {mark.placement, ""};
  return {std::string(trim(std::string_view(mark.placement).substr(0, arrow))),
          std::string(trim(std::string_view(mark.placement).substr(arrow + 2)))};
}

/// Places several values by a list in brackets.
void resolve_list(const Graph& graph, const Meshes& meshes, const MeshAssignment& assignment,
                  const Mark& mark, const std::string& thing, std::string_view list,
                  const std::vector<ValueId>& values, MarkTable& table) {
  if (list.empty()) return;
  std::vector<std::string> names;
  for (const ValueId value : values) names.push_back("'" + graph.value(value).name + "'");
  const bool is_list = list.starts_with("[") && list.ends_with("]");
  const std::vector<std::string> items =
      is_list ? split_outside_brackets(list.substr(1, list.size() - 2), ',')
              : std::vector<std::string>{};
  if (!is_list || items.size() != values.size())
    refuse_config("mark " + quoted(mark) + " does not fit " + thing + ": '" + std::string(list) +
                      "' is not a list of " + std::to_string(values.size()) + " placements",
                  names.empty() ? "there is no such value" : "the values are " + join(names, ", "),
                  "write one placement for each in [ ]");
  for (size_t i = 0; i < items.size(); ++i)
    resolve_tensor(graph, meshes[assignment.values[values[i].index]].mesh, mark, items[i],
                   values[i], table);
}

void resolve_op(const Graph& graph, const MeshPtr& mesh, const Mark& mark, std::string_view inputs,
                OpId id, const RuleLookup& rules, MarkTable& table) {
  const Op& op = graph.op(id);
  const OpView op_view = view(graph, op);
  OpSharding sharding = with_context(mark, "op '" + op.name + "'", [&] {
    return read_operands(inputs, op_view, rules(op.kind, op_view), mesh);
  });
  const auto [known, is_new] = table.ops.emplace(id.index, table.marks.ops.size());
  if (!is_new) {
    const MarkedOp& other = table.marks.ops[known->second];
    if (other.sharding == sharding) return;
    refuse_config("two marks place op '" + op.name + "' differently",
                  "mark " + quoted(*other.mark) + " says " + other.mark->placement + ", mark " +
                      quoted(mark) + " says " + mark.placement,
                  "remove one of them, or narrow its pattern");
  }
  table.marks.ops.push_back({id, std::move(sharding), &mark});
}

[[noreturn]] void refuse_unmatched(const Graph& graph, const Mark& mark) {
  std::vector<std::string> names;
  if (mark.kind == Mark::Kind::kTensor) {
    for (const Value& value : graph.values())
      if (value.producer.index < 0) names.push_back(value.name);
  } else {
    for (const Op& op : graph.ops()) {
      const size_t end = mark.kind == Mark::Kind::kOp ? op.name.size() : op.name.rfind('.');
      if (end != std::string::npos) names.push_back(op.name.substr(0, end));
    }
  }
  const std::string close = nearest(mark.pattern, names);
  refuse_config(
      "mark " + quoted(mark) + " names no " + std::string(to_text(mark.kind)) + " of this model",
      "the model has other names: the mark may be for another model",
      close.empty() ? "list the names with `tessera explain --full`"
                    : "did you mean '" + close + "'?");
}

class MarkResolver {
 public:
  MarkResolver(const Graph& graph, const Meshes& meshes, const MeshAssignment& assignment,
               const RuleLookup& rules)
      : graph_(graph), meshes_(meshes), assignment_(assignment), rules_(rules) {}

  /// Returns whether the mark names anything.
  bool resolve(const Mark& mark) {
    switch (mark.kind) {
      case Mark::Kind::kTensor: return resolve_tensors(mark);
      case Mark::Kind::kOp: return resolve_ops(mark);
      case Mark::Kind::kModule: return resolve_modules(mark);
    }
    throw InternalError("unknown kind of mark");
  }
  /// Places what the backward computes again as the marks place what it was derived from.
  void place_recomputed() {
    for (int i = 0; i < std::ssize(graph_.ops()); ++i) {
      const Op& op = graph_.op({i});
      if (op.origin.derivation != kRecomputed) continue;
      const auto source = graph_.find_op(op.origin.source);
      if (!source) continue;
      copy_mark(table_.ops, table_.marks.ops, &MarkedOp::op, *source, OpId{i});
      for (size_t k = 0; k < op.outputs.size(); ++k)
        copy_mark(table_.values, table_.marks.values, &MarkedValue::value,
                  graph_.op(*source).outputs[k], op.outputs[k]);
    }
  }

  ResolvedMarks take() { return std::move(table_.marks); }

 private:
  template <class Marked, class Id>
  static void copy_mark(std::map<int, size_t>& index, std::vector<Marked>& marks, Id Marked::* id,
                        Id from, Id to) {
    const auto found = index.find(from.index);
    if (found == index.end() || !index.emplace(to.index, marks.size()).second) return;
    Marked copy = marks[found->second];
    copy.*id = to;
    marks.push_back(std::move(copy));
  }

  bool resolve_tensors(const Mark& mark) {
    const std::vector<ValueId> values = values_named(graph_, mark.pattern);
    if (!mark.placement.empty())
      for (ValueId value : values)
        resolve_tensor(graph_, meshes_[assignment_.values[value.index]].mesh, mark, mark.placement,
                       value, table_);
    return !values.empty();
  }

  bool resolve_ops(const Mark& mark) {
    const Sides sides = sides_of(mark);
    const std::vector<OpId> ops = ops_named(graph_, mark.pattern);
    for (OpId id : ops) {
      const Op& op = graph_.op(id);
      if (!sides.inputs.empty())
        resolve_op(graph_, meshes_[assignment_.ops[id.index]].mesh, mark, sides.inputs, id, rules_,
                   table_);
      place_list(mark, "the results of op '" + op.name + "'", sides.results, op.outputs);
    }
    return !ops.empty();
  }

  bool resolve_modules(const Mark& mark) {
    const Sides sides = sides_of(mark);
    const std::vector<Module> modules = modules_of(graph_, mark.pattern);
    for (const Module& module : modules) {
      place_list(mark, "what enters module '" + module.name + "'", sides.inputs, module.inputs);
      place_list(mark, "what leaves module '" + module.name + "'", sides.results, module.outputs);
    }
    return !modules.empty();
  }

  void place_list(const Mark& mark, const std::string& thing, std::string_view list,
                  const std::vector<ValueId>& values) {
    resolve_list(graph_, meshes_, assignment_, mark, thing, list, values, table_);
  }

  const Graph& graph_;
  const Meshes& meshes_;
  const MeshAssignment& assignment_;
  const RuleLookup& rules_;
  MarkTable table_;
};

}  // namespace

bool may_be_partial(const Graph& graph, ValueId value) {
  const Variable* variable = graph.variable_of(value);
  return !graph.is_input(value) && (!variable || variable->initializer == Initializer::constant(0));
}

std::string_view to_text(Mark::Kind kind) {
  switch (kind) {
    case Mark::Kind::kTensor: return "tensor";
    case Mark::Kind::kOp: return "op";
    case Mark::Kind::kModule: return "module";
  }
  throw InternalError("unknown kind of mark");
}

ResolvedMarks resolve_marks(const Graph& graph, const Meshes& meshes,
                            const MeshAssignment& assignment, const std::vector<Mark>& marks,
                            const RuleLookup& rules) {
  MarkResolver resolver(graph, meshes, assignment, rules);
  for (const Mark& mark : marks)
    if (!resolver.resolve(mark)) refuse_unmatched(graph, mark);
  resolver.place_recomputed();
  return resolver.take();
}

std::string_view to_text(ReplicaLifetime life) {
  return life == ReplicaLifetime::kStep ? "step" : "pass";
}

std::vector<std::optional<ReplicaLifetime>> copy_lives(const Graph& graph,
                                                       const std::vector<Mark>& marks) {
  std::vector<std::optional<ReplicaLifetime>> lives;
  for (const Mark& mark : marks) {
    if (!mark.copies) continue;
    lives.resize(graph.values().size());
    for (ValueId value : values_named(graph, mark.pattern)) {
      lives[value.index] = mark.copies;
      for (OpId user : graph.value(value).users)  // a cast is read in place of the variable
        if (graph.variable_of(value) && graph.op(user).kind == "cast")
          lives[graph.op(user).outputs.front().index] = mark.copies;
    }
  }
  return lives;
}

ResolvedMarks resolve_marks(const Graph& graph, const MeshPtr& mesh,
                            const std::vector<Mark>& marks) {
  const MeshAssignment everything{std::vector<int>(graph.ops().size(), 0),
                                  std::vector<int>(graph.values().size(), 0)};
  return resolve_marks(graph, one_mesh(mesh), everything, marks);
}

}  // namespace tessera
