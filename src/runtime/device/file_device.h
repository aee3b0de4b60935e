// A file as the memory of a device: variables that a plan offloads rest there.
#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "runtime/device/device.h"

namespace tessera {

/// Memory in one file, which has no name any more once it is made: nothing is left behind when the
/// process ends. The host may read and write at the addresses, which are pages of the file; streams
/// copy between the file and the memory of the host without mapping pages of it.
///
///   threads  any; it outlives its memory and its streams
class FileDevice : public Device {
 public:
  explicit FileDevice(FileDeviceOptions options = {}) : options_(std::move(options)) {}
  ~FileDevice() override;
  FileDevice(const FileDevice&) = delete;
  FileDevice& operator=(const FileDevice&) = delete;

  DeviceKind kind() const override { return DeviceKind::kFile; }
  /// The blocks on the disk are allocated at once, so that no later write finds the disk full.
  ///   throws  UserError (1) when the folder or its disk has no space for it
  DeviceMemory allocate(Bytes size) override;
  /// Each stream is a thread. It launches no kernels.
  std::unique_ptr<DeviceStream> make_stream() override;
  /// throws  InternalError: a file runs no kernels
  BoundKernel bind(const LocalCall& call, const KernelSet* own) const override;

  /// Gives back the pages of the host that reading and writing at the addresses of `memory` took.
  /// What is in the file stays.
  static void release_pages(const DeviceMemory& memory);

  // These are for the streams of this device.
  ///   requires  `address` is one of this device
  ///   throws    UserError (1) when the disk fails
  void read(std::byte* to, const std::byte* address, Bytes size) const;
  void write(std::byte* address, const std::byte* from, Bytes size) const;

 private:
  struct Block {
    int64_t offset = 0;  // in the file
    size_t length = 0;   // whole pages
  };
  void open();
  int64_t offset_of(const std::byte* address) const;
  [[noreturn]] void refuse(const std::string& what, int error) const;

  const FileDeviceOptions options_;
  std::filesystem::path folder_;  // once it is open
  int file_ = -1;
  int64_t size_ = 0;  // of the file
  mutable std::mutex mutex_;
  std::map<const std::byte*, Block> blocks_;  // by address
};

}  // namespace tessera
