// Checkpoints that are written while training goes on, from a snapshot of the state.
#pragma once

#include <memory>

#include "training/checkpoint/checkpoint.h"
#include "training/engine/engine.h"

namespace tessera {

/// Stores checkpoints of an engine, one at a time: begin() copies the parts that the ranks of this
/// process own, and a thread of this process, the writer, stores the copies. The files are those
/// of save_checkpoint(), to the last bit.
///
/// With one process the writer does all of a save. With several, all must make the same progress:
/// the leader makes the temporary folder, then every process stores its ranks, then the leader
/// commits. The writers do not communicate; the threads that train agree between two steps, by
/// poll(), that a phase is done in every process, and start the next.
///
///   threads    call from the thread that trains
///   processes  all call the same functions in the same order, except those marked "local"
///   failure    earlier checkpoints stay good. The errors are those of save_checkpoint(), thrown in
///              all processes by the next poll(), begin() or finish(); then nothing is pending, and
///              the engine can continue
///   memory     one copy of the parts that the ranks of this process own
class BackgroundSave {
 public:
  /// Allocates the snapshot.  requires  `engine` and `folder` outlive it
  BackgroundSave(Engine& engine, CheckpointFolder& folder);
  /// Waits for the writer. With one process a pending save is then complete, or a warning says why
  /// it failed; with several it is abandoned unless finish() was called.
  ~BackgroundSave();
  BackgroundSave(const BackgroundSave&) = delete;
  BackgroundSave& operator=(const BackgroundSave&) = delete;

  /// Takes the snapshot of the state after step_count() steps and begins to store it. A pending
  /// save is finished first.
  ///   retention  as of save_checkpoint()
  ///   throws     UserError (2) when a step is in flight; the errors of the pending save
  ///   time       one copy of the owned parts, when no save is pending
  void begin(const Retention& retention);
  /// Was a save begun that is not committed as far as this process knows? All processes have the
  /// same answer.
  bool is_pending() const;
  /// Is the writer of this process at work?  (local)
  bool is_writing() const;
  /// Between two steps: ends a pending save, or its phase, when no process is writing. It does not
  /// wait for writers.
  void poll();
  /// The same for a caller that knows by Runtime::union_of() whether any process is writing, so
  /// that it costs no communication of its own while one is.
  void poll(bool any_is_writing);
  /// Waits until the pending save is committed. After a failure of the runtime, several processes
  /// cannot agree: the save is then abandoned, with a warning.
  void finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tessera
