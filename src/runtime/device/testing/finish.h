// Waiting for a stream, for tests.
#pragma once

#include <thread>

#include "runtime/device/device.h"

namespace tessera {

/// Waits for what `stream` was given.
///   throws  what that threw
inline void finish(DeviceStream& stream) {
  DeviceEvent event;
  stream.record(event);
  while (!event.reached()) std::this_thread::yield();
  event.rethrow();
}

}  // namespace tessera
