// Writes scalars in the format of TensorBoard, so that its pages show a run. It needs five kinds of
// field of protocol buffers, which are written by hand.
//
//     file    records, one after the other; the first contains "brain.Event:2"
//     record  u64 length, u32 masked checksum of the length's bytes, data, u32 masked checksum of
//             the data; little-endian
//     data    Event {1: double wall_time, 2: int64 step, 3: string file_version, 5: Summary},
//             Summary {1: repeated Value},
//             Value {1: string tag, 2: float simple_value}
//
// Source: tensorflow/core/util/event.proto, summary.proto and lib/io/record_writer.cc.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/files/file.h"

namespace tessera {

/// A value of a step under a tag such as "train/loss".
struct EventScalar {
  std::string_view tag;
  double value = 0;
};

/// The bytes of one record around `data`.
std::string event_record(std::string_view data);
/// The data of the first record. `wall_time` is in seconds since 1970.
std::string version_event(double wall_time);
std::string scalars_event(double wall_time, int64_t step, const std::vector<EventScalar>& scalars);

/// A new file events.out.tfevents.SECONDS.HOST.PID in `folder`, where TensorBoard finds it.
///   throws  UserError (1) when it cannot be written
class EventFile {
 public:
  explicit EventFile(const std::filesystem::path& folder);
  /// Adds scalars, which readers see at once.
  void add(int64_t step, const std::vector<EventScalar>& scalars);
  const std::filesystem::path& path() const { return file_.path(); }

 private:
  AppendedFile file_;
};

}  // namespace tessera
