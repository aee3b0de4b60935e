#include "tools/cli/internal/commands/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "base/text/count_text.h"
#include "base/text/text.h"
#include "compiler/lower/redundant_work.h"
#include "frontend/models/dtensor_placements.h"
#include "tools/cli/internal/print/plan/explain_choice.h"
#include "tools/cli/internal/print/plan/explain_name.h"
#include "tools/cli/internal/print/plan/mark_effects.h"
#include "tools/cli/internal/print/plan/notes.h"
#include "tools/cli/internal/print/plan/plan_comparison.h"
#include "tools/cli/internal/print/plan/plan_numbers.h"
#include "tools/cli/internal/print/plan/summary.h"
#include "tools/cli/internal/print/print.h"
#include "tools/cli/internal/print/repeated_rows.h"
#include "tools/cli/internal/print/text_table.h"
#include "tools/cli/internal/run/automatic_plan.h"
#include "tools/cli/internal/run/named_model.h"
#include "tools/cli/internal/run/output_files.h"
#include "tools/cli/internal/run/session.h"
#include "tools/cli/print/plan/explanation.h"

namespace tessera {
namespace {

constexpr size_t kComparedLines = 10;  // of tensors and of exchanges

constexpr Role kRoles[] = {Role::kForward, Role::kBackward, Role::kOptimizer};

std::vector<ValueFacts> parameters_of(const Graph& graph, const ShardedGraph& sharded) {
  std::vector<ValueFacts> list;
  for (const Variable& variable : graph.variables())
    if (variable.trainable) list.push_back(facts_of(graph, sharded, variable.value));
  return list;
}

/// What is sent.
struct Total {
  std::set<int64_t> exchanges;
  int64_t tensors = 0;
  Bytes bytes{0};
};

/// Of one role; of all without one.
Total total_of(const std::vector<CommunicationFacts>& list, std::optional<Role> role) {
  Total total;
  for (const CommunicationFacts& facts : list) {
    if (!facts.is_sent() || (role && facts.role != *role)) continue;
    total.exchanges.insert(facts.exchange);
    ++total.tensors;
    total.bytes += facts.bytes;
  }
  return total;
}

Document total_document(const Total& total) {
  return Document::Table{{"exchanges", std::ssize(total.exchanges)},
                         {"tensors", total.tensors},
                         {"bytes", total.bytes.value()}};
}

Document plan_document(const Compiled& compiled, const Plan& plan, const PlanNumbers& numbers) {
  const ShardedGraph& sharded = compiled.sharded;
  Document document;
  document["mesh"] = mesh_text(plan);
  document["summary"] = summary_document(numbers, RepeatedRows(compiled.graph));
  document["notes"] = to_document(numbers.notes);
  document["parameters"] = Document::List{};
  for (const ValueFacts& facts : parameters_of(compiled.graph, sharded))
    document["parameters"].append(to_document(facts));
  const std::vector<CommunicationFacts> communications = communications_of(compiled.tasks);
  document["communications"] = Document::List{};
  for (const CommunicationFacts& facts : communications)
    document["communications"].append(to_document(facts));
  for (Role role : kRoles)
    document["totals"][to_text(role)] = total_document(total_of(communications, role));
  document["totals"]["all"] = total_document(total_of(communications, std::nullopt));
  Bytes state{0}, arena{0};
  document["memory"] = Document::List{};
  for (const MeshMemory& memory : numbers.memory) {
    document["memory"].append(Document::Table{{"mesh", memory.mesh},
                                              {"state_bytes", memory.variables().value()},
                                              {"arena_bytes", memory.activations.value()}});
    state = std::max(state, memory.variables());
    arena = std::max(arena, memory.activations);
  }
  document["state_bytes"] = state.value();
  document["arena_bytes"] = arena.value();
  return document;
}

std::string notes_text(const std::vector<ShardingNote>& notes, const RepeatedRows& repeated) {
  const std::string table = notes_table(notes, repeated);
  return table.empty() ? "" : "\nNotes on the placements\n" + table;
}

std::string parameters_text(const Graph& graph, const ShardedGraph& sharded,
                            const RepeatedRows& repeated) {
  std::vector<TableRow> rows;
  for (const ValueFacts& facts : parameters_of(graph, sharded))
    rows.push_back(
        {facts.name, facts.placement, facts.local, to_text(facts.bytes), reason_text(facts)});
  TextTable table({"parameter", "placement", "at rank 0", "bytes per rank", "why"}, "lllrl");
  for (TableRow& row : repeated.joined(rows, 0)) table.add(std::move(row));
  return "\nParameters\n" + table.text();
}

std::string communications_text(const std::vector<CommunicationFacts>& list,
                                const RepeatedRows& repeated) {
  if (list.empty()) return "\nCommunication of a step: none\n";
  std::vector<TableRow> rows;
  for (const CommunicationFacts& facts : list) {
    TableRow& row = rows.emplace_back();
    if (!repeated.is_joining()) row.push_back(std::to_string(facts.exchange));
    row.insert(row.end(),
               {std::string(to_text(facts.role)), kind_text(facts), facts.value, facts.from,
                facts.to, to_text(facts.bytes), to_text(facts.smallest), facts.reason});
  }
  TableRow head{"role", "kind", "value", "from", "to", "bytes per rank", "minimum", "why"};
  if (!repeated.is_joining()) head.insert(head.begin(), "exchange");
  TextTable table(head, repeated.is_joining() ? "lllllrrl" : "rlllllrrl");
  for (TableRow& row : repeated.joined(rows, 2)) table.add(std::move(row));
  TextTable totals({"role", "exchanges", "tensors", "bytes per rank"}, "lrrr");
  const auto add_total = [&](std::string name, const Total& total) {
    totals.add({std::move(name), std::to_string(total.exchanges.size()),
                std::to_string(total.tensors), to_text(total.bytes)});
  };
  for (Role role : kRoles) add_total(std::string(to_text(role)), total_of(list, role));
  add_total("all", total_of(list, std::nullopt));
  return "\nCommunication of a step, in bytes received\n" + table.text() + "\nTotals of a step\n" +
         totals.text();
}

std::string memory_text(const std::vector<MeshMemory>& list) {
  TextTable table({"mesh", "parameters", "optimizer state", "activations, gradients, buffers"},
                  "lrrr");
  for (const MeshMemory& memory : list)
    table.add({memory.mesh, to_text(memory.parameters), to_text(memory.state),
               to_text(memory.activations)});
  return "\nMemory per rank\n" + table.text();
}

std::string schedule_text(const Compiled& compiled, const Plan& plan) {
  if (!compiled.pipeline) return "";
  std::vector<std::string> stages;
  for (const NamedMesh& mesh : plan.meshes) stages.push_back(mesh.name);
  return "\nSchedule " + std::string(to_text(plan.schedule)) + " of " +
         counted(plan.micro_batches, "micro-batch") +
         ", in times of a micro-batch on the busiest device\n" +
         worth_text(*compiled.pipeline, stages);
}

/// The tables after the summary.
std::string tables_text(const Compiled& compiled, const Plan& plan, const PlanNumbers& numbers,
                        const RepeatedRows& repeated) {
  return notes_text(numbers.notes, repeated) +
         parameters_text(compiled.graph, compiled.sharded, repeated) +
         communications_text(communications_of(compiled.tasks), repeated) +
         memory_text(numbers.memory) + schedule_text(compiled, plan);
}

using PassTexts = std::map<std::string, std::string>;  // by name of the pass

/// The compiler passes that ran, with their times; with the texts that are given.
Document::List passes_document(const std::vector<PassReport>& passes, const PassTexts& texts) {
  Document::List list;
  for (const PassReport& pass : passes) {
    const std::string name(pass.name);
    list.push_back(Document::Table{{"name", name}, {"seconds", pass.time.value()}});
    if (texts.contains(name)) list.back()["text"] = texts.at(name);
  }
  return list;
}

std::string times_text(const std::vector<PassReport>& passes) {
  TextTable table({"compiler pass", "time"}, "lr");
  Seconds sum{0};
  for (const PassReport& pass : passes) {
    table.add({std::string(pass.name), fmt::format("{:.1f} ms", 1e3 * pass.time.value())});
    sum += pass.time;
  }
  table.add({"all", fmt::format("{:.1f} ms", 1e3 * sum.value())});
  return "\nTimes of the compiler passes\n" + table.text();
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
  add_options(parser, config.automatic);
  parser.optional_argument(
      "NAME", "Values and ops to explain: a name or a pattern such as 'blocks.*.attn.q'", name);
  parser.flag({"--passes", "", "Print the output of every compiler pass", {"--stages"}}, passes);
  parser.flag({"--marks", "",
               "Compile the plan without each of its first marks, and print what each of them "
               "causes: bytes sent, memory, notes"},
              marks);
  parser.flag(
      {"--explicit", "", "Print the plan with every placement, as a plan file", {"--resolved"}},
      explicit_plan);
  parser.flag({"--print-plan", "", "Print the plan, also that of a preset, as a plan file"},
              print_plan);
  parser.text({"--dtensor", "FILE",
               "Write the placements of parameters, inputs and values as those of PyTorch's "
               "DTensor, with the names of transformers where the model is a config.json"},
              dtensor);
  parser.flag({"--full", "", "Print every tensor, placement and exchange behind the summary"},
              full);
  parser.flag(
      {"--every-layer", "", "The same, with the lines of every layer instead of one of all"},
      every_layer);
  parser.text({"--compare", "FILE|PRESET|serial",
               "Print the numbers of this plan beside those of the plan, and what differs most"},
              compare);
  parser.number({"--rank", "N", "Print the program of this rank, one kernel or exchange a line"},
                rank, 0);
  add_options(parser, compilation);
  add_options(parser, output);
  parser.check([this] {
    if (compare && (explicit_plan || print_plan || rank || !name.empty()))
      refuse_usage("--compare does not go with NAME, --rank, --explicit or --print-plan",
                   "it compares the numbers of whole plans", "leave out one of the two");
    const bool says_more = passes || full || every_layer || rank || !name.empty();
    if (explicit_plan && print_plan)
      refuse_usage("--explicit does not go with --print-plan", "each prints another plan file",
                   "leave out one of the two");
    if ((explicit_plan || print_plan) && says_more)
      refuse_usage(std::string(explicit_plan ? "--explicit" : "--print-plan") +
                       " does not go with NAME, --passes, --full, --every-layer or --rank",
                   "it prints a plan file and nothing else", "leave out one of the two");
  });
}

ExitCode ExplainCommand::run(Processes&) {
  Session session = open_session(config, {}, compilation);
  set_sizes(session.config.model, session.config.data);
  const Graph graph = training_graph(session.config);
  check_fits(session.plan, graph);
  if (dtensor) check_output(*dtensor);
  if (explicit_plan || print_plan) {
    const Plan plan =
        explicit_plan ? tessera::explicit_plan(session.config, session.plan) : session.plan;
    print(to_json(to_document(plan, graph), 2) + "\n");
    return ExitCode::kDone;
  }
  CompileOptions options;
  options.verify_passes = compilation.verify;
  PassTexts texts;
  if (passes)
    options.dump = [&](std::string_view pass, const std::string& text) {
      if (output.json)
        texts[std::string(pass)] = text;
      else
        print("== " + std::string(pass) + " ==\n" + text + "\n");
    };
  const Compiled compiled = compile(graph, session.plan, options);
  if (dtensor)
    write_output(*dtensor,
                 to_json(dtensor_placements(compiled.graph, compiled.sharded,
                                            model_path(config.file), session.config.model),
                         1) +
                     "\n");
  if (rank) return explain_rank(output, compiled, *rank);
  Result result;
  if (!name.empty()) {
    result = {explain_name_document(graph, compiled, name),
              explain_name_text(graph, compiled, name)};
    if (config.plan.is_automatic()) explain_choice(session.plan, result);
  } else {
    result = explain_plan(graph, compiled, session.plan);
  }
  result.document["passes"] = passes_document(compiled.passes, texts);
  print_result(output, result.document, result.text + (passes ? times_text(compiled.passes) : ""));
  return ExitCode::kDone;
}

ExplainCommand::Result ExplainCommand::explain_plan(const Graph& graph, const Compiled& compiled,
                                                    const Plan& plan) const {
  PlanNumbers numbers = numbers_of(compiled, plan_summary(plan));
  if (plan.is_found && !is_full()) numbers.notes.clear();
  const RepeatedRows repeated = every_layer ? RepeatedRows() : RepeatedRows(compiled.graph);
  Result result{plan_document(compiled, plan, numbers), ""};
  if (compare) {
    const PlanNumbers other = numbers_of_compared();
    const PlanComparison comparison = comparison_of(numbers, other, repeated);
    result.document["comparison"] = comparison_document(numbers, other, comparison);
    result.text = comparison_text(numbers, other, comparison, is_full() ? 0 : kComparedLines);
    return result;
  }
  result.text = summary_text(numbers, repeated);
  if (marks) {
    const std::vector<MarkEffect> effects = mark_effects(graph, plan);
    result.document["marks"] = mark_effects_document(effects);
    result.text += mark_effects_text(numbers, effects, plan.marks.size());
  } else if (!plan.marks.empty() && !numbers.notes.empty()) {
    result.text += "--marks prints what each mark causes\n";
  }
  result.text += is_full() ? tables_text(compiled, plan, numbers, repeated)
                           : "--full prints every tensor, placement and exchange\n";
  return result;
}

void ExplainCommand::explain_choice(const Plan& plan, Result& result) const {
  const int ranks = plan.rank_count();
  const ConfigFile file = named_model(config.file, config.overrides.sets, ranks);
  const ExplainedChoice choice =
      explained_choice(automatic_plan_search(file, ranks, config.automatic), plan, name);
  result.document["choice"] = choice_document(choice);
  result.text += choice_text(choice);
}

PlanNumbers ExplainCommand::numbers_of_compared() const {
  ConfigOptions options = config;
  options.plan.plan = compare;
  Session session = open_session(options, {}, compilation);
  set_sizes(session.config.model, session.config.data);
  const Graph graph = training_graph(session.config);
  check_fits(session.plan, graph);
  CompileOptions compile_options;
  compile_options.verify_passes = compilation.verify;
  return numbers_of(compile(graph, session.plan, compile_options), plan_summary(session.plan));
}

}  // namespace tessera
