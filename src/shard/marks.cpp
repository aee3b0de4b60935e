#include "shard/marks.h"

#include <algorithm>
#include <charconv>
#include <map>

#include "base/error.h"
#include "base/text.h"
#include "shard/named.h"

namespace tessera {
namespace {

[[noreturn]] void refuse(const std::string& what, const std::string& why, const std::string& fix) {
  throw UserError(what, why, fix, ExitCode::kBadConfig);
}

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

DistAttr parse_one(std::string_view given, const MeshPtr& mesh, int rank) {
  const std::string_view text = without_brackets(given);
  return text.starts_with("P(") ? parse_spec(text, mesh, rank) : parse_placements(text, mesh, rank);
}

/// Adds the mark and its target to an error about a placement.
template <typename Read>
auto with_context(const Mark& mark, const std::string& thing, const Read& read) {
  try {
    return read();
  } catch (const UserError& error) {
    refuse("mark " + quoted(mark) + " does not fit " + thing + ": " + error.what_happened(),
           error.why(), error.fix());
  }
}

std::vector<int64_t> read_parts(std::string_view item) {
  std::vector<int64_t> parts;
  if (!item.starts_with("(") || !item.ends_with(")"))
    refuse("'" + std::string(item) + "' is not a list of parts", "parts look like (4,1)",
           "write one count a dim");
  for (const std::string& word : split_text(item.substr(1, item.size() - 2), ',')) {
    const std::string_view count = trim(word);
    if (count.empty()) continue;
    int64_t value = 0;
    const auto [end, error] = std::from_chars(count.data(), count.data() + count.size(), value);
    if (error != std::errc{} || end != count.data() + count.size())
      refuse("'" + word + "' is not a count", "parts look like (4,1)", "write one count a dim");
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
    refuse("it places " + std::to_string(items.size()) + " inputs",
           "the op has " + std::to_string(op.inputs.size()), "write one placement an input");
  std::vector<int64_t> factor_parts(rule.factors.size(), 0);
  for (size_t i = 0; i < items.size(); ++i) {
    const std::vector<int64_t> parts = read_parts(items[i]);
    if (parts.size() != rule.inputs[i].size())
      refuse("'" + items[i] + "' does not fit input " + std::to_string(i) + " " +
                 to_text(op.inputs[i]),
             "each dim has one count", "write 1 for a whole dim");
    for (size_t d = 0; d < parts.size(); ++d) {
      const int factor = choice_for(rule.inputs[i][d], rule, {}).factor;
      if (factor < 0 || rule.factors[factor].kind == FactorKind::kWhole) {
        if (parts[d] != 1)
          refuse(
              "dim " + std::to_string(d) + " of input " + std::to_string(i) + " cannot be divided",
              "the operator needs it whole", "write 1 there");
        continue;
      }
      int64_t& known = factor_parts[factor];
      if (known != 0 && known != parts[d])
        refuse("factor '" + rule.factors[factor].name + "' is cut into " + std::to_string(known) +
                   " and into " + std::to_string(parts[d]) + " parts",
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
    refuse("'" + std::string(trimmed) + "' does not place the inputs of an op",
           "an op needs a placement for each input",
           "write [P(\"dp\"), P(None,\"tp\")] or ((4,1),(1,1))");
  std::vector<DistAttr> attrs;
  const std::vector<std::string> items =
      split_outside_brackets(trimmed.substr(1, trimmed.size() - 2), ',');
  if (items.size() != op.inputs.size())
    refuse("it places " + std::to_string(items.size()) + " inputs",
           "the op has " + std::to_string(op.inputs.size()), "write one placement an input");
  for (size_t i = 0; i < items.size(); ++i)
    attrs.push_back(parse_one(items[i], mesh, op.inputs[i].shape.size()));
  return sharding_for_inputs(op, rule, attrs);
}

/// A zero is the partial value zero on every rank; other values can be split in many ways.
bool may_be_partial(const Graph& graph, ValueId value) {
  const Variable* variable = graph.variable_of(value);
  return !graph.is_input(value) && (!variable || variable->initializer == Initializer::constant(0));
}

/// The resolved marks, to be found by what they place.
struct MarkTable {
  ResolvedMarks marks;
  std::map<int, size_t> values, ops;  // by value and by op: its index in the marks
};

void resolve_tensor(const Graph& graph, const MeshPtr& mesh, const Mark& mark, ValueId value,
                    MarkTable& table) {
  const Value& v = graph.value(value);
  const std::string thing = "tensor '" + v.name + "' " + to_text(v.type);
  DistAttr attr = with_context(
      mark, thing, [&] { return parse_one(mark.placement, mesh, v.type.shape.size()); });
  if (!attr.partial.empty() && !may_be_partial(graph, value))
    refuse(
        "mark " + quoted(mark) + " makes '" + v.name + "' partial",
        "an input cannot be partial; a variable can be a partial sum only if it is initialized to "
        "zero",
        "use Replicate() or Shard(dim)");
  const auto [known, is_new] = table.values.emplace(value.index, table.marks.values.size());
  if (!is_new) {
    const MarkedValue& other = table.marks.values[known->second];
    if (other.attr == attr) return;
    refuse("two marks place '" + v.name + "' differently",
           "mark " + quoted(*other.mark) + " says " + to_text(other.attr) + ", mark " +
               quoted(mark) + " says " + to_text(attr),
           "remove one of them, or narrow its pattern");
  }
  table.marks.values.push_back({value, std::move(attr), &mark});
}

void resolve_op(const Graph& graph, const MeshPtr& mesh, const Mark& mark, OpId id,
                const RuleLookup& rules, MarkTable& table) {
  const Op& op = graph.op(id);
  const OpView op_view = view(graph, op);
  OpSharding sharding = with_context(mark, "op '" + op.name + "'", [&] {
    return read_operands(mark.placement, op_view, rules(op.kind, op_view), mesh);
  });
  const auto [known, is_new] = table.ops.emplace(id.index, table.marks.ops.size());
  if (!is_new) {
    const MarkedOp& other = table.marks.ops[known->second];
    if (other.sharding == sharding) return;
    refuse("two marks place op '" + op.name + "' differently",
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
    for (const Op& op : graph.ops()) names.push_back(op.name);
  }
  const std::string close = nearest(mark.pattern, names);
  refuse("mark " + quoted(mark) + " names no " +
             (mark.kind == Mark::Kind::kTensor ? "tensor" : "op") + " of this model",
         "the model has other names: the mark may be for another model",
         close.empty() ? "list the names with `tessera explain`" : "did you mean '" + close + "'?");
}

}  // namespace

ResolvedMarks resolve_marks(const Graph& graph, const Meshes& meshes,
                            const MeshAssignment& assignment, const std::vector<Mark>& marks,
                            const RuleLookup& rules) {
  MarkTable table;
  const auto mesh_at = [&](const std::vector<int>& list, int index) -> const MeshPtr& {
    return meshes[list[index]].mesh;
  };
  for (const Mark& mark : marks) {
    bool found = false;
    if (mark.kind == Mark::Kind::kTensor) {
      for (ValueId value : values_named(graph, mark.pattern)) {
        found = true;
        if (!mark.placement.empty())
          resolve_tensor(graph, mesh_at(assignment.values, value.index), mark, value, table);
      }
    } else {
      for (OpId op : ops_named(graph, mark.pattern)) {
        found = true;
        if (!mark.placement.empty())
          resolve_op(graph, mesh_at(assignment.ops, op.index), mark, op, rules, table);
      }
    }
    if (!found) refuse_unmatched(graph, mark);
  }
  return std::move(table.marks);
}

ResolvedMarks resolve_marks(const Graph& graph, const MeshPtr& mesh,
                            const std::vector<Mark>& marks) {
  const MeshAssignment everything{std::vector<int>(graph.ops().size(), 0),
                                  std::vector<int>(graph.values().size(), 0)};
  return resolve_marks(graph, one_mesh(mesh), everything, marks);
}

}  // namespace tessera
