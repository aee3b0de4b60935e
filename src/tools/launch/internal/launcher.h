// The program that starts several processes: mpirun or srun.
#pragma once

#include <string>
#include <vector>

#include "tools/launch/internal/child_process.h"

namespace tessera {

/// The program that starts processes.
struct Launcher {
  std::vector<std::string> words;  // "mpirun", "-n", "4"
  ChildOptions options = {};
  bool forwards_sigterm = false;  // to its processes, without ending them itself, as srun does
};

/// A command that a launcher starts on several processes.
struct LaunchedCommand {
  Launcher launcher;
  std::vector<std::string> words = {};
  bool saves_when_stopped = false;  // a stop signal makes it write a checkpoint and end with 75
};

/// The launcher of `processes` processes: srun in a Slurm job, otherwise mpirun, which then may run
/// as root, and may start more processes than there are cores unless `arguments` name hosts.
///   arguments  further words for mpirun or srun
Launcher make_launcher(int processes, const std::vector<std::string>& arguments);

/// The words that start a program behind `env`, which takes a word with an equals sign for a
/// variable: such a path is started by a shell.
std::vector<std::string> start_words(const std::string& program);

}  // namespace tessera
