// tessera export: the parameters of a checkpoint, or a model, as one file for other programs.
#pragma once

#include "tools/cli/internal/command.h"
#include "tools/cli/internal/shared_options.h"

namespace tessera {

struct ExportCommand : Command {
  void describe(OptionParser& parser) override;
  ExitCode run(Processes& processes) override;

  std::string source;
  std::string to;
  std::string layout = "native";
  std::string like;
  OverrideOptions overrides;
  OutputOptions output;

 private:
  ExitCode export_graph() const;
  ExitCode export_like() const;
};

}  // namespace tessera
