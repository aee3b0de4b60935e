// The processes that run a command: those that mpirun or srun started, else this one alone.
#pragma once

#include <atomic>
#include <exception>
#include <memory>
#include <optional>

#include "launch/launched.h"
#include "plan/plan.h"
#include "runtime/runtime.h"

namespace tessera {

class Liveness;
class MpiProcess;
struct LostProcess;

/// Only the leader writes: from the constructor on, standard output and standard error of the other
/// processes are silent.
class Processes {
 public:
  /// throws  UserError (2) when a launcher contradicts itself
  Processes();
  ~Processes();
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  int count() const { return launched_ ? launched_->count : 1; }
  bool are_several() const { return count() > 1; }
  /// Process 0 is the leader, or process 1 when process 0 is lost.
  bool is_leader() const;

  /// One process runs any plan, with its ranks as threads.
  ///   throws  UserError (78) when several processes are not as many as the ranks of the plan
  void check_plan(const Plan& plan) const;
  /// For a command that runs in one process.  throws  UserError (2) when there are several
  void refuse(const std::string& command) const;

  /// Connects with the other processes and begins to watch them; does nothing for one process.
  ///   deadline  a process that sends no heartbeat for so long is lost
  ///   threads   make StopSignals before
  ///   throws    UserError: this program has no MPI; MPI sees other processes than the launcher
  RuntimeOptions connect(Seconds deadline);

  bool are_connected() const { return network_ != nullptr; }

  /// After a failure: sends it to the other processes. Only the leader writes what follows.
  void report_failure(const std::exception_ptr& error);
  /// Ends all processes: the leader does it, the others wait for that.
  [[noreturn]] void end_all(int exit_code);

 private:
  static void set_silent(bool silent);
  [[noreturn]] void end_before_the_start(const LostProcess& lost, Seconds deadline);

  std::optional<Launched> launched_;
  std::atomic<int> lost_{-1};  // the first process that was lost
  std::unique_ptr<MpiProcess> mpi_;
  std::shared_ptr<Network> network_;
  std::unique_ptr<Liveness> liveness_;
};

}  // namespace tessera
