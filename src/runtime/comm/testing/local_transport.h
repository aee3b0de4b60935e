// A transport whose processes are threads of one program, for tests of the code above it.
#pragma once

#include <memory>
#include <vector>

#include "runtime/comm/transport.h"

namespace tessera {

/// One transport for each process. Their lifetimes are independent.
///
///   delays   above 0: a message or a piece arrives after at most this many further polls of its
///            receiver, a number sampled with `seed`; the order within a pair stays
///   threads  each transport may be used by a thread of its own
std::vector<std::unique_ptr<Transport>> make_local_transports(int processes, int delays = 0,
                                                              uint64_t seed = 0);

}  // namespace tessera
