// A failure as bytes, to send it to the other processes of a run.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "runtime/comm/stop_state.h"

namespace tessera {

/// The bytes of a failure. Long texts are cut, so that the failure fits into one message of a
/// transport.
std::vector<std::byte> to_bytes(const Failure& failure);
/// The failure of bytes. Its error is a UserError if it was one, otherwise an InternalError.
///   throws  InternalError when the bytes are not those of a failure
Failure failure_from(std::span<const std::byte> bytes);

}  // namespace tessera
