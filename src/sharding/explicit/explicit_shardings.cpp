#include "sharding/explicit/explicit_shardings.h"

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "base/error.h"
#include "base/text/count_text.h"
#include "base/text/text.h"
#include "ir/graph/derivations.h"
#include "sharding/explicit/internal/section_lookup.h"
#include "sharding/explicit/internal/sharding_text.h"
#include "sharding/explicit/name_patterns.h"
#include "sharding/explicit/stage_patterns.h"
#include "sharding/propagation/candidates.h"
#include "sharding/propagation/marks.h"

namespace tessera {
namespace {

constexpr const char* kReason = "the plan's shardings";
/// The reason with the name of the op.
std::string reason_of_op(const std::string& op) {
  return "the plan's sharding of op '" + op + "'";
}
constexpr std::string_view kOn = " on ";

// ---- canonical placements ----

std::string value_placement_text(const ShardedGraph& sharded, ValueId value,
                                 const DistAttr& canonical_placement) {
  const int stage = sharded.stages.values[value.index];
  return to_text(canonical_placement) +
         (sharded.meshes.size() > 1 ? std::string(kOn) + sharded.meshes[stage].name : "");
}

int stage_called(std::string_view name, const Meshes& meshes) {
  std::vector<std::string> names;
  for (int i = 0; i < std::ssize(meshes); ++i) {
    if (meshes[i].name == name) return i;
    names.push_back(meshes[i].name);
  }
  refuse_config(
      "the plan's shardings name the mesh '" + std::string(name) + "', which is not there",
      "the meshes are " + join(names, ", "), "use one of these, or add the mesh to the plan");
}

struct ValuePlacement {
  int stage = 0;
  DistAttr attr;
};

ValuePlacement read_value_placement(std::string_view text, const Shape& shape,
                                    const Meshes& meshes) {
  const size_t on = text.find(kOn);
  ValuePlacement canonical_placement;
  if (on != std::string_view::npos)
    canonical_placement.stage = stage_called(trim(text.substr(on + kOn.size())), meshes);
  else if (meshes.size() > 1)
    refuse_config("'" + std::string(text) + "' names no mesh", "the plan has several meshes",
                  "write it as [@dp, *] on " + meshes.front().name);
  canonical_placement.attr =
      parse_value_placement(text.substr(0, std::min(on, text.size())), shape,
                            meshes[static_cast<size_t>(canonical_placement.stage)].mesh);
  return canonical_placement;
}

/// Does an op that reads the value take it as a partial sum over the axis?
bool is_passed_on(const Graph& graph, const ShardedGraph& sharded, ValueId value, int axis) {
  const auto passes = [&](OpId user) {
    const std::vector<ValueId>& inputs = graph.op(user).inputs;
    const OpSharding& sharding = sharded.at(user);
    return std::any_of(
        sharding.linear.begin(), sharding.linear.end(), [&](const LinearAxis& passed) {
          const std::vector<int>& set = sharded.rules[user.index].linear[passed.set];
          return passed.axis == axis && std::any_of(set.begin(), set.end(), [&](int input) {
                   return inputs[input] == value;
                 });
        });
  };
  const std::vector<OpId>& users = graph.value(value).users;
  return std::any_of(users.begin(), users.end(), passes);
}

/// By value that an op makes, the variable whose next value it is.
std::vector<ValueId> variables_of_next(const Graph& graph) {
  std::vector<ValueId> variables(graph.values().size());
  for (const Variable& variable : graph.variables())
    if (variable.next && graph.value(*variable.next).producer.index >= 0)
      variables[variable.next->index] = variable.value;
  return variables;
}

// ---- resolve ----

/// Decisions with the names that they are for, in order of their first names.
class Decisions {
 public:
  void add(const std::string& text, const std::string& name) {
    const auto [found, is_new] = positions_.try_emplace(text, list_.size());
    if (is_new) list_.push_back({text, {}});
    list_[found->second].names.push_back(name);
  }
  std::vector<PatternDecision> take() {
    for (PatternDecision& decision : list_) decision.names = to_patterns(decision.names);
    return std::move(list_);
  }

 private:
  std::vector<PatternDecision> list_;
  std::unordered_map<std::string, size_t> positions_;
};

/// The stages of all ops; none when there is one mesh, or they are known.
std::vector<PatternDecision> stages_as_patterns(const Graph& graph, const std::vector<int>& ops,
                                                const Meshes& meshes, const SectionLookup& known) {
  if (meshes.size() == 1) return {};
  std::vector<std::string> names, stages;
  bool is_known = true;
  for (size_t i = 0; i < graph.ops().size(); ++i) {
    names.push_back(graph.ops()[i].name);
    stages.push_back(meshes[ops[i]].name);
    const std::string* stage = known.stage(names.back());
    is_known = is_known && stage && *stage == stages.back();
  }
  return is_known ? std::vector<PatternDecision>() : stage_patterns(names, stages);
}

class Resolver {
 public:
  Resolver(const Graph& graph, const ShardedGraph& sharded, std::string_view name,
           const Shardings& known)
      : graph_(graph), sharded_(sharded), known_(known, name) {}

