// The processes that run a command: those that mpirun or srun started, otherwise only this one.
#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "compiler/plan/plan.h"
#include "runtime/runtime/runtime.h"
#include "tools/launch/internal/launched.h"

namespace tessera {

/// The variables that `tessera launch` sets for its processes: its own part of the command line,
/// quoted for a shell ("launch -n 4 --"), and the folder of --log-dir.
inline constexpr const char* kLaunchVariable = "TESSERA_LAUNCH";
inline constexpr const char* kLogFolderVariable = "TESSERA_LOG_DIR";

class Liveness;
class MpiProcess;
class RankLog;
struct LostProcess;

/// Only the leader writes: from the constructor on, standard output and standard error of the other
/// processes are silent. `tessera launch --log-dir` names a folder, by kLogFolderVariable, in which
/// every process writes a log.
class Processes {
 public:
  ///   throws  UserError (2) when the variables of a launcher are inconsistent
  Processes();
  ~Processes();
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  int count() const { return launched_ ? launched_->count : 1; }
  bool are_several() const { return count() > 1; }
  /// Process 0 is the leader, or process 1 when process 0 is lost.
  bool is_leader() const;

  /// What the user should know of stop signals to the launcher; "": nothing.
  std::string stop_signals_note() const;

  /// Checks the number of processes. One process runs any plan, with its ranks as threads.
  ///   throws  UserError (78) when there are several processes, but not as many as the plan has
  ///           ranks
  void check_plan(const Plan& plan) const;
  /// Refuses several processes, for a command that runs in one.  throws  UserError (2)
  void refuse(const std::string& command) const;

  /// Connects with the other processes and begins to watch them; does nothing for one process.
  ///   deadline  a process that sends no heartbeat for this time is lost
  ///   threads   make StopSignals before
  ///   throws    UserError when this program has no MPI, or MPI sees other processes than the
  ///             launcher
  RuntimeOptions connect(Seconds deadline);

  /// The text that `make` gives in the leader, in every process. One that fails fails everywhere.
  ///   requires  one process, or connected ones
  ///   throws    what `make` throws; as on_all_processes
  std::string from_leader(const std::function<std::string()>& make, Seconds deadline);

  bool are_connected() const { return network_ != nullptr; }

  /// Sends a failure to the other processes. After it, only the leader writes.
  void report_failure(const std::exception_ptr& error);
  /// Ends all processes: the leader does it, and the others wait for it.
  [[noreturn]] void end_all(int exit_code);

 private:
  void set_silent(bool silent);
  [[noreturn]] void end_before_the_start(const LostProcess& lost, Seconds deadline);

  std::optional<Launched> launched_;
  std::unique_ptr<RankLog> log_;
  std::atomic<int> lost_{-1};  // the first process that was lost
  std::unique_ptr<MpiProcess> mpi_;
  std::shared_ptr<ProcessNetwork> network_;
  std::unique_ptr<Liveness> liveness_;
};

}  // namespace tessera
