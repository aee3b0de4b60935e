// The transport over MPI; only MpiProcess uses it.
#pragma once

#include <memory>

#include "runtime/comm/transport.h"

namespace tessera {

/// Uses two communicators of its own, of all processes: one for messages and one for data.
///   requires  MPI is started; all processes make their transports together, and destroy them
///             together
///   waits     the destructor: for the other processes to destroy theirs, for at most 10 seconds;
///             it does not wait after abandon()
std::unique_ptr<Transport> make_mpi_transport();

}  // namespace tessera
