// The devices of the ranks of a process: the host, which all ranks share, the accelerator of each
// rank with its streams and its copies of variables, and the streams between a host and the file of
// offloaded variables. It knows no programs.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/units.h"
#include "runtime/device/device.h"
#include "task_graph/tasks/task_graph.h"

namespace tessera {

/// The accelerator of one rank.
///
///   threads  the thread of its rank, or any thread while the rank is idle
class RankDevice {
 public:
  explicit RankDevice(std::unique_ptr<Device> device);

  Device& device() { return *device_; }
  /// requires  `stream` is a stream of the device: not kHost, not kPrefetch
  DeviceStream& stream(TaskStream stream) { return *streams_[static_cast<size_t>(stream)]; }

  /// Memory for a variable whose part on the host is at `host` and does not move. Its first
  /// contents are those of that part. A later call with the same name returns the same address.
  std::byte* keep(const std::string& variable, std::byte* host, Bytes size);
  bool keeps(const std::string& variable) const { return variables_.contains(variable); }
  /// Copies the variables from the device to their parts on the host.
  void fetch_variables();
  /// Copies the variables from their parts on the host to the device.
  void store_variables();

  /// Copies at once, without waiting for the work of other streams.
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
  /// The entry of kHost is the stream of the copies that are done at once.
  std::array<std::unique_ptr<DeviceStream>, kTaskStreams> streams_;
};

/// The devices of all ranks of this process.
class RankDevices {
 public:
  explicit RankDevices(int ranks) : accelerators_(ranks), file_streams_(ranks) {}

  Device& host() { return *host_; }
  /// The accelerator of a rank; nullptr when no program has needed one.
  RankDevice* find(int rank_index) const { return accelerators_[rank_index].get(); }
  void add(int rank_index, std::unique_ptr<Device> device) {
    accelerators_[rank_index] = std::make_unique<RankDevice>(std::move(device));
  }
  /// The stream of a rank, of its accelerator or to and from the file.
  ///   requires  it has an accelerator, or make_file_streams() was called; not kHost, not kPrefetch
  DeviceStream& stream(int rank_index, TaskStream stream);
  /// Makes the streams of a rank between the memory of the host and `file`, which outlives them.
  void make_file_streams(int rank_index, Device& file);
  /// Copies the variables of all accelerators to the host.  requires  all ranks are idle
  void fetch_variables() const;
  void store_variables() const;

 private:
  std::unique_ptr<Device> host_ = make_host_device();
  /// Of the kinds kCopyIn and kCopyOut.
  struct FileStreams {
    std::unique_ptr<DeviceStream> in, out;
  };
  std::vector<std::unique_ptr<RankDevice>> accelerators_;  // by rank index
  std::vector<FileStreams> file_streams_;                  // the same; empty: it has none
};

}  // namespace tessera
