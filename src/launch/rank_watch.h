// The processes that a launcher has started on this machine, as the system shows them: for
// launchers that do not say what became of them.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <optional>

namespace tessera {

/// limit  sees what runs on this machine, on systems with /proc/PID/task/TID/children; elsewhere it
/// sees nothing
class RankWatch {
 public:
  using Clock = std::chrono::steady_clock;

  explicit RankWatch(pid_t launcher) : launcher_(launcher) {}

  /// Call often.
  void look();

  struct Rank {
    int number = 0;
    pid_t process = 0;
  };
  /// The rank that ended before all others; none when none did, or several between two looks.
  std::optional<Rank> first_lost() const { return first_lost_; }
  /// A rank that has been stopped, as by SIGSTOP, for so long.
  std::optional<Rank> stopped_for(Clock::duration time) const;
  /// Has it outlived all its processes for `grace`? mpirun of Open MPI 4.1 may wait for ever when
  /// one is killed while it starts.
  bool is_left_alone(std::chrono::seconds grace) const;

 private:
  struct Seen {
    int rank = 0;
    std::optional<Clock::time_point> stopped_since = std::nullopt;
  };
  void take_leave();
  void greet();

  pid_t launcher_;
  std::map<pid_t, Seen> ranks_;  // of the processes that lived at the last look
  bool has_lost_ = false;
  std::optional<Rank> first_lost_;
  std::optional<Clock::time_point> empty_since_;
};

}  // namespace tessera
