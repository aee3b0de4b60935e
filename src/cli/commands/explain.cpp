#include "cli/commands/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <iostream>

#include "base/count_text.h"
#include "base/error.h"
#include "base/text.h"
#include "cli/print/explain_name.h"
#include "cli/print/explanation.h"
#include "cli/print/like_rows.h"
#include "cli/print/notes.h"
#include "cli/print/text_table.h"
#include "cli/run/session.h"

namespace tessera {
namespace {

constexpr Role kRoles[] = {Role::kForward, Role::kBackward, Role::kOptimizer};

std::vector<ValueFacts> parameters_of(const Graph& graph, const ShardedGraph& sharded) {
  std::vector<ValueFacts> list;
  for (const Variable& variable : graph.variables())
    if (variable.trainable) list.push_back(facts_of(graph, sharded, variable.value));
  return list;
}

/// The memory of a rank of one mesh.
struct MeshMemory {
  std::string mesh;
  Bytes state{0};  // of all variables, with optimizer state
  Bytes arena{0};
};

std::vector<MeshMemory> memory_of(const Graph& graph, const Compiled& compiled) {
  std::vector<MeshMemory> list;
  for (MeshIndex i : compiled.arenas.indices())
    list.push_back({compiled.mesh_names[i], Bytes(0), compiled.arenas[i].size});
  for (const Variable& variable : graph.variables()) {
    const StageIndex stage(compiled.sharded.stages.values[variable.value.index]);
    list[compiled.mesh_of_stage[stage].value()].state +=
        facts_of(graph, compiled.sharded, variable.value).bytes;
  }
  return list;
}

struct Total {
  int64_t count = 0;
  Bytes bytes{0};
};

Total total_of(const std::vector<CommunicationFacts>& list, Role role) {
  Total total;
  for (const CommunicationFacts& facts : list) {
    if (facts.role != role) continue;
    ++total.count;
    total.bytes += facts.bytes;
  }
  return total;
}

Document plan_document(const Graph& graph, const Compiled& compiled, const Plan& plan) {
  const ShardedGraph& sharded = compiled.sharded;
  Document document;
  document["mesh"] = mesh_text(plan);
  document["notes"] = to_document(sharded.notes);
  document["parameters"] = Document::List{};
  for (const ValueFacts& facts : parameters_of(graph, sharded))
    document["parameters"].append(to_document(facts));
  const std::vector<CommunicationFacts> communications = communications_of(compiled.tasks);
  document["communications"] = Document::List{};
  for (const CommunicationFacts& facts : communications)
    document["communications"].append(to_document(facts));
  for (Role role : kRoles) {
    const Total total = total_of(communications, role);
    document["totals"][to_text(role)] =
        Document::Table{{"exchanges", total.count}, {"bytes", total.bytes.value()}};
  }
  Bytes state{0}, arena{0};
  document["memory"] = Document::List{};
  for (const MeshMemory& memory : memory_of(graph, compiled)) {
    document["memory"].append(Document::Table{{"mesh", memory.mesh},
                                              {"state_bytes", memory.state.value()},
                                              {"arena_bytes", memory.arena.value()}});
    state = std::max(state, memory.state);
    arena = std::max(arena, memory.arena);
  }
  document["state_bytes"] = state.value();
  document["arena_bytes"] = arena.value();
  return document;
}

std::string notes_text(const ShardedGraph& sharded, const LikeRows& like) {
  const std::string table = notes_table(sharded.notes, like);
  return table.empty() ? "" : "\nNotes on the placements\n" + table;
}

std::string parameters_text(const Graph& graph, const ShardedGraph& sharded, const LikeRows& like) {
  std::vector<TableRow> rows;
  for (const ValueFacts& facts : parameters_of(graph, sharded))
    rows.push_back(
        {facts.name, facts.placement, facts.local, to_text(facts.bytes), reason_text(facts)});
  TextTable table({"parameter", "placement", "at rank 0", "bytes per rank", "why"}, "lllrl");
  for (TableRow& row : like.joined(rows, 0)) table.add(std::move(row));
  return "\nParameters\n" + table.text();
}

std::string communications_text(const std::vector<CommunicationFacts>& list, const LikeRows& like) {
  if (list.empty()) return "\nCommunication of a step: none\n";
  std::vector<TableRow> rows;
  for (const CommunicationFacts& facts : list)
    rows.push_back({std::string(to_text(facts.role)), kind_text(facts), facts.value, facts.from,
                    facts.to, to_text(facts.bytes), to_text(facts.least), facts.reason});
  TextTable table({"role", "kind", "value", "from", "to", "bytes per rank", "minimum", "why"},
                  "lllllrrl");
  for (TableRow& row : like.joined(rows, 2)) table.add(std::move(row));
  TextTable totals({"role", "exchanges", "bytes per rank"}, "lrr");
  for (Role role : kRoles) {
    const Total total = total_of(list, role);
    totals.add({std::string(to_text(role)), std::to_string(total.count), to_text(total.bytes)});
  }
  return "\nCommunication of a step, in bytes received\n" + table.text() + "\nTotals of a step\n" +
         totals.text();
}

std::string memory_text(const std::vector<MeshMemory>& list) {
  std::string text = "\nMemory per rank\n";
  if (list.size() == 1)
    return text + "  variables  " + to_text(list[0].state) +
           " with optimizer state\n  arena      " + to_text(list[0].arena) +
           " for activations, gradients and buffers\n";
  TextTable table({"mesh", "variables with optimizer state", "activations, gradients, buffers"},
                  "lrr");
  for (const MeshMemory& memory : list)
    table.add({memory.mesh, to_text(memory.state), to_text(memory.arena)});
  return text + table.text();
}

std::string plan_text(const Graph& graph, const Compiled& compiled, const Plan& plan,
                      const LikeRows& like) {
  const ShardedGraph& sharded = compiled.sharded;
  return plan_summary(plan) + "\n" + notes_text(sharded, like) +
         parameters_text(graph, sharded, like) +
         communications_text(communications_of(compiled.tasks), like) +
         memory_text(memory_of(graph, compiled));
}

/// Prints the program of one rank.
ExitCode explain_rank(const OutputOptions& output, const Compiled& compiled, Rank rank) {
  const std::vector<Rank> ranks = tessera::ranks(compiled.tasks);
  if (std::find(ranks.begin(), ranks.end(), rank) == ranks.end())
    throw UserError("--rank " + std::to_string(rank) + " is not a rank of this plan",
                    "the plan has " + counted(std::ssize(ranks), "rank") + ", from 0 on",
                    "give one from 0 to " + std::to_string(ranks.back()), ExitCode::kUsage);
  const std::string text = rank_text(compiled.tasks, rank);
  Document document;
  const std::string order = rank_order_text(compiled.tasks, rank);
  document["rank"] = rank;
  document["order"] = order;
  document["acts"] = Document::List{};
  for (const std::string& line : split_text(text, '\n'))
    if (!line.empty()) document["acts"].append(line);
  print_result(output, document, "order  " + order + "\n\n" + text);
  return ExitCode::kDone;
}

}  // namespace

void ExplainCommand::describe(OptionParser& parser) {
  add_options(parser, config);
  parser.optional_argument(
      "NAME", "Values and ops to explain: a name or a pattern such as 'blocks.*.attn.q'", name);
  parser.flag({"--passes", "", "Print the output of every compiler pass"}, passes);
  parser.flag({"--stages", "", "The former name of --passes"}, passes);
  parser.flag({"--every-layer", "", "Print the lines of every layer, also of a deep model"},
              every_layer);
  parser.number({"--rank", "N", "Print the program of this rank, one task a line"}, rank, 0);
  add_options(parser, output);
}

ExitCode ExplainCommand::run(Processes&) {
  Session session = open_session(config);
  set_sizes(session.config.model, session.config.data);
  const Graph graph = training_graph(session.config);
  check_fits(session.plan, graph);
  CompileOptions options;
  Document::List outputs;
  if (passes)
    options.dump = [&](std::string_view pass, const std::string& text) {
      if (output.json)
        outputs.push_back(Document::Table{{"name", std::string(pass)}, {"text", text}});
      else
        std::cout << "== " << pass << " ==\n" << text << "\n";
    };
  const Compiled compiled = compile(graph, session.plan, options);
  if (rank) return explain_rank(output, compiled, *rank);
  Document document = name.empty() ? plan_document(graph, compiled, session.plan)
                                   : explain_name_document(graph, compiled, name);
  if (passes) document["passes"] = outputs;
  print_result(output, document,
               name.empty() ? plan_text(graph, compiled, session.plan,
                                        every_layer ? LikeRows() : LikeRows(graph))
                            : explain_name_text(graph, compiled, name));
  return ExitCode::kDone;
}

}  // namespace tessera
