#include "cli/session.h"

#include <iostream>

#include "base/error.h"
#include "cli/text_table.h"

namespace tessera {
namespace {

Plan chosen_plan(const Arguments& arguments, const RunConfig& config, const std::optional<Plan>& stored) {
  if (!arguments.plan) return stored ? *stored : config.plan;
  return *arguments.plan == "serial" ? serial_plan() : read_plan(*arguments.plan);
}

}  // namespace

Session open_session(const Arguments& arguments, const std::optional<Plan>& stored) {
  std::vector<std::string> sets = arguments.sets;
  const bool sets_the_length = arguments.command == Command::kTrain || arguments.command == Command::kDemo;
  if (sets_the_length && arguments.steps) sets.push_back("train.steps=" + std::to_string(*arguments.steps));
  Session session;
  session.config = read_config(arguments.file, sets);
  session.plan = chosen_plan(arguments, session.config, stored);
  if (arguments.ranks) check_ranks(session.plan, *arguments.ranks);
  return session;
}

std::shared_ptr<const TextData> load_text_of(RunConfig& config) {
  auto data = std::make_shared<const TextData>(load_text(config.data, config.model.context));
  config.model.vocabulary = data->vocabulary.size();
  return data;
}

void set_vocabulary(RunConfig& config) {
  if (config.data.tokens == "bytes")
    config.model.vocabulary = Vocabulary::bytes().size();
  else
    load_text_of(config);
}

std::string describe(const Plan& plan) {
  if (plan.meshes.empty()) return "plan '" + plan.name + "', one process";
  return "plan '" + plan.name + "' on mesh " + mesh_text(plan) + ", " + counted(plan.ranks(), "rank");
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
