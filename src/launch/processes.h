// The processes that run a command together, when mpirun or srun started several; else this one
// alone.
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
struct LostMember;

/// Only the first process speaks: on the others standard output and standard error are silent from
/// the constructor on.
class Processes {
 public:
  /// throws  UserError (2) when a launcher contradicts itself
  Processes();
  ~Processes();
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  int count() const { return launched_ ? launched_->members : 1; }
  bool are_several() const { return count() > 1; }
  /// The first one, or the second when the first is lost.
  bool speaks() const;

  /// throws  UserError (78) when the plan has not as many ranks as there are processes; one process
  /// runs any plan, its ranks as threads
  void check_plan(const Plan& plan) const;
  /// throws  UserError (2): `command` runs in one process
  void refuse(const std::string& command) const;

  /// Connects with the others and begins to watch over them; nothing of it for one process.
  ///   deadline  a process of which nothing is heard for so long is lost
  ///   threads   StopSignals is made before
  ///   throws    UserError: this program has no MPI; MPI sees other processes than the launcher
  RuntimeOptions connect(Seconds deadline);

  bool are_connected() const { return network_ != nullptr; }

  /// After a failure: tells the others what this process met. Who speaks may then say so.
  void tell(const std::exception_ptr& error);
  /// Ends all processes: the one that speaks does it, the others wait for that.
  [[noreturn]] void end_all(int exit_code);

 private:
  static void set_silent(bool silent);
  [[noreturn]] void end_before_the_start(const LostMember& lost, Seconds deadline);

  std::optional<Launched> launched_;
  std::atomic<int> lost_{-1};  // the first member that was lost
  std::unique_ptr<MpiProcess> mpi_;
  std::shared_ptr<Network> network_;
  std::unique_ptr<Liveness> liveness_;
};

}  // namespace tessera