  ShardingSection run() {
    section_.stages = stages_as_patterns(graph_, sharded_.stages.ops, sharded_.meshes, known_);
    for (int i = 0; i < std::ssize(graph_.ops()); ++i) resolve_op({i});
    const std::vector<ValueId> variables = variables_of_next(graph_);
    for (int i = 0; i < std::ssize(graph_.values()); ++i)
      if (variables[i].index < 0) resolve_value({i});
    for (int i = 0; i < std::ssize(graph_.values()); ++i) resolve_copies({i});
    section_.copies = copies_.take();
    section_.ops = ops_.take();
    section_.values = values_.take();
    return std::move(section_);
  }

 private:
  void resolve_op(OpId id) {
    const Op& op = graph_.op(id);
    if (const std::string* known = known_.op(op.name); known && is_same(*known, op, id)) return;
    ops_.add(to_text(sharded_.rules[id.index], sharded_.at(id)), op.name);
  }

  bool is_same(const std::string& known, const Op& op, OpId id) const {
    try {
      return parse_op_sharding(known, view(graph_, op), sharded_.rules[id.index],
                               sharded_.at(id).mesh) == sharded_.at(id);
    } catch (const UserError&) {
      return false;  // the op has another shape here
    }
  }

  void resolve_value(ValueId value) {
    const Value& v = graph_.value(value);
    const DistAttr& canonical_placement = sharded_.at(value);
    if (const std::string* known = known_.value(v.name)) {
      if (is_same(*known, value)) return;
    } else if (v.producer.index >= 0 &&
               default_placement(graph_, sharded_, value) == canonical_placement) {
      return;
    }
    values_.add(value_placement_text(sharded_, value, canonical_placement), v.name);
  }

  bool is_same(const std::string& known, ValueId value) const {
    try {
      const ValuePlacement canonical_placement =
          read_value_placement(known, graph_.type(value).shape, sharded_.meshes);
      return canonical_placement.stage == sharded_.stages.values[value.index] &&
             canonical_placement.attr == sharded_.at(value);
    } catch (const UserError&) {
      return false;
    }
  }

  void resolve_copies(ValueId value) {
    const std::string& name = graph_.value(value).name;
    const std::string* known = known_.copies(name);
    const std::string_view usual =
        known ? std::string_view(*known) : to_text(ReplicaLifetime::kStep);
    if (const std::string_view life = to_text(sharded_.replica_lifetime(value)); life != usual)
      copies_.add(std::string(life), name);
  }

  const Graph& graph_;
  const ShardedGraph& sharded_;
  SectionLookup known_;
  ShardingSection section_;
  Decisions ops_, values_, copies_;
};

// ---- apply ----

[[noreturn]] void refuse_missing(const std::string& what, const SectionLookup& lookup) {
  refuse_config(
      "the plan's shardings say nothing of " + what + " of the program '" + lookup.name() + "'",
      "explicit shardings have every op, input and variable: nothing is propagated",
      "make them anew for this model with `tessera explain --explicit`, or add it to the "
      "section '" +
          lookup.name() + "'");
}

int stage_of(const Op& op, const Meshes& meshes, const SectionLookup& lookup) {
  if (meshes.size() == 1) return 0;
  // The stages are of the graph before the passes, in which nothing is computed again.
  const bool is_again = op.origin.derivation == kRecomputed;
  const std::string* name = lookup.stage(is_again ? op.origin.source : op.name);
  if (!name) refuse_missing("the stage of op '" + op.name + "'", lookup);
  return stage_called(*name, meshes);
}

class Placer {
 public:
  Placer(const Graph& graph, const Meshes& meshes, const Shardings& shardings,
         std::string_view name, const RuleLookup& rules)
      : graph_(graph), lookup_(shardings, name), rules_(rules) {
    sharded_.meshes = meshes;
  }

