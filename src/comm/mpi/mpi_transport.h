// The transport over MPI. Used by MpiProcess alone.
#pragma once

#include <memory>

#include "comm/transport.h"

namespace tessera {

/// Over two communicators of its own, one for messages and one for data, of all processes.
///   requires  MPI is started; all processes call it together
std::unique_ptr<Transport> make_mpi_transport();

}  // namespace tessera
