// tessera explain: the placements and the communication of a plan, with their reasons.
#pragma once

#include <optional>
#include <string>

#include "cli/command.h"
#include "cli/shared_options.h"

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
  bool resolved_plan = false;
  bool print_plan = false;
  bool every_layer = false;  // without it the lines of like layers are joined
};

}  // namespace tessera
