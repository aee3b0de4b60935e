// Processes that MPI started together, as members of a run. The rest of the program knows nothing
// of MPI; where it was not found when this was built, is_built_in() is false and nothing else of it
// can be called.
#pragma once

#include <memory>

#include "comm/transport.h"

namespace tessera {

/// MPI in this process, from start to end: at most one in a program's life.
///
///   threads  the transport may be used by any thread, one at a time
class MpiProcess {
 public:
  static bool is_built_in();
  /// throws  UserError (2) when it is not
  static void require();

  /// throws  UserError when MPI does not start, or lets only one thread use it
  MpiProcess();
  /// Ends MPI, which waits for the other processes.
  ~MpiProcess();
  MpiProcess(const MpiProcess&) = delete;
  MpiProcess& operator=(const MpiProcess&) = delete;

  int member() const;
  int members() const;
  /// All members call it together.
  std::unique_ptr<Transport> transport();
  /// Ends this process and all others without waiting for any.
  [[noreturn]] static void abort(int exit_code);
};

}  // namespace tessera