  ShardedGraph run() {
    for (const Op& op : graph_.ops()) place_op(op);
    sharded_.stages.values.resize(graph_.values().size(), 0);
    sharded_.values.resize(graph_.values().size());
    sharded_.value_reasons.resize(graph_.values().size());
    const std::vector<ValueId> variables = variables_of_next(graph_);
    for (int i = 0; i < std::ssize(graph_.values()); ++i)
      if (variables[i].index < 0) place_value({i});
    for (int i = 0; i < std::ssize(graph_.values()); ++i)
      if (variables[i].index >= 0) place_next({i}, variables[i]);
    for (int i = 0; i < std::ssize(graph_.values()); ++i) place_copies({i});
    refuse_unused("op", lookup_.unused_ops());
    refuse_unused("value", lookup_.unused_values());
    refuse_unused("value", lookup_.unused_copies());
    return std::move(sharded_);
  }

 private:
  std::string program() const { return "the program '" + lookup_.name() + "'"; }

  [[noreturn]] void refuse_missing(const std::string& what) const {
    tessera::refuse_missing(what, lookup_);
  }

  void refuse_unused(const std::string& kind, const std::vector<std::string>& names) const {
    if (names.empty()) return;
    std::vector<std::string> present;
    if (kind == "op")
      for (const Op& op : graph_.ops()) present.push_back(op.name);
    else
      for (const Value& value : graph_.values()) present.push_back(value.name);
    const std::string close = nearest(names.front(), present);
    refuse_config(
        "the section '" + lookup_.name() + "' of the plan's shardings has the " + kind + " '" +
            names.front() + "', which " + program() + " lacks" +
            (names.size() > 1 ? " (and " + std::to_string(names.size() - 1) + " more)" : ""),
        "the shardings may be for another model",
        close.empty() ? "make them anew with `tessera explain --explicit`"
                      : "did you mean '" + close + "'?");
  }

  /// Adds the name to an error about a decision.
  template <typename Read>
  auto with_name(const std::string& thing, const Read& read) const {
    try {
      return read();
    } catch (const UserError& error) {
      refuse_config("the plan's sharding of " + thing + ": " + error.what_happened(), error.why(),
                    error.fix());
    }
  }

  void place_op(const Op& op) {
    const int stage = stage_of(op, sharded_.meshes, lookup_);
    const std::string* text = lookup_.op(op.name);
    if (!text) refuse_missing("op '" + op.name + "'");
    const OpView op_view = view(graph_, op);
    RulePtr rule = rules_.find(op.kind, op_view);
    sharded_.ops.push_back(with_name("op '" + op.name + "'", [&] {
      return parse_op_sharding(*text, op_view, *rule, sharded_.meshes[stage].mesh);
    }));
    sharded_.rules.push_back(std::move(rule));
    sharded_.stages.ops.push_back(stage);
  }

  void place_value(ValueId value) {
    const Value& v = graph_.value(value);
    const auto i = static_cast<size_t>(value.index);
    const bool is_made = v.producer.index >= 0;
    if (is_made) sharded_.stages.values[i] = sharded_.stages.ops[v.producer.index];
    const std::string* text = lookup_.value(v.name);
    if (!text && !is_made)
      refuse_missing((graph_.is_input(value) ? "input '" : "variable '") + v.name + "'");
    if (!text) {
      sharded_.values[i] = default_placement(graph_, sharded_, value);
      sharded_.value_reasons[i] = reason_of_op(graph_.op(v.producer).name);
      return;
    }
    ValuePlacement canonical_placement = with_name("value '" + v.name + "'", [&] {
      return read_value_placement(*text, v.type.shape, sharded_.meshes);
    });
    if (is_made && canonical_placement.stage != sharded_.stages.values[i])
      refuse_config("the plan's sharding of value '" + v.name + "' puts it on mesh '" +
                        sharded_.meshes[canonical_placement.stage].name + "'",
                    "a value that an op makes is on the mesh of the op",
                    "write 'on " + sharded_.meshes[sharded_.stages.values[i]].name + "'");
    if (!is_made && !canonical_placement.attr.partial.empty() && !may_be_partial(graph_, value))
      refuse_config("the plan's sharding of '" + v.name + "' makes it partial",
                    "an input cannot be partial; a variable can be a partial sum only if it is "
                    "initialized to zero",
                    "remove {partial ...}");
    check_micro_batches(value, canonical_placement.attr);
    sharded_.stages.values[i] = canonical_placement.stage;
    sharded_.values[i] = std::move(canonical_placement.attr);
    sharded_.value_reasons[i] = kReason;
  }

