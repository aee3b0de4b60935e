// The processes of a run that MPI started. No other module knows MPI. Without MPI at build time,
// is_built_in() is false and the constructor throws.
#pragma once

#include <memory>

#include "runtime/comm/transport.h"

namespace tessera {

/// Initializes MPI and finalizes it; a program makes at most one.
///
///   threads  the transport may be used by any thread, one at a time
class MpiProcess {
 public:
  static bool is_built_in();
  /// throws  UserError (2) when this was built without MPI
  static void require();

  ///   throws  UserError when MPI does not start, or supports only one thread
  MpiProcess();
  /// Finalizes MPI, which waits for the other processes.
  ~MpiProcess();
  MpiProcess(const MpiProcess&) = delete;
  MpiProcess& operator=(const MpiProcess&) = delete;

  int process() const;
  int size() const;
  /// The transport. All processes call it together.
  std::unique_ptr<Transport> transport();
  /// Ends this process and all others without waiting for any.
  [[noreturn]] static void abort(int exit_code);
};

}  // namespace tessera
