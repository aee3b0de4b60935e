// One start of a command on several processes, by the launcher of the machine.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launch/stop_signals.h"

namespace tessera {

/// The end of an attempt.
struct Attempt {
  int code = 0;                  // exit code of the launcher, or 128 + the signal that ended it
  std::string output;            // the standard output of the launcher
  bool received_signal = false;  // SIGTERM or SIGINT, which was passed on to the launcher
  // the launcher was killed, because it did not end after its processes
  bool launcher_hung = false;
  std::optional<int> first_lost;  // the rank whose process ended first, if it was observed
};

/// The words that start a program on `processes` processes: srun in a Slurm job, otherwise mpirun.
std::vector<std::string> launcher_command(int processes);

/// Starts the launcher with `words` and waits for its end.
///   throws  UserError (66) when the launcher cannot be started
Attempt run_attempt(const std::vector<std::string>& words, StopSignals& signals);

/// Can another attempt succeed? A usage error would occur again, and a preempted run is meant to
/// stop.
bool is_worth_another_attempt(const Attempt& attempt);

}  // namespace tessera
