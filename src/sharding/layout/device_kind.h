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
  /// A file of each process, in which variables rest that a plan offloads. It runs no kernels, so
  /// no mesh of a plan is of this kind.
  kFile,
};
std::string_view to_text(DeviceKind kind);  // "host", "fake", "file"
/// Does it run kernels in a memory of its own?
bool is_accelerator(DeviceKind kind);
/// Is the memory of `a` closer to kernels than that of `b`? A file is after the memory of the
/// host, and that is after the memory of an accelerator.
bool is_nearer(DeviceKind a, DeviceKind b);
/// The kinds that meshes of plans may have.
/// throws  UserError (78) that lists the kinds
DeviceKind parse_device_kind(std::string_view text);
std::vector<DeviceKind> all_device_kinds();

}  // namespace tessera
