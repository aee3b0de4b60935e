// What a rank computes on.
#pragma once

#include <string_view>
#include <vector>

namespace tessera {

enum class DeviceKind {
  kHost,  // the cores and the memory that the program itself runs in
  kFake,  // an accelerator that is only pretended: a memory of its own, and streams that work on it
          // while the host goes on
};
std::string_view to_text(DeviceKind kind);  // "host", "fake"
/// throws  UserError (78) that lists the kinds
DeviceKind parse_device_kind(std::string_view text);
std::vector<DeviceKind> all_device_kinds();

}  // namespace tessera
