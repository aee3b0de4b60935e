// tessera export: the parameters of a checkpoint as one file, for other programs.
#pragma once

#include "tools/cli/internal/command.h"
#include "tools/cli/internal/shared_options.h"

namespace tessera {

struct ExportCommand : Command {
  void describe(OptionParser& parser) override;
  ExitCode run(Processes& processes) override;

  std::string checkpoint;
  std::string to;
  std::string layout = "native";
  OutputOptions output;
};

}  // namespace tessera
