// The transport over MPI; only MpiProcess uses it.
#pragma once

#include <memory>

#include "comm/transport.h"

namespace tessera {

/// Uses two communicators of its own, of all processes: one for messages and one for data.
///   requires  MPI is started; all processes call it together
std::unique_ptr<Transport> make_mpi_transport();

}  // namespace tessera
