// The device of one rank: its streams, and its side of the variables. It knows no programs.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "device/device.h"
#include "tasks/task_graph.h"

namespace tessera {

/// threads  that of its rank, or any while the rank rests
class RankDevice {
 public:
  explicit RankDevice(std::unique_ptr<Device> device);

  DeviceKind kind() const { return device_->kind(); }
  DeviceMemory allocate(Bytes size) { return device_->allocate(size); }
  /// requires  not kHost: that is the thread of the rank
  DeviceStream& stream(TaskStream stream) { return *streams_[static_cast<size_t>(stream)]; }

  /// Memory for a variable whose part on the host is at `host`, and stays there; it begins as that.
  /// The second call with a name gives the same address.
  std::byte* keep(const std::string& variable, std::byte* host, Bytes size);
  bool keeps(const std::string& variable) const { return variables_.contains(variable); }
  /// The parts on the host become those of the device, and the other way around.
  void fetch_variables();
  void store_variables();

  /// At once, whatever the streams do.
  void copy_out(std::byte* host, const std::byte* address, Bytes size);
  Bytes variable_bytes() const;

 private:
  struct Kept {
    DeviceMemory memory;
    std::byte* host = nullptr;
  };
  void finish();

  std::unique_ptr<Device> device_;
  std::map<std::string, Kept> variables_;
  std::array<std::unique_ptr<DeviceStream>, kTaskStreams>
      streams_;  // the place of the host's has that for what is done at once
};

}  // namespace tessera
