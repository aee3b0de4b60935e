// Shows the registers that a rank fills to the observer of the step.
#pragma once

#include "runtime/executor/internal/rank_stream.h"
#include "runtime/memory/program_context.h"
#include "runtime/memory/rank_memory.h"

namespace tessera {

/// Without an observer each call costs a comparison.
///
///   threads  the thread of its rank
class RankObserver {
 public:
  RankObserver(const ProgramContext& program, int rank_index, const RankMemory& memory)
      : program_(program), rank_index_(rank_index), memory_(memory) {}
  /// nullptr: nothing is observed.
  void set(const Observer* observer) { observer_ = observer; }

  /// Shows a register that was filled on the thread of the rank, or that another stream has filled.
  void show(RegisterIndex reg, const std::byte* data) const {
    if (observer_) show_copy(reg, data);
  }
  /// Shows a result of a kernel on `stream`. A later kernel may overwrite the result on an
  /// accelerator, so it is copied after the kernel and shown when the act ends.
  void show_result(RankStream& stream, RegisterIndex reg, const std::byte* data) const {
    if (!observer_) return;
    if (stream.is_host())
      show_copy(reg, data);
    else
      copy_after(stream, reg, data);
  }
  /// Shows the copies of an act that has ended.
  void show_copies(RankStream& stream) const;

 private:
  void show_copy(RegisterIndex reg, const std::byte* data) const;
  void copy_after(RankStream& stream, RegisterIndex reg, const std::byte* data) const;
  void call(RegisterIndex reg, const std::byte* data) const;

  const ProgramContext& program_;
  const int rank_index_;
  const RankMemory& memory_;
  const Observer* observer_ = nullptr;
};

}  // namespace tessera
