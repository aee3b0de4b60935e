// A failure as bytes, so that other members of a run can be told of it.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "comm/stop_state.h"

namespace tessera {

/// Long texts are cut, so that it fits into one message of a transport.
std::vector<std::byte> to_bytes(const Failure& failure);
/// The error is a UserError if it was one, else an InternalError.  throws  InternalError when these
/// are no such bytes
Failure failure_from(std::span<const std::byte> bytes);

}  // namespace tessera
