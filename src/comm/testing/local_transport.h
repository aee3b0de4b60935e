// Members inside of one program: the transport without processes, for tests of all that goes
// between them.
#pragma once

#include <memory>
#include <vector>

#include "comm/transport.h"

namespace tessera {

/// One for each of `members`; each lives as long as it is used, whatever becomes of the others.
///
///   delays   above 0: a message or a piece arrives only after up to so many further polls of its
///   receiver, drawn from `seed`; the order
///            within a pair stays
///   threads  different members may be used at the same time
std::vector<std::unique_ptr<Transport>> make_local_transports(int members, int delays = 0,
                                                              uint64_t seed = 0);

}  // namespace tessera
