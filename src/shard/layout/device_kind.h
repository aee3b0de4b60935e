// The kinds of devices that a rank computes on.
#pragma once

#include <string_view>
#include <vector>

namespace tessera {

enum class DeviceKind {
  /// The cores and the memory in which the program itself runs.
  kHost,
  /// A simulated accelerator with a memory of its own and streams that work while the host
  /// continues.
  kFake,
};
std::string_view to_text(DeviceKind kind);  // "host", "fake"
/// throws  UserError (78) that lists the kinds
DeviceKind parse_device_kind(std::string_view text);
std::vector<DeviceKind> all_device_kinds();

}  // namespace tessera
