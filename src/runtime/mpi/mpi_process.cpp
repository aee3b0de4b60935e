#include "runtime/mpi/mpi_process.h"

#include <mpi.h>

#include <cstdlib>

#include "base/error.h"
#include "runtime/mpi/internal/mpi_transport.h"

namespace tessera {

bool MpiProcess::is_built_in() {
  return true;
}

void MpiProcess::require() {}

MpiProcess::MpiProcess() {
  int provided = MPI_THREAD_SINGLE;
  const int error = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided);
  if (error != MPI_SUCCESS || provided < MPI_THREAD_SERIALIZED)
    throw UserError("MPI does not start",
                    "it gives the thread level " + std::to_string(provided) +
                        " and MPI_THREAD_SERIALIZED is needed",
                    "use an MPI that was built with threads, or run the ranks as threads of one "
                    "process: without mpirun");
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
}

MpiProcess::~MpiProcess() {
  MPI_Finalize();
}

int MpiProcess::process() const {
  int process = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &process);
  return process;
}

int MpiProcess::size() const {
  int size = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  return size;
}

std::unique_ptr<Transport> MpiProcess::transport() {
  return make_mpi_transport();
}

void MpiProcess::abort(int exit_code) {
  MPI_Abort(MPI_COMM_WORLD, exit_code);
  std::_Exit(exit_code);
}

}  // namespace tessera
