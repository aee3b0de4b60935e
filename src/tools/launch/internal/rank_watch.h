// Watches the processes that a launcher has started on this machine through /proc, for launchers
// that do not report how their processes ended.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <optional>
#include <vector>

namespace tessera {

///   limit  processes of this machine, on systems with /proc/PID/task/TID/children; elsewhere none
class RankWatch {
 public:
  using Clock = std::chrono::steady_clock;

  explicit RankWatch(pid_t launcher) : launcher_(launcher) {}

  /// Reads the states of the processes; call it several times a second.
  void update(Clock::time_point now = Clock::now());

  struct Rank {
    int number = 0;
    pid_t pid = 0;
  };
  /// The rank that ended first; nullopt when none did, or when several ended between two updates.
  std::optional<Rank> first_lost() const { return first_lost_; }
  /// A rank that has been stopped, for example by SIGSTOP, for longer than `time`.
  std::optional<Rank> stopped_for(Clock::duration time, Clock::time_point now = Clock::now()) const;
  /// The processes that are alive.
  std::vector<pid_t> alive() const;
  /// Those that block SIGTERM and poll for it, so that it asks them to stop and kills none.
  std::vector<pid_t> polling_for_signals() const;
  /// Did all processes of the launcher end more than `grace` ago? mpirun of Open MPI 4.1 may wait
  /// for ever when one is killed during start-up.
  bool is_without_processes(std::chrono::seconds grace) const;

 private:
  struct Seen {
    int rank = 0;
    std::optional<Clock::time_point> stopped_since = std::nullopt;
  };
  void remove_exited(Clock::time_point now);
  void add_new();

  pid_t launcher_;
  std::map<pid_t, Seen> ranks_;  // of the processes that were alive at the last update
  bool has_lost_ = false;
  std::optional<Rank> first_lost_;
  std::optional<Clock::time_point> empty_since_;
};

}  // namespace tessera
