// tessera launch: runs a command on several processes, and restarts it from its last checkpoint
// when a process is lost.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/command.h"

namespace tessera {

struct LaunchCommand : Command {
  void describe(OptionParser& parser) override;
  ExitCode run(Processes&) override;

  std::optional<int> process_count;
  int restarts = 0;
  std::vector<std::string> command;  // the command of the processes, with its arguments
};

}  // namespace tessera
