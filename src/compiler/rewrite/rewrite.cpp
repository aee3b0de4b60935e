#include "compiler/rewrite/rewrite.h"

#include <algorithm>
#include <chrono>

#include "base/error.h"
#include "compiler/rewrite/draft_copy.h"
#include "compiler/rewrite/internal/algebra.h"
#include "compiler/rewrite/internal/common_subexpressions.h"
#include "compiler/rewrite/internal/dead_code.h"
#include "compiler/rewrite/internal/fold.h"
#include "compiler/rewrite/recompute.h"
#include "sharding/propagation/module_marks.h"
#include "sharding/propagation/named.h"

namespace tessera {
namespace {

bool contains(const std::vector<std::string>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

const GraphPass* find_pass(std::span<const GraphPass> table, std::string_view name) {
  const auto found = std::ranges::find(table, name, &GraphPass::name);
  return found == table.end() ? nullptr : &*found;
}

/// Refuses passes that contradict each other.
void check_pass(const GraphPass& pass, std::span<const GraphPass> table,
                const std::vector<std::string>& disabled) {
  const std::string name(pass.name);
  for (std::string_view other : pass.needs) {
    const GraphPass* needed = find_pass(table, other);
    ensure(needed && needed < &pass, [&] {
      return "the pass '" + std::string(other) + "' stands before '" + name + "', which needs it";
    });
    if (contains(disabled, other))
      refuse_config(
          "the compiler pass '" + std::string(other) + "' is disabled but '" + name + "' is not",
          "'" + name + "' needs what '" + std::string(other) + "' makes",
          "disable both of them, or neither");
  }
  for (std::string_view other : pass.excludes)
    if (find_pass(table, other) && !contains(disabled, other))
      refuse_config(
          "the compiler passes '" + name + "' and '" + std::string(other) + "' exclude each other",
          "each of them undoes what the other one makes", "disable one of them");
}

std::vector<OpId> makers_of(const std::vector<ValueId>& values, const Graph& graph) {
  std::vector<OpId> ops;
  for (ValueId value : values)
    if (const OpId maker = graph.value(value).producer; maker.index >= 0) ops.push_back(maker);
  return ops;
}

/// The ops that the mark names, or whose results it names, in order. Of a module those that make
/// what enters it, too.
std::vector<OpId> ops_of(const Mark& mark, const Graph& graph) {
  if (mark.kind == Mark::Kind::kTensor) return makers_of(values_named(graph, mark.pattern), graph);
  std::vector<OpId> ops = ops_named_by(graph, mark);
  if (mark.kind == Mark::Kind::kModule && !mark.placement.empty())
    for (const Module& module : modules_of(graph, mark.pattern))
      for (OpId maker : makers_of(module.inputs, graph)) ops.push_back(maker);
  return ops;
}

/// Runs a pass and returns whether it changed anything.
bool run_pass(const GraphPass& pass, GraphDraft& draft, GraphPassReport& report) {
  const auto start = std::chrono::steady_clock::now();
  pass.run(draft);
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
  report.time += Seconds(time.count());
  const std::vector<std::string> changes = draft.take_changes();
  report.changes.insert(report.changes.end(), changes.begin(), changes.end());
  return !changes.empty();
}

}  // namespace

std::span<const GraphPass> graph_passes() {
  static const std::vector<GraphPass> table = {
      {"fold", fold_constants},
      {"algebra", simplify_algebra},
      {"cse", merge_common_subexpressions},
      {"dead-code", drop_dead_code},
      {"recompute", recompute_in_backward},
  };
  return table;
}

std::vector<const GraphPass*> enabled_passes(std::span<const GraphPass> table,
                                             const std::vector<std::string>& disabled) {
  std::vector<const GraphPass*> passes;
  for (const GraphPass& pass : table) {
    if (contains(disabled, pass.name)) continue;
    check_pass(pass, table, disabled);
    passes.push_back(&pass);
  }
  return passes;
}

Rewritten rewrite(const Graph& graph, const RewriteBounds& bounds,
                  std::span<const GraphPass* const> passes) {
  GraphDraft draft(graph, bounds);
  Rewritten result;
  for (const GraphPass* pass : passes) result.passes.push_back({pass->name, Seconds(0), {}});
  for (bool changed = !passes.empty(); changed;) {
    changed = false;
    for (size_t i = 0; i < passes.size(); ++i)
      changed |= run_pass(*passes[i], draft, result.passes[i]);
  }
  result.made = graph_of(draft);
  check_rewritten(graph, result.made.graph);
  return result;
}

std::vector<bool> ops_kept_by(const Graph& graph, const std::vector<Mark>& marks) {
  std::vector<bool> kept(graph.ops().size(), false);
  for (const Mark& mark : marks)
    for (OpId op : ops_of(mark, graph)) {
      kept[op.index] = true;
      if (mark.placement.empty()) break;
    }
  return kept;
}

MeshAssignment assignment_after(const MeshAssignment& before, const RewrittenGraph& made) {
  MeshAssignment after;
  for (OpId op : made.op_before) after.ops.push_back(before.ops[op.index]);
  for (ValueId value : made.value_before) after.values.push_back(before.values[value.index]);
  return after;
}

void check_rewritten(const Graph& before, const Graph& after) {
  const auto same_value = [&](ValueId a, ValueId b, const std::string& what) {
    ensure(before.value(a).name == after.value(b).name && before.type(a) == after.type(b),
           [&] { return "a rewrite keeps " + what + " '" + before.value(a).name + "'"; });
  };
  ensure(before.inputs().size() == after.inputs().size(), "a rewrite keeps the inputs");
  for (size_t i = 0; i < before.inputs().size(); ++i)
    same_value(before.inputs()[i], after.inputs()[i], "input");
  ensure(before.outputs().size() == after.outputs().size(), "a rewrite keeps the outputs");
  for (size_t i = 0; i < before.outputs().size(); ++i) {
    const auto& [name, value] = before.outputs()[i];
    ensure(after.outputs()[i].first == name &&
               after.type(after.outputs()[i].second) == before.type(value),
           [&] { return "a rewrite keeps output '" + name + "'"; });
  }
  for (const Variable& variable : before.variables()) {
    const auto value = after.find_value(before.value(variable.value).name);
    const Variable* kept = value ? after.variable_of(*value) : nullptr;
    ensure(kept && kept->initializer == variable.initializer &&
               kept->trainable == variable.trainable &&
               kept->next.has_value() == variable.next.has_value(),
           [&] { return "a rewrite keeps variable '" + before.value(variable.value).name + "'"; });
    same_value(variable.value, kept->value, "variable");
  }
  for (const Variable& variable : after.variables()) {
    const std::string& name = after.value(variable.value).name;
    ensure(before.find_value(name) || before.find_value(variable.origin.source), [&] {
      return "the variable '" + name + "', which a rewrite adds, derives from a value";
    });
  }
}

}  // namespace tessera
