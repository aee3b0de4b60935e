// MpiProcess where MPI was not found: every use is refused.
#include <cstdlib>

#include "base/error.h"
#include "runtime/mpi/mpi_process.h"

namespace tessera {

bool MpiProcess::is_built_in() {
  return false;
}

void MpiProcess::require() {
  throw UserError("this tessera was built without MPI", "MPI was not found when it was configured",
                  "install libopenmpi-dev and configure anew, or run the ranks as threads of one "
                  "process: without mpirun or launch",
                  ExitCode::kUsage);
}

MpiProcess::MpiProcess() {
  require();
}

MpiProcess::~MpiProcess() = default;

int MpiProcess::process() const {
  return 0;
}

int MpiProcess::size() const {
  return 1;
}

std::unique_ptr<Transport> MpiProcess::transport() {
  return nullptr;
}

void MpiProcess::abort(int exit_code) {
  std::_Exit(exit_code);
}

}  // namespace tessera