  /// The rows of every input are divided by the micro-batches of the plan first.
  void check_micro_batches(ValueId value, const DistAttr& canonical_placement) const {
    if (!graph_.is_input(value) || canonical_placement.dims.empty() ||
        !is_time(*canonical_placement.mesh, 0))
      return;
    const std::vector<int>& axes = canonical_placement.dims.front().axes;
    if (!axes.empty() && axes.front() == 0) return;
    const std::string count = counted(canonical_placement.mesh->shape()[0], "micro-batch");
    refuse_config("the plan has " + count + ", and its sharding of input '" +
                      graph_.value(value).name + "' is for one",
                  "micro-batches divide the rows of every input, and shardings say '@" +
                      std::string(kMicroBatchAxis) + "' of all that they divide",
                  "make the plan anew with `tessera explain --explicit` for " + count +
                      ", or set micro_batches to 1");
  }

  /// The next value of a variable has the canonical placement of the variable.
  void place_next(ValueId value, ValueId variable) {
    sharded_.stages.values[value.index] = sharded_.stages.ops[graph_.value(value).producer.index];
    sharded_.values[value.index] = sharded_.at(variable);
    sharded_.value_reasons[value.index] = kReason;
  }

  void place_copies(ValueId value) {
    const std::string& name = graph_.value(value).name;
    const std::string* life = lookup_.copies(name);
    if (!life || *life == to_text(ReplicaLifetime::kStep)) return;
    if (*life != to_text(ReplicaLifetime::kPass))
      refuse_config("the plan's shardings let copies of '" + name + "' live for a '" + *life + "'",
                    "a copy lives for a step or for a pass", "write \"step\" or \"pass\"");
    sharded_.copies.resize(graph_.values().size(), ReplicaLifetime::kStep);
    sharded_.copies[value.index] = ReplicaLifetime::kPass;
  }

  const Graph& graph_;
  SectionLookup lookup_;
  RuleCache rules_;
  ShardedGraph sharded_;
};

}  // namespace

DistAttr default_placement(const Graph& graph, const ShardedGraph& sharded, ValueId value) {
  const OpId producer = graph.value(value).producer;
  const Op& op = graph.op(producer);
  const auto output = std::find(op.outputs.begin(), op.outputs.end(), value) - op.outputs.begin();
  DistAttr attr = output_attr(view(graph, op), sharded.rules[producer.index], sharded.at(producer),
                              static_cast<int>(output));
  erase_if(attr.partial, [&](const PartialAxis& partial) {
    return !is_passed_on(graph, sharded, value, partial.axis);
  });
  return attr;
}

ShardingSection to_shardings(const Graph& graph, const ShardedGraph& sharded, std::string_view name,
                             const Shardings& known) {
  return Resolver(graph, sharded, name, known).run();
}

ShardedGraph apply_shardings(const Graph& graph, const Meshes& meshes, const Shardings& shardings,
                             std::string_view name, const RuleLookup& rules) {
  return Placer(graph, meshes, shardings, name, rules).run();
}

void serial_to_shardings(const Graph& serial, const SerialDecisions& decisions,
                         const Meshes& meshes, std::string_view name, const Shardings& known,
                         ShardingSection& section) {
  section.stages = stages_as_patterns(serial, decisions.stages, meshes, SectionLookup(known, name));
  std::vector<std::string> kept;
  for (size_t i = 0; i < serial.ops().size(); ++i)
    if (decisions.kept[i]) kept.push_back(serial.ops()[i].name);
  section.kept = to_patterns(kept);
}

SerialDecisions serial_decisions(const Graph& serial, const Meshes& meshes,
                                 const Shardings& shardings, std::string_view name) {
  const SectionLookup lookup(shardings, name);
  SerialDecisions decisions;
  for (const Op& op : serial.ops()) decisions.stages.push_back(stage_of(op, meshes, lookup));
  decisions.kept.resize(serial.ops().size(), false);
  for (const std::string& kept : lookup.kept()) {
    const std::optional<OpId> op = serial.find_op(kept);
    // A program without a section may lack ops of the training step, such as dropout.
    if (!op && !lookup.has_own_kept()) continue;
    if (!op)
      refuse_config("the section '" + lookup.name() + "' of the plan's shardings keeps the op '" +
                        kept + "', which the program lacks",
                    "the shardings may be for another model",
                    "make them anew with `tessera explain --explicit`");
    decisions.kept[op->index] = true;
  }
  return decisions;
}

DistAttr training_placement(const Shardings& shardings, const std::string& value,
                            const Shape& shape, const Meshes& meshes) {
  SectionLookup lookup(shardings, kTrainSection);
  const std::string* text = lookup.value(value);
  if (!text)
    refuse_config("the plan's shardings say nothing of '" + value + "'",
                  "explicit shardings have every input and variable",
                  "make them anew for this model with `tessera explain --explicit`");
  return read_value_placement(*text, shape, meshes).attr;
}

}  // namespace tessera
