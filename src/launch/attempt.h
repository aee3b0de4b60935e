// One start of a command on several processes, by the launcher of the machine.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launch/stop_signals.h"

namespace tessera {

/// How an attempt ended.
struct Attempt {
  int code = 0;                   // of the launcher; 128 + the signal that ended it
  std::string output;             // its standard output
  bool received_signal = false;   // SIGTERM or SIGINT, which was passed on to the launcher
  bool launcher_hung = false;     // the launcher was killed: it did not end after its processes
  std::optional<int> first_lost;  // the rank whose process ended first, where it could be observed
};

/// The words that start a program on `processes` processes: srun in a Slurm job, else mpirun.
std::vector<std::string> launcher_command(int processes);

/// Starts the launcher with `words` and waits for its end.
///   throws  UserError (66): the launcher cannot be started
Attempt run_attempt(const std::vector<std::string>& words, StopSignals& signals);

/// Can another attempt succeed? A usage error would be the same again, and a preempted run is
/// meant to stop.
bool is_worth_another_attempt(const Attempt& attempt);

}  // namespace tessera
