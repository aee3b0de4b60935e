// tessera measure: this machine as a cluster file, with measured rates.
#pragma once

#include <optional>
#include <string>

#include "tools/cli/internal/command.h"
#include "tools/cli/internal/shared_options.h"

namespace tessera {

struct MeasureCommand : Command {
  void describe(OptionParser& parser) override;
  ExitCode run(Processes&) override;

  ProcessOptions liveness;
  OutputOptions output;
  std::optional<std::string> out;  // the cluster file
  bool detects_only = false;
  bool keep = false;  // for plans without --cluster
};

}  // namespace tessera
