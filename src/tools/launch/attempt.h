// One start of a command on several processes, by the launcher of the machine.
#pragma once

#include <optional>
#include <string>

#include "tools/launch/internal/launcher.h"
#include "tools/launch/stop_signals.h"

namespace tessera {

/// The end of an attempt.
struct Attempt {
  int code = 0;                  // exit code of the launcher, or 128 + the signal that ended it
  std::string output;            // the standard output of the launcher
  bool received_signal = false;  // a stop signal, after which the processes were asked to end
  // the launcher was killed, because it did not end after its processes
  bool launcher_hung = false;
  std::optional<int> first_lost;  // the rank whose process ended first, if it was observed
};

/// Starts the command and waits for its end. A signal ends it however long a step takes: the
/// processes are signalled, and not mpirun, which would kill them 2 seconds later. The first signal
/// asks a command that saves to stop after its step; a second one, or the first one of another
/// command, ends the processes at once; a third one kills the launcher.
///   throws  UserError (66) when the launcher cannot be started
Attempt run_attempt(const LaunchedCommand& command, StopSignals& signals);

/// Can another attempt succeed? A usage error would occur again, and a preempted run is meant to
/// stop.
bool is_worth_another_attempt(const Attempt& attempt);

}  // namespace tessera
