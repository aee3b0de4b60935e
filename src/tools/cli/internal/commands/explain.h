// tessera explain: the placements and the communication of a plan, with their reasons.
#pragma once

#include <optional>
#include <string>

#include "base/files/document.h"
#include "tools/cli/internal/command.h"
#include "tools/cli/internal/print/plan/plan_numbers.h"
#include "tools/cli/internal/shared_options.h"

namespace tessera {

struct ExplainCommand : Command {
  void describe(OptionParser& parser) override;
  ExitCode run(Processes&) override;

  ConfigOptions config;
  OutputOptions output;
  PassOptions compilation;
  std::string name;         // of values and ops, or a pattern; "": explains the whole plan
  std::optional<int> rank;  // prints the program of this rank instead
  bool passes = false;
  bool explicit_plan = false;
  bool print_plan = false;
  bool full = false;                   // prints all tables after the summary
  bool marks = false;                  // what each mark causes
  bool every_layer = false;            // the same, without joining the lines of repeated layers
  std::optional<std::string> compare;  // another plan: a file, "serial" or a preset
  std::optional<std::string> dtensor;  // a file of its placements

 private:
  struct Result {
    Document document;
    std::string text;
  };
  bool is_full() const { return full || every_layer; }
  Result explain_plan(const Graph& graph, const Compiled& compiled, const Plan& plan) const;
  /// Adds the price of the placement of `name` in a plan that was found.
  void explain_choice(const Plan& plan, Result& result) const;
  PlanNumbers numbers_of_compared() const;
};

}  // namespace tessera
