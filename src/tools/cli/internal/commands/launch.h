// tessera launch: runs a command on several processes, and restarts it from its last checkpoint
// when a process is lost.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/cli/internal/command.h"

namespace tessera {

struct LaunchCommand : Command {
  void describe(OptionParser& parser) override;
  ExitCode run(Processes&) override;

  std::optional<int> process_count;  // nullopt: one for each rank of the plan
  int restarts = 0;
  std::vector<std::string> launcher_arguments;  // further words for mpirun or srun
  std::string log_folder;                       // for one log per process; "": none
  std::vector<std::string> command;             // the command of the processes, with its arguments
};

}  // namespace tessera
