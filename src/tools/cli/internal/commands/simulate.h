// tessera simulate: the predicted step of a plan on a cluster.
#pragma once

#include <optional>
#include <string>

#include "tools/cli/internal/command.h"
#include "tools/cli/internal/shared_options.h"

namespace tessera {

struct SimulateCommand : Command {
  void describe(OptionParser& parser) override;
  ExitCode run(Processes&) override;

  ConfigOptions config;
  OutputOptions output;
  PassOptions compilation;
  std::string cluster;                // a file or one line
  std::vector<std::string> compared;  // plans beside the one of the session
  bool map_ranks = false;
  std::string runtime;    // whose kernels run; "": the usual one
  std::string plan_file;  // for the plan with its mapping; "": none
  std::optional<std::string> trace;
  std::optional<std::string> report;  // the file of a page
  std::vector<std::string> measured;  // folders of runs: of the plan, then of those compared
  int64_t steps = 3;
};

}  // namespace tessera
