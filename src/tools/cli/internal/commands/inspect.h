// tessera inspect: describes a file or folder.
#pragma once

#include <string>

#include "tools/cli/internal/command.h"
#include "tools/cli/internal/shared_options.h"

namespace tessera {

struct InspectCommand : Command {
  void describe(OptionParser& parser) override;
  ExitCode run(Processes&) override;

  std::string file;
  OverrideOptions overrides;
  OutputOptions output;
};

}  // namespace tessera
