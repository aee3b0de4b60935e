// The first failure of a run, shared by all ranks: a value until the caller's thread throws it.
#pragma once

#include <atomic>
#include <exception>
#include <mutex>
#include <optional>
#include <string>

#include "base/units.h"

namespace tessera {

/// Who failed, at what, and how.
struct Failure {
  Rank rank = 0;     // -1: the error says who
  std::string task;  // "" between steps
  std::string op;    // "" outside of kernels
  std::exception_ptr error;
};

/// threads  any
class StopState {
 public:
  bool stopped() const { return stopped_.load(std::memory_order_acquire); }

  /// Keeps the first failure. Who waits must be woken by the caller.
  void fail(Failure failure);

  /// Throws the failure: a UserError as it was with rank, task and op added to its reason, others
  /// as InternalError.  requires  stopped()
  [[noreturn]] void rethrow() const;

 private:
  std::atomic<bool> stopped_{false};
  mutable std::mutex mutex_;
  std::optional<Failure> failure_;
};

}  // namespace tessera
