// tessera simulate: the predicted step of a plan on a cluster.
#pragma once

#include <optional>
#include <string>

#include "cli/command.h"
#include "cli/shared_options.h"

namespace tessera {

struct SimulateCommand : Command {
  void describe(OptionParser& parser) override;
  ExitCode run(Processes&) override;

  ConfigOptions config;
  OutputOptions output;
  PassOptions compilation;
  std::string cluster;  // a file or one line
  std::optional<std::string> trace;
  int64_t steps = 3;
};

}  // namespace tessera
