#include "sharding/layout/device_kind.h"

#include <string>

#include "base/error.h"
#include "base/text/text.h"

namespace tessera {

std::string_view to_text(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::kHost: return "host";
    case DeviceKind::kFake: return "fake";
    case DeviceKind::kFile: return "file";
  }
  throw InternalError("unknown kind of device");
}

bool is_accelerator(DeviceKind kind) {
  return kind == DeviceKind::kFake;
}

bool is_nearer(DeviceKind a, DeviceKind b) {
  const auto distance = [](DeviceKind kind) {
    if (is_accelerator(kind)) return 0;
    return kind == DeviceKind::kHost ? 1 : 2;
  };
  return distance(a) < distance(b);
}

DeviceKind parse_device_kind(std::string_view text) {
  std::vector<std::string> known;
  for (DeviceKind kind : all_device_kinds()) {
    if (text == to_text(kind)) return kind;
    known.emplace_back(to_text(kind));
  }
  throw UserError("'" + std::string(text) + "' is not a kind of device",
                  "the kinds are " + join(known, ", "), "use one of these", ExitCode::kBadConfig);
}

std::vector<DeviceKind> all_device_kinds() {
  return {DeviceKind::kHost, DeviceKind::kFake};
}

}  // namespace tessera
