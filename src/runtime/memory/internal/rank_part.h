// The part of one variable that one rank has.
#pragma once

#include <cstddef>
#include <span>

#include "runtime/device/file_device.h"
#include "runtime/memory/run_types.h"

namespace tessera {

/// In memory or in a file; of no bytes, with data() nullptr, when it is made by default.
class RankPart {
 public:
  RankPart() = default;
  /// Zeros.
  ///   file  where it rests, which outlives the part; nullptr: in memory
  RankPart(TensorType type, FileDevice* file) : type_(std::move(type)) {
    if (file && byte_size(type_) > Bytes(0))
      in_file_ = file->allocate(byte_size(type_));
    else
      memory_ = AlignedBuffer(byte_size(type_));
  }

  const TensorType& type() const { return type_; }
  std::byte* data() { return in_file_.address() ? in_file_.address() : memory_.data(); }
  std::span<const std::byte> bytes() const {
    const std::byte* data = in_file_.address() ? in_file_.address() : memory_.data();
    return data ? std::span(data, byte_size(type_).value()) : std::span<const std::byte>();
  }
  Bytes memory_bytes() const { return memory_.size(); }
  /// Gives back the memory in which the system keeps the file's pages.
  void release_pages() const { FileDevice::release_pages(in_file_); }

 private:
  TensorType type_;
  AlignedBuffer memory_ = {};
  DeviceMemory in_file_ = {};
};

}  // namespace tessera
