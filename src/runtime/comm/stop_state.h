// The first failure of a run, which all ranks share. It is a value until the caller's thread throws
// it.
#pragma once

#include <atomic>
#include <exception>
#include <mutex>
#include <optional>
#include <string>

#include "base/units.h"

namespace tessera {

/// The rank, the task and the op that failed, and the error.
struct Failure {
  Rank rank = 0;     // -1: the error names the rank
  std::string task;  // "" between steps
  std::string op;    // "" outside of kernels
  std::exception_ptr error;
};

/// threads  any
class StopState {
 public:
  bool stopped() const { return stopped_.load(std::memory_order_acquire); }

  /// Keeps the first failure. The caller must wake the waiting threads.
  void fail(Failure failure);

  /// Throws the failure: a UserError with rank, task and op added to its reason, std::bad_alloc as
  /// out_of_memory_error(), any other error as an InternalError.
  ///   requires  stopped()
  [[noreturn]] void rethrow() const;

 private:
  std::atomic<bool> stopped_{false};
  mutable std::mutex mutex_;  // guards failure_
  std::optional<Failure> failure_;
};

}  // namespace tessera
