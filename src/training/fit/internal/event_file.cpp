#include "training/fit/internal/event_file.h"

#include <bit>
#include <cstring>

#include "training/checkpoint/crc32c.h"
#include "training/fit/internal/process_info.h"

namespace tessera {
namespace {

/// The byte order of the machine is that of the file.
static_assert(std::endian::native == std::endian::little);

template <typename Number>
void append(std::string& bytes, Number number) {
  char raw[sizeof(Number)];
  std::memcpy(raw, &number, sizeof(Number));
  bytes.append(raw, sizeof(Number));
}

/// Checksums of checksums are weak, so the format rotates them and adds a constant.
uint32_t masked(uint32_t checksum) {
  return std::rotr(checksum, 15) + 0xa282ead8u;
}

enum WireType { kVarint = 0, kFixed64 = 1, kLengthDelimited = 2, kFixed32 = 5 };

void append_varint(std::string& bytes, uint64_t value) {
  for (; value >= 128; value >>= 7) bytes += static_cast<char>((value & 127) | 128);
  bytes += static_cast<char>(value);
}

void append_tag(std::string& bytes, int field, WireType type) {
  append_varint(bytes, static_cast<uint64_t>(field) << 3 | static_cast<uint64_t>(type));
}

void append_text(std::string& bytes, int field, std::string_view text) {
  append_tag(bytes, field, kLengthDelimited);
  append_varint(bytes, text.size());
  bytes += text;
}

std::string event_at(double wall_time) {
  std::string event;
  append_tag(event, 1, kFixed64);
  append(event, wall_time);
  return event;
}

}  // namespace

std::string event_record(std::string_view data) {
  std::string record;
  append(record, static_cast<uint64_t>(data.size()));
  append(record, masked(crc32c(record)));
  record += data;
  append(record, masked(crc32c(data)));
  return record;
}

std::string version_event(double wall_time) {
  std::string event = event_at(wall_time);
  append_text(event, 3, "brain.Event:2");
  return event;
}

std::string scalars_event(double wall_time, int64_t step, const std::vector<EventScalar>& scalars) {
  std::string summary;
  for (const EventScalar& scalar : scalars) {
    std::string value;
    append_text(value, 1, scalar.tag);
    append_tag(value, 2, kFixed32);
    append(value, static_cast<float>(scalar.value));
    append_text(summary, 1, value);
  }
  std::string event = event_at(wall_time);
  append_tag(event, 2, kVarint);
  append_varint(event, static_cast<uint64_t>(step));
  append_text(event, 5, summary);
  return event;
}

namespace {

std::filesystem::path new_event_file(const std::filesystem::path& folder, int64_t seconds) {
  return folder / ("events.out.tfevents." + std::to_string(seconds) + "." + host_name() + "." +
                   std::to_string(process_id()));
}

}  // namespace

EventFile::EventFile(const std::filesystem::path& folder)
    : file_(new_event_file(folder, static_cast<int64_t>(seconds_since_1970()))) {
  file_.append(event_record(version_event(seconds_since_1970())));
}

void EventFile::add(int64_t step, const std::vector<EventScalar>& scalars) {
  file_.append(event_record(scalars_event(seconds_since_1970(), step, scalars)));
}

}  // namespace tessera
