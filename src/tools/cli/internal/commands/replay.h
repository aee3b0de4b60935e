// tessera replay: the predictions of measured runs of other systems, beside what they took.
#pragma once

#include <string>
#include <vector>

#include "tools/cli/internal/command.h"
#include "tools/cli/internal/shared_options.h"

namespace tessera {

struct ReplayCommand : Command {
  void describe(OptionParser& parser) override;
  ExitCode run(Processes&) override;

  std::vector<std::string> tables;
  std::string runtime;  // in place of what the rows name
  int64_t worst = 5;    // rows that are listed
  bool lists_all = false;
  OutputOptions output;
};

}  // namespace tessera
