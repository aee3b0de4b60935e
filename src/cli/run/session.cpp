#include "cli/run/session.h"

#include <fmt/format.h>

#include <iostream>

#include "base/error.h"
#include "cli/print/text_table.h"
#include "engine/batch_rule.h"

namespace tessera {
namespace {

Plan chosen_plan(const Arguments& arguments, const RunConfig& config,
                 const std::optional<Plan>& stored) {
  if (!arguments.plan) return stored ? *stored : config.plan;
  return *arguments.plan == "serial" ? serial_plan() : read_plan(*arguments.plan);
}

}  // namespace

Session open_session(const Arguments& arguments, const std::optional<Plan>& stored) {
  std::vector<std::string> sets = arguments.sets;
  const bool sets_the_length =
      arguments.command == Command::kTrain || arguments.command == Command::kDemo;
  if (sets_the_length && arguments.steps)
    sets.push_back("train.steps=" + std::to_string(*arguments.steps));
  Session session;
  session.config = read_config(arguments.file, sets);
  check_fits(session.config);
  session.plan = chosen_plan(arguments, session.config, stored);
  if (arguments.ranks) check_ranks(session.plan, *arguments.ranks);
  session.config = resolved_for(std::move(session.config), session.plan);
  return session;
}

std::shared_ptr<const RunData> load_data_of(RunConfig& config) {
  auto data =
      std::make_shared<const RunData>(load_data(config.data, {.context = config.model.context}));
  set_sizes(config.model, *data);
  return data;
}

std::string bar_text(const RunData& data) {
  return data.bar ? fmt::format("; the {} is {:.4f}", data.bar->words, data.bar->nats) : "";
}

void add_bar(Document& document, const RunData& data) {
  if (data.bar) document[data.bar->key] = data.bar->nats;
}

std::string describe(const Plan& plan) {
  if (plan.meshes.empty()) return "plan '" + plan.name + "', one process";
  return "plan '" + plan.name + "' on mesh " + mesh_text(plan) + ", " +
         counted(plan.rank_count(), "rank");
}

std::ostream& narration(const Arguments& arguments) {
  return arguments.json ? std::cerr : std::cout;
}

void print_result(const Arguments& arguments, const Document& json, const std::string& text) {
  std::cout << (arguments.json ? to_json(json, 2) + "\n" : text) << std::flush;
}

Document to_document(const std::vector<double>& numbers) {
  return Document::List(numbers.begin(), numbers.end());
}

}  // namespace tessera
